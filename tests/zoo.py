"""Small ugly problems, given as plain arrays, so that an oracle needs nothing from the library.

A case is a table of state counts (or labels) and a list of `(scope, log table)`. Its factor graph
is what the algorithms see; its `log_weights`, one entry per joint state, are what the oracle sees
and are computed by plain loops. Everything is seeded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph
from credo.core.variable import Variable

__all__ = ["TREES", "ZOO", "Case", "case"]

Factors = list[tuple[tuple[str, ...], np.ndarray]]


@dataclass(frozen=True)
class Case:
    """One problem of the zoo."""

    id: str
    states: dict[str, Any]  # name -> count or labels
    factors: Factors  # (scope, log table) with axis k belonging to scope[k]
    build: Callable[[], FactorGraph] | None = None  # how the graph is made, if not factor by factor

    @cached_property
    def graph(self) -> FactorGraph:
        """What the algorithms are given."""
        if self.build is not None:
            return self.build()
        variables = {name: Variable(name, states) for name, states in self.states.items()}
        factors = [TableFactor.from_log([variables[n] for n in scope], t) for scope, t in self.factors]
        return FactorGraph(variables.values(), factors)

    @property
    def names(self) -> list[str]:
        return list(self.states)

    @cached_property
    def sizes(self) -> list[int]:
        return [s if isinstance(s, int) else len(s) for s in self.states.values()]

    @cached_property
    def log_weights(self) -> np.ndarray:
        """Log weight of every joint state, one axis per variable."""
        axis = {name: i for i, name in enumerate(self.names)}
        weights = np.zeros(self.sizes)
        for x in itertools.product(*map(range, self.sizes)):
            weights[x] = sum(float(table[tuple(x[axis[n]] for n in scope)]) for scope, table in self.factors)
        return weights

    @cached_property
    def is_tree(self) -> bool:
        """Whether the bipartite graph of variables and factors has no cycle."""
        root = {name: name for name in self.names}

        def find(i: str) -> str:
            while root[i] != i:
                i = root[i]
            return i

        for scope, _ in self.factors:
            tops = [find(n) for n in scope]
            if len(set(tops)) < len(tops):
                return False
            for top in tops[1:]:
                root[top] = tops[0]
        return True

    @cached_property
    def evidences(self) -> dict[str, dict[str, Any]]:
        """Some evidence of positive probability, by what is special about it."""
        found: dict[str, dict[str, Any]] = {"none": {}}
        if not self.names:
            return found
        rng = np.random.default_rng(5)
        possible = np.argwhere(self.log_weights > -np.inf)
        x = dict(zip(self.names, possible[rng.integers(len(possible))].tolist(), strict=True))
        degree = {n: sum(n in scope for scope, _ in self.factors) for n in self.names}
        inside = max(self.names, key=lambda n: degree[n])
        last = self.names[-1]
        found["hard"] = {self.names[0]: x[self.names[0]]}
        found["inside"] = {inside: x[inside]}
        found["soft"] = {last: self._likelihood(last, x[last], rng)}
        found["several"] = {n: x[n] for n in self.names[:-1:2]} | {last: self._likelihood(last, x[last], rng)}
        found["everything"] = dict(x)
        return found

    def _likelihood(self, name: str, state: int, rng: np.random.Generator) -> list[float]:
        """A likelihood vector, positive at `state` and zero at one other state if there are three."""
        vector = rng.uniform(0.1, 3.0, self.sizes[self.names.index(name)])
        if len(vector) > 2:
            vector[(state + 1) % len(vector)] = 0.0
        return vector.tolist()


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _numbered(sizes: list[int]) -> dict[str, Any]:
    return {f"x{i}": s for i, s in enumerate(sizes)}


def _random(id: str, sizes: list[int], scopes: list[tuple[int, ...]], seed: int, spread: float = 1.0) -> Case:
    """Normal log tables over the given scopes."""
    rng = _rng(seed)
    factors = [
        (tuple(f"x{i}" for i in scope), spread * rng.standard_normal([sizes[i] for i in scope]))
        for scope in scopes
    ]
    return Case(id, _numbered(sizes), factors)


def _tree_scopes(n: int, seed: int) -> list[tuple[int, ...]]:
    rng = _rng(seed)
    return [(int(rng.integers(i)), i) for i in range(1, n)]


def _grid_scopes(rows: int, columns: int) -> list[tuple[int, ...]]:
    at = np.arange(rows * columns).reshape(rows, columns)
    across = list(zip(at[:, :-1].ravel().tolist(), at[:, 1:].ravel().tolist(), strict=True))
    down = list(zip(at[:-1].ravel().tolist(), at[1:].ravel().tolist(), strict=True))
    return across + down + [(i,) for i in range(rows * columns)]


def _ising_grid(id: str, coupling: float, seed: int) -> Case:
    rng = _rng(seed)
    spin = np.array([-1.0, 1.0])
    factors: Factors = []
    for scope in _grid_scopes(3, 3):
        names = tuple(f"x{i}" for i in scope)
        table = spin * rng.uniform(-0.3, 0.3)
        if len(scope) == 2:
            table = coupling * rng.uniform(-1, 1) * np.outer(spin, spin)
        factors.append((names, table))
    return Case(id, _numbered([2] * 9), factors)


def _with_zeros(case: Case, id: str, seed: int) -> Case:
    """Some entries become zero weights; one joint state is kept possible."""
    rng = _rng(seed)
    kept = {n: int(rng.integers(s)) for n, s in zip(case.names, case.sizes, strict=True)}
    factors: Factors = []
    for scope, full in case.factors:
        table = np.where(rng.random(full.shape) < 0.4, -np.inf, full)
        at = tuple(kept[n] for n in scope)
        table[at] = max(float(table[at]), 0.0)
        factors.append((scope, table))
    return Case(id, case.states, factors)


def _parity(order: int) -> np.ndarray:
    """Log of the indicator that an even number of arguments are 1."""
    total = np.indices([2] * order).sum(axis=0)
    return np.where(total % 2 == 0, 0.0, -np.inf)


def _parity_checks() -> Case:
    factors: Factors = [((f"x{i}",), np.log([0.9 - 0.1 * i, 0.1 + 0.1 * i])) for i in range(6)]
    for scope in (("x0", "x1", "x3"), ("x1", "x2", "x4"), ("x0", "x2", "x4", "x5")):
        factors.append((scope, _parity(len(scope))))
    return Case("parity checks", _numbered([2] * 6), factors)


def _wide_range() -> Case:
    rng = _rng(31)
    sizes, scopes = [2, 3, 2, 2], [(0, 1), (1, 2), (2, 3), (3, 0), (1,)]
    factors: Factors = []
    for scope in scopes:
        names = tuple(f"x{i}" for i in scope)
        factors.append((names, rng.uniform(-800, 800, [sizes[i] for i in scope])))
    return Case("weights from exp(-800) to exp(800)", _numbered(sizes), factors)


def _all_tiny() -> Case:
    rng = _rng(32)
    factors: Factors = [((f"x{i}", f"x{i + 1}"), rng.uniform(-700, -690, (2, 2))) for i in range(7)]
    return Case("every weight underflows", _numbered([2] * 8), factors)


def _shared_tables() -> Case:
    """A ring of six variables whose factors point at one table, and unary factors at another."""
    rng = _rng(33)
    pair, single = rng.standard_normal((3, 3)), rng.standard_normal(3)
    scopes = np.stack([np.arange(6), (np.arange(6) + 1) % 6], axis=1)
    factors: Factors = [((f"x{i}", f"x{j}"), pair) for i, j in scopes.tolist()]
    factors += [((f"x{i}",), single) for i in range(6)]

    def build() -> FactorGraph:
        return FactorGraph.from_arrays(
            np.full(6, 3), (scopes, pair), (np.arange(6)[:, None], single), log=True
        )

    return Case("shared tables", _numbered([3] * 6), factors, build)


def _bayes_net() -> Case:
    """A net with labels, a deterministic child and a collider."""
    states = {
        "season": ["dry", "wet", "cold"],
        "rain": ["no", "yes"],
        "sprinkler": ["off", "on"],
        "grass": ["dry", "wet"],
        "road": ["dry", "wet"],
    }
    rain = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]
    sprinkler = [[0.2, 0.8], [0.9, 0.1], [1.0, 0.0]]
    grass = [[[0.98, 0.02], [0.2, 0.8]], [[0.1, 0.9], [0.01, 0.99]]]
    tables = [
        (("season",), [0.5, 0.3, 0.2]),
        (("season", "rain"), rain),
        (("season", "sprinkler"), sprinkler),
        (("rain", "sprinkler", "grass"), grass),
        (("rain", "road"), [[1.0, 0.0], [0.0, 1.0]]),
    ]
    with np.errstate(divide="ignore"):
        factors = [(scope, np.log(np.array(table))) for scope, table in tables]
    return Case("bayes net", states, factors)


def _zoo() -> list[Case]:
    scalar = np.array(0.7)
    tree = _random("random tree, mixed state counts", [2, 3, 4, 2, 3, 2], _tree_scopes(6, 1), 2)
    grid = _random("grid 3x3", [2] * 9, _grid_scopes(3, 3), 8)
    isolated = _random("isolated variable", [2, 3, 2], [(0, 2)], 15)
    return [
        Case("no variables", {}, []),
        Case("no variables, one constant", {}, [((), scalar)]),
        Case("no factors", _numbered([2, 3, 1]), []),
        _random("single variable", [4], [(0,)], 3),
        _random("pair", [2, 3], [(0, 1)], 4),
        _random("chain", [2, 3, 2, 3, 2], [(0, 1), (1, 2), (2, 3), (3, 4), (0,)], 5),
        _random("star", [3, 2, 2, 2, 4], [(0, 1), (2, 0), (0, 3), (4, 0), (3,)], 6),
        tree,
        _with_zeros(tree, "tree with zeros", 7),
        _random("3-cycle", [2, 3, 2], [(0, 1), (1, 2), (2, 0)], 9),
        _random("4-cycle", [2, 2, 3, 2], [(0, 1), (1, 2), (2, 3), (3, 0)], 10),
        grid,
        _with_zeros(grid, "grid with zeros", 11),
        _random("grid 2x4", [2, 3, 2, 2, 3, 2, 2, 2], _grid_scopes(2, 4), 12),
        _ising_grid("strong coupling", 6.0, 13),
        _random("complete graph", [2, 3, 2, 2, 3], list(itertools.combinations(range(5), 2)), 14),
        _random("three-way factors", [2, 3, 2, 2, 3], [(0, 1, 2), (2, 3, 4), (4, 0), (1,)], 16),
        _random("four-way factors", [2, 2, 3, 2, 2, 2], [(0, 1, 2, 3), (5, 3, 1, 4), (2, 5)], 17),
        _random("three-way tree", [2, 3, 2, 2, 3], [(0, 1, 2), (2, 3, 4), (1,)], 18),
        _random("one-state variables", [1, 2, 1, 3], [(0, 1), (1, 2), (2, 3), (0,), (1, 3)], 19),
        _random("only one-state variables", [1, 1], [(0, 1), (1,)], 20),
        isolated,
        Case("empty scope", isolated.states, [*isolated.factors, ((), scalar), ((), -scalar / 2)]),
        _random("disconnected parts", [2, 3, 2, 2, 2], [(0, 1), (2, 3), (3, 4), (4, 2)], 21),
        _random("repeated scopes", [2, 3, 2], [(0, 1), (0, 1), (1, 2), (2,), (2,)], 22),
        _random("reversed scopes", [2, 3, 4], [(0, 1), (1, 0), (2, 1), (1, 2), (2, 1, 0)], 23),
        Case("xor", _numbered([2] * 3), [(("x0", "x1", "x2"), _parity(3)), (("x0",), np.log([0.2, 0.8]))]),
        _parity_checks(),
        _wide_range(),
        _all_tiny(),
        _shared_tables(),
        _bayes_net(),
    ]


ZOO = _zoo()
TREES = [c for c in ZOO if c.is_tree]


def case(id: str) -> Case:
    """The case of this name."""
    return next(c for c in ZOO if c.id == id)
