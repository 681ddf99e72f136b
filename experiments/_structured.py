"""What the experiments of structured prediction share: the simulated chains and grids, learners, scores.

A *site* is a label y or a hidden state h, in turn, so that no two of a kind touch. Every site, or every site
of one kind, has an input x. All have four states, all weights belong to a single node or edge:

    p(x, y, h) ~ exp( sum_i theta_i(s_i) + sum_edges theta_ij(s_i, s_j) )

with theta of nodes N(0, sigma_x^2), N(0, sigma_y^2), N(0, sigma_h^2) and tables N(0, sigma_pair^2). (x, y, h)
are drawn together, exactly. The source draws its wiring in a picture that its text does not have, so `inputs`
says which sites have one.

Learned are CRFs over the sites whose features are one of (site, x) and one per edge, so every node and edge
has its weights; labels of hidden sites are missing. Weights start at N(0, 0.3^2), since hidden states cannot
be told apart at zero; data and starts are the same for all methods. Step sizes are chosen per method on
validation data.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import credo
from credo import FactorGraph
from credo.core.errors import ConvergenceWarning
from credo.learning import GraphAnswers, member_of
from credo.learning.structured_chains import answers_of
from credo.learning.structured_risk import flat_of

STATES = 4
METHODS = {"MSSVM": "mssvm", "LSSVM": "lssvm", "HCRF": "hcrf"}
RATES = (0.4, 0.1, 0.02)
SUBGRADIENT = "subgradient(rate={rate})"
CCCP = "cccp(inner=subgradient(rate={rate}), steps=10)"
START = 0.3  # deviation of first weights
NAMES = tuple(str(k) for k in range(STATES))


class Wiring(NamedTuple):
    """Sites and what joins them."""

    pairs: np.ndarray  # (edges, 2) neighbouring sites
    hidden: np.ndarray  # (sites,) flags
    seen: np.ndarray  # (sites,) whether there is an input


def chain(sites: int, inputs: str) -> Wiring:
    """Sites in a row, the first a label."""
    at = np.arange(sites)
    return _wired(np.stack([at[:-1], at[1:]], axis=1), at % 2 == 1, inputs)


def grid(side: int, inputs: str) -> Wiring:
    """Sites on a square lattice, coloured like a chess board."""
    at = np.arange(side * side).reshape(side, side)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    return _wired(np.concatenate([across, down]), (at // side + at % side).ravel() % 2 == 1, inputs)


def _wired(pairs: np.ndarray, hidden: np.ndarray, inputs: str) -> Wiring:
    seen = {"all": np.ones_like(hidden), "hidden": hidden, "labels": ~hidden}[inputs]
    return Wiring(pairs, hidden, seen)


class Sample(NamedTuple):
    """Instances: what is seen, and the labels."""

    x: np.ndarray  # (instances, sites) -1 where a site has no input
    y: np.ndarray  # (instances, sites) states of all sites


@lru_cache(maxsize=4)
def truth(wiring_key: tuple[str, int, str], sigma_h: float, seed: int) -> FactorGraph:
    """Sites first, then inputs."""
    wiring = wiring_of(*wiring_key)
    rng = np.random.default_rng([seed, 1])
    sites, seen = len(wiring.hidden), np.flatnonzero(wiring.seen)
    scale = np.where(wiring.hidden, sigma_h, 0.1)
    nodes = np.concatenate([scale[:, None] * rng.standard_normal((sites, STATES)),
                            0.1 * rng.standard_normal((len(seen), STATES))])  # fmt: skip
    pairs = np.concatenate([wiring.pairs, np.stack([seen, sites + np.arange(len(seen))], axis=1)])
    tables = 2.0 * rng.standard_normal((len(pairs), STATES, STATES))
    sizes = np.full(len(nodes), STATES)
    return FactorGraph.from_arrays(sizes, (np.arange(len(nodes))[:, None], nodes), (pairs, tables), log=True)


def wiring_of(kind: str, size: int, inputs: str) -> Wiring:
    """By name."""
    return chain(size, inputs) if kind == "chain" else grid(size, inputs)


def draw(key: tuple[str, int, str], sigma_h: float, count: int, seed: int, part: int) -> Sample:
    """Instances of the truth of this seed."""
    wiring = wiring_of(*key)
    states = credo.sample(truth(key, sigma_h, seed), count, seed=1000 * seed + part).indices
    sites = len(wiring.hidden)
    x = np.full((count, sites), -1)
    x[:, wiring.seen] = states[:, sites:]
    return Sample(x, states[:, :sites])


def inputs_of(wiring: Wiring, sample: Sample, *, is_chain: bool) -> list[Any]:
    """Instances as a CRF reads them."""
    sites, edges = len(wiring.hidden), None if is_chain else wiring.pairs
    extra = np.eye(len(wiring.pairs))
    found = []
    for x in sample.x:
        rows = np.zeros((sites, sites * (STATES + 1)))
        at = np.arange(sites)
        rows[at, at * (STATES + 1)] = 1.0
        known = np.flatnonzero(x >= 0)
        rows[known, known * (STATES + 1) + 1 + x[known]] = 1.0
        found.append((rows, edges, extra))
    return found


def labels_of(wiring: Wiring, sample: Sample) -> list[list[Any]]:
    """Labels, None where hidden."""
    return [[None if h else NAMES[s] for s, h in zip(y, wiring.hidden, strict=True)] for y in sample.y]


def first_field(wiring: Wiring, seed: int) -> Any:
    """Small random weights."""
    rng = np.random.default_rng([seed, 2])
    sites, edges = len(wiring.hidden), len(wiring.pairs)
    node = START * rng.standard_normal((sites * (STATES + 1), STATES))
    return credo.CRF(NAMES, node, START * rng.standard_normal((edges, STATES, STATES)))


def learn(field: Any, X: Any, y: Any, learner: str, **options: Any) -> Any:
    """A fit, in silence about steps that ran out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(field, X, learner, targets=y, **options)


def learner_of(method: str, optimiser: str, scale: float = 1.0) -> str:
    """The learner of a method."""
    return f"structured(objective={METHODS[method]}, optimiser={optimiser}, prior=gaussian(scale={scale!r}))"


def accuracy(
    field: Any, wiring: Wiring, sample: Sample, method: str, *, is_chain: bool, inference: str | None = None
) -> float:
    """Share of labels that are right, decoded as the method was learned: with the same inference."""
    X, visible = inputs_of(wiring, sample, is_chain=is_chain), ~wiring.hidden
    if method == "HCRF":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            parts = credo.predict(field, X, inference=inference)
        told = np.stack([np.asarray(part).astype(int) for part in parts])
    else:
        told = best_labels(field, X, labels_of(wiring, sample), METHODS[method], inference)
    return float((told[:, visible] == sample.y[:, visible]).mean())


def best_labels(field: Any, X: Any, y: Any, objective: str, inference: str | None) -> np.ndarray:
    """Annealed marginal MAP of the sites that have labels; what `y` says about them is not looked at."""
    member, batch = member_of(objective), field.read_batch(X, y)
    fast = answers_of(member, None, batch) if inference is None else None
    if fast is None and hasattr(batch, "as_graphs"):
        batch = batch.as_graphs(STATES)
    weights = field.score_weights(batch)
    scores = weights.scores(weights.start, batch)
    if fast is not None:
        return fast.best(scores, batch).reshape(len(X), -1)
    answers, flat = GraphAnswers(member, None, inference), flat_of(scores)
    (group,) = answers.groups(batch)
    found = answers.best(group, group.tables(flat)).labels
    assert found is not None
    return found[np.argsort(group.which)]


class Trial(NamedTuple):
    """One draw of the truth, with parts to learn from, to choose step sizes on, and to test on."""

    key: tuple[str, int, str]
    train: Sample
    validation: Sample
    test: Sample
    seed: int

    @classmethod
    def of(
        cls, key: tuple[str, int, str], sigma_h: float, seed: int, train: int = 20, test: int = 100
    ) -> Trial:
        """The same draws for all methods."""
        counts = (train, max(20, train), test)
        return cls(key, *(draw(key, sigma_h, n, seed, part) for part, n in enumerate(counts)), seed)

    def scores(
        self, method: str, optimiser: str, steps: int, inference: str | None = None
    ) -> tuple[dict[str, float], Any]:
        """Test accuracy, and the fit, of the step size that is best on the validation part."""
        wiring, is_chain = wiring_of(*self.key), self.key[0] == "chain"
        X, y = inputs_of(wiring, self.train, is_chain=is_chain), labels_of(wiring, self.train)
        options = {"max_iter": steps, "tol": 1e-6, "seed": self.seed}
        if inference is not None:
            options["inference"] = inference
        how = {"is_chain": is_chain, "inference": inference}
        best: tuple[float, Any] = (-1.0, None)
        for rate in RATES:
            learner = learner_of(method, optimiser.format(rate=rate))
            fit = learn(first_field(wiring, self.seed), X, y, learner, **options)
            held = accuracy(fit.model, wiring, self.validation, method, **how)
            if held > best[0]:
                best = (held, fit)
        model = best[1].model
        found = {"accuracy": 100 * accuracy(model, wiring, self.test, method, **how)}
        if is_chain:
            found["log-likelihood"] = log_likelihood(model, wiring, self.test, is_chain=True)
        return found, best[1]


def compared(found: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The same with the differences of accuracy to the first method, trial by trial."""
    ours = found["MSSVM"]["accuracy"]
    for method in ("LSSVM", "HCRF"):
        found[f"MSSVM - {method}"] = {"accuracy": ours - found[method]["accuracy"]}
    return found


def log_likelihood(field: Any, wiring: Wiring, sample: Sample, *, is_chain: bool) -> float:
    """Mean log p(y | x) of an instance, hidden states summed out."""
    X = inputs_of(wiring, sample, is_chain=is_chain)
    return float(credo.log_likelihood(field, X, targets=labels_of(wiring, sample)).value) / len(X)
