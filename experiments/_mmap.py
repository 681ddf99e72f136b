"""What the experiments on marginal MAP share: models, all splits, exact values, and both methods.

Three variables B are maximised and the others summed, for every choice of three. Mixture beliefs are found
once per model and then asked for every split ("one-shot"); mixed-product BP starts anew for each of them,
with random messages, 50 sweeps and 200 more if it has not settled. The answers are judged by exact
marginals:

    RE = (p(x_B) - p(x*_B)) / p(x*_B) <= 0,        correct if RE = 0
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from _bethe import TREE, infer

import credo

__all__ = [
    "EQUAL",
    "Truth",
    "ask",
    "chosen_mixture",
    "discretise",
    "mixed_product",
    "mixture",
    "random_tree",
    "relative_errors",
    "tic_tac_toe",
]

Answers = dict[tuple[int, ...], tuple[int, ...]]  # split -> states

SWEEPS, MORE = 50, 200  # of mixed-product BP
STEPS = 500  # of a mixture
SPREADS = (
    0.1,
    0.3,
    1.0,
)  # sd of the logits that a mixture starts from; the first is that of the published columns
NEAR = 0.01  # nats of the free energy that do not matter
EQUAL = 1e-9  # relative: what counts as the optimum


def random_tree(states: int, sigma: float, seed: int) -> credo.MarkovNet:
    """The eight-node tree (8.10): theta_i ~ N(0, 0.01), theta_ij ~ N(0, sigma^2) per table entry."""
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(8)]
    factors = {(n,): np.exp(rng.normal(0.0, 0.1, states)) for n in names}
    for i, j in TREE:
        factors[names[i], names[j]] = np.exp(rng.normal(0.0, sigma, (states, states)))
    return credo.MarkovNet(dict.fromkeys(names, states), factors)


class Truth:
    """Exact marginals of three variables, from the table of all joint states."""

    def __init__(self, model: Any) -> None:
        graph = model.to_factor_graph()
        self.names = graph.variables.names
        total = np.zeros([1] * len(self.names))
        for a in range(graph.n_factors):
            shape = np.ones(len(self.names), dtype=np.int64)
            scope = graph.scope_of(a)
            shape[scope] = graph.variables.sizes[scope]
            table = graph.log_table(a).transpose(np.argsort(scope))
            total = total + table.reshape(shape)
        weight = np.exp(total - total.max())
        self.joint = weight / weight.sum()
        self._tables: dict[tuple[int, ...], np.ndarray] = {}

    @property
    def splits(self) -> Iterator[tuple[int, ...]]:
        """All choices of three variables."""
        return itertools.combinations(range(len(self.names)), 3)

    def table(self, split: tuple[int, ...]) -> np.ndarray:
        """The marginal of three variables, in rising order."""
        if split not in self._tables:
            others = tuple(i for i in range(self.joint.ndim) if i not in split)
            self._tables[split] = self.joint.sum(axis=others)
        return self._tables[split]


def relative_errors(truth: Truth, answers: Answers) -> np.ndarray:
    """RE of every split's answer."""
    found = []
    for split, states in answers.items():
        table = truth.table(split)
        found.append(table[states] / table.max() - 1.0)
    return np.array(found)


def mixed_product(model: Any, truth: Truth, seed: int) -> Answers:
    """The answer of mixed-product BP to every split, each from random messages."""
    method, found = "bp(schedule=flooding, random_start=true)", {}
    for k, split in enumerate(truth.splits):
        names = [truth.names[i] for i in split]
        result = infer(model, method, maximise=names, max_iter=SWEEPS, seed=1000 * seed + k)
        if not result.converged:
            result = infer(model, method, maximise=names, max_iter=MORE, warm_start=result, seed=0)
        found[split] = tuple(result.assignment.index(n) for n in names)
    return found


def mixture(model: Any, components: int, seed: int) -> Any:
    """A mixture from random tables, close to uniform, as in the source."""
    spec = f"bethe(renewals=0, components={components}, spread={SPREADS[0]})"
    return infer(model, spec, max_iter=STEPS, seed=seed).state


def chosen_mixture(model: Any, components: int, seed: int) -> Any:
    """Of mixtures from starts of different spread the tightest start whose free energy is near the best.

    Strong couplings need starts that differ; a start that is more random than it needs to be leaves
    arbitrary dependences between variables that share no factor, which the free energy does not see.
    """
    found = [
        infer(
            model,
            f"bethe(renewals=0, components={components}, spread={s}, restarts=3)",
            max_iter=STEPS,
            seed=seed,
        ).state
        for s in SPREADS
    ]
    best = max(one.log_z.value for one in found)
    return next(one for one in found if one.log_z.value >= best - NEAR)


def ask(truth: Truth, one: Any) -> Answers:
    """The answer of one mixture to every split."""
    found = {}
    for split in truth.splits:
        names = [truth.names[i] for i in split]
        best = one.maximum(names)
        found[split] = tuple(best.index(n) for n in names)
    return found


def discretise(table: np.ndarray, labels: np.ndarray, bins: int = 3) -> dict[str, np.ndarray]:
    """Columns in bins with about equally many rows each, and the class."""
    columns = {}
    for i, column in enumerate(table.T):
        cuts = np.unique(np.quantile(column, np.arange(1, bins) / bins))
        columns[f"x{i}"] = np.searchsorted(cuts, column, side="left")
    return {**columns, "class": labels}


def tic_tac_toe() -> dict[str, np.ndarray]:
    """All final boards of games that x begins, and whether x has won: 958 rows."""
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    ends: set[tuple[int, ...]] = set()

    def won(board: tuple[int, ...], player: int) -> bool:
        return any(all(board[i] == player for i in line) for line in lines)

    @functools.cache
    def play(board: tuple[int, ...], player: int) -> None:
        if won(board, 3 - player) or 0 not in board:
            ends.add(board)
            return
        for i in range(9):
            if not board[i]:
                play((*board[:i], player, *board[i + 1 :]), 3 - player)

    play((0,) * 9, 1)
    boards = np.array(sorted(ends))
    if len(boards) != 958:
        raise AssertionError(f"expected 958 final boards, got {len(boards)}")
    squares = {f"square{i}": boards[:, i] for i in range(9)}
    return {**squares, "class": np.array([int(won(tuple(b), 1)) for b in boards.tolist()])}
