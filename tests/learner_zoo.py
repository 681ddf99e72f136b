"""Small models with rows drawn from them: what every learner is tried on.

    python tests/learner_zoo.py LEARNER SUBJECT CHECKPOINT

fits with a checkpoint after every step, slowly, so that somebody can kill it, and prints what it found.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import credo
from credo.core.errors import UnsupportedError
from credo.core.fingerprint import fingerprint
from credo.core.packing import pack
from credo.families import Categorical, DiagonalGaussian, Flow, Mixture, Poisson, Product, StudentT
from credo.learning import Fit, log_likelihood
from credo.models import SemiMarkov, TopicModel
from credo.models.normal_form_build import embedding
from credo.optimise import driver

__all__ = ["LIMITS", "SUBJECTS", "Subject", "digest", "try_fit"]

LIMITS: dict[str, Any] = {"max_iter": 12, "tol": 1e-9}  # of runs that are cut
_ROWS, _HELD = 800, 2000


@dataclass(frozen=True, eq=False)
class Subject:
    """A truth, rows drawn from it, and a model of the same structure that knows nothing yet."""

    id: str
    make: Callable[[], tuple[Any, Any, Callable[[int, int], Any]]]  # truth, start, draw(rows, seed)
    rows: int = _ROWS
    held: int = _HELD

    @property
    def truth(self) -> Any:
        """What the rows come from."""
        return _made(self)[0]

    @property
    def start(self) -> Any:
        """Where learning begins."""
        return _made(self)[1]

    def data(self, seed: int = 0, rows: int | None = None) -> Any:
        """Rows to learn from."""
        return _made(self)[2](self.rows if rows is None else rows, seed)

    def held_out(self, model: Any) -> float:
        """Log-likelihood of other rows, each."""
        return log_likelihood(model, self.data(99, self.held)).value / self.held


@cache
def _made(subject: Subject) -> tuple[Any, Any, Any]:
    return subject.make()


def _columns(model: Any, rows: int, seed: int, without: tuple[str, ...] = (), gaps: float = 0.0) -> Any:
    """Columns of a sample, some left out, and some cells missing."""
    drawn = credo.sample(model, rows, seed=seed)
    rng = np.random.default_rng(seed + 1000)
    found: dict[str, Any] = {}
    for v in model.to_factor_graph().variables:
        if v.name in without:
            continue
        column, gone = drawn.column(v.name), rng.random(rows) < gaps
        found[v.name] = [None if skip else x for skip, x in zip(gone, column.tolist(), strict=True)]
    found[next(iter(found))] = drawn.column(next(iter(found)))  # no row observes nothing
    return found


def _network(gaps: float = 0.0) -> Any:
    states, parents = {"a": 2, "b": 3, "c": 2, "d": 2}, {"b": ["a"], "c": ["b"], "d": ["b"]}
    truth = credo.BayesNet.random(states, parents, seed=3)
    start = credo.BayesNet.random(states, parents, seed=4)
    return truth, start, lambda rows, seed: _columns(truth, rows, seed, gaps=gaps)


def _coins() -> Any:
    states = dict.fromkeys(["coin", "x", "y", "z", "w"], 2)
    parents = {name: ["coin"] for name in "xyzw"}
    truth = credo.BayesNet(
        states, parents, {"coin": [0.4, 0.6]} | {n: [[0.9, 0.1], [0.2, 0.8]] for n in "xyzw"}
    )
    start = credo.BayesNet(
        states, parents, {"coin": [0.5, 0.5]} | {n: [[0.6, 0.4], [0.4, 0.6]] for n in "xyzw"}
    )
    return truth, start, lambda rows, seed: _columns(truth, rows, seed, without=("coin",))


def _mixed(gaps: float = 0.0) -> Any:
    states: Any = {"kind": 2, "x": credo.Real(), "y": credo.Real()}
    parents = {"x": ["kind"], "y": ["kind", "x"]}
    tables = {"kind": [0.3, 0.7], "x": {"bias": [-1.0, 2.0], "variance": [1.0, 0.5]}}
    y = {"bias": [0.0, 1.0], "variance": [0.5, 1.0], "weights": [[1.0], [-2.0]]}
    flat = {"kind": [0.5, 0.5], "x": {"bias": [-0.5, 0.5], "variance": 4.0}}
    none = {"bias": 0.0, "variance": 9.0, "weights": [[0.0], [0.0]]}
    truth = credo.BayesNet(states, parents, tables | {"y": y})
    start = credo.BayesNet(states, parents, flat | {"y": none})
    return truth, start, lambda rows, seed: _columns(truth, rows, seed, gaps=gaps)


def _field(without: tuple[str, ...] = ()) -> Any:
    states = dict.fromkeys("abcd", 2)
    scopes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    rng = np.random.default_rng(0)
    truth = credo.MarkovNet(states, {s: np.exp(rng.normal(size=(2, 2))) for s in scopes})
    start = credo.MarkovNet(states, {s: np.ones((2, 2)) for s in scopes})
    return truth, start, lambda rows, seed: _columns(truth, rows, seed, without=without)


def _labels() -> Any:
    """Labels beside features: what is learned is conditional."""
    rng = np.random.default_rng(0)
    truth = credo.CRF(["a", "b", "c"], rng.normal(size=(2, 3)), 2 * np.eye(3))
    start = truth.with_weights(np.zeros((2, 3)), np.zeros((3, 3)))

    def draw(rows: int, seed: int) -> Any:
        x = np.random.default_rng(seed).normal(size=(rows // 4, 4, 2))
        states = credo.sample(truth, 1, data=list(x), seed=seed)["label"]
        return credo.data.read(list(x), targets=[np.array(truth.labels)[part[0]] for part in states])

    return truth, start, draw


def _documents() -> Any:
    """Counts of words; both ends know how many words there are."""
    rows = 20 * np.array([[[0.5, 0.4, 0.05, 0.05], [0.05, 0.05, 0.4, 0.5]]])
    truth = TopicModel(2, doc_topic_prior=0.3, concentrations=100 * rows)
    start = truth.with_beliefs(1 + 0.1 * rows, [1.0], [0.5, 0.5])
    return truth, start, lambda rows, seed: credo.sample(truth, lengths=[20] * (rows // 10), seed=seed)[0]


def _units() -> Any:
    """Rows of visible units."""
    weights = np.array([[4.0, 0.0], [-4.0, 1.0], [4.0, -1.0], [0.5, 3.0]])
    truth = credo.RBM(weights, [-1.0, 1.0, -2.0, -1.0], [-1.0, -1.0])

    def draw(rows: int, seed: int) -> Any:
        drawn = credo.sample(truth, rows, method="enumerate", seed=seed)
        return {name: drawn.column(name) for name in ("v0", "v1", "v2", "v3")}

    start = credo.RBM(0.1 * weights[::-1], np.zeros(4), np.zeros(2))
    return truth, start, draw


def _embedding() -> Any:
    truth = credo.BayesNet(
        {"S": 2, "X": 2, "Y": 3},
        {"X": ["S"], "Y": ["S"]},
        {"S": [0.5, 0.5], "X": [[0.9, 0.1], [0.2, 0.8]], "Y": [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]},
    )
    start = embedding({"X": 2, "Y": 3}, 2)
    return truth, start, lambda rows, seed: _columns(truth, rows, seed, without=("S",))


def _sequences(truth: Any, start: Any) -> Any:
    def draw(rows: int, seed: int) -> Any:
        return np.split(credo.sample(truth, lengths=[rows // 4] * 4, seed=seed)[0], 4)

    return truth, start, draw


def _gaussian_chain() -> Any:
    def model(means: Any, stay: float) -> Any:
        family = DiagonalGaussian(np.array(means)[:, None], np.ones((2, 1)))
        return credo.HMM([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], family)

    return _sequences(model([-2.0, 2.0], 0.9), model([-0.5, 0.5], 0.6))


def _categorical_chain() -> Any:
    def model(p: float, stay: float) -> Any:
        family = Categorical([[p, (1 - p) / 2, (1 - p) / 2], [(1 - p) / 2, (1 - p) / 2, p]])
        return credo.HMM([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], family)

    return _sequences(model(0.9, 0.9), model(0.5, 0.6))


def _segments() -> Any:
    def model(rates: Any, durations: Any) -> Any:
        return SemiMarkov([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], durations, Poisson(rates))

    sharp, flat = [[0.0, 0.1, 0.9], [0.1, 0.8, 0.1]], np.full((2, 3), 1 / 3)
    return _sequences(model([1.0, 8.0], sharp), model([2.0, 5.0], flat))


def _sums() -> Any:
    def model(effect: float, stay: float) -> Any:
        move, half = [[stay, 1 - stay], [1 - stay, stay]], [0.5, 0.5]
        effects = [[[0.0], [effect]], [[0.0], [3 * effect]]]
        return credo.FactorialHMM.additive([half, half], [move, move], effects, [[0.5]])

    return _sequences(model(2.0, 0.9), model(0.5, 0.6))


def _gaussian_net() -> Any:
    precision = np.array([[2.0, -0.9, 0.0], [-0.9, 2.0, 0.7], [0.0, 0.7, 1.0]])
    truth = credo.GaussianNet(precision, [1.0, 0.0, -1.0])
    start = credo.GaussianNet(np.eye(3) + 0.1 * (precision != 0))
    return truth, start, lambda rows, seed: _columns(truth, rows, seed)


def _mixture() -> Any:
    def model(weights: Any, means: Any) -> Any:
        return credo.Mixture([weights], DiagonalGaussian(means, np.ones((2, 2))))

    truth, start = model([0.3, 0.7], [[-2.0, 0.0], [2.0, 1.0]]), model([0.5, 0.5], [[-0.5, 0.0], [0.5, 0.0]])

    def draw(rows: int, seed: int) -> Any:
        x = truth.sample(np.zeros(rows, dtype=np.int64), np.random.default_rng(seed))
        return {"x": x[:, 0], "y": x[:, 1]}

    return truth, start, draw


def _rows(truth: Any, start: Any) -> Any:
    def draw(rows: int, seed: int) -> Any:
        x = credo.sample(truth, rows, seed=seed)[0]
        return {name: x[name] for name in x.dtype.names}

    return truth, start, draw


def _mixed_rows() -> Any:
    def model(p: float, mean: float) -> Any:
        parts = [Categorical([[p, 1 - p], [1 - p, p]]), DiagonalGaussian([[-mean], [mean]], [[1.0], [1.0]])]
        return Mixture([[0.5, 0.5]], Product(parts, ["mark", "size"]))

    return _rows(model(0.9, 2.5), model(0.6, 0.5))


def _chain_of_mixtures() -> Any:
    def model(apart: float, stay: float) -> Any:
        means = np.array([[-3.0], [-1.0], [1.0], [3.0]]) * apart
        family = Mixture([[0.5, 0.5]] * 2, DiagonalGaussian(means, np.full((4, 1), 0.3)))
        return credo.HMM([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], family)

    return _sequences(model(1.0, 0.9), model(0.3, 0.6))


def _outliers() -> Any:
    def model(mean: float, stay: float) -> Any:
        family = StudentT([[-mean], [mean]], [[1.0], [1.0]], [4.0, 4.0])
        return credo.HMM([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], family)

    return _sequences(model(3.0, 0.9), model(0.5, 0.6))


def _flows() -> Any:
    def model(weight: float, mean: float) -> Any:
        parameters = {"centre": np.array([[-mean, 0.0], [mean, 0.0]]), "log_scale": np.zeros((2, 2))}
        return Mixture([[weight, 1 - weight]], Flow("actnorm", 2, parameters, precision="double"))

    truth = model(0.3, 2.0)

    def draw(rows: int, seed: int) -> Any:
        x = truth.sample(np.zeros(rows, dtype=np.int64), np.random.default_rng(seed))
        return {"x": x[:, 0], "y": x[:, 1]}

    return truth, model(0.5, 0.3), draw


SUBJECTS = [
    Subject("network", _network),
    Subject("network with gaps", lambda: _network(0.2)),
    Subject("network with a hidden variable", _coins),
    Subject("mixed network", _mixed),
    Subject("mixed network with gaps", lambda: _mixed(0.2), held=100),
    Subject("field", _field),
    Subject("field with a hidden variable", lambda: _field(("a",))),
    Subject("field of labels", _labels),
    Subject("documents", _documents),
    Subject("units of a Boltzmann machine", _units),
    Subject("embedding", _embedding),
    Subject("mixture of Gaussians", _mixture),
    Subject("chain of Gaussians", _gaussian_chain),
    Subject("chain of mixtures", _chain_of_mixtures, rows=2400),
    Subject("chain of symbols", _categorical_chain),
    Subject("segments of counts", _segments),
    Subject("mixture of rows", _mixed_rows),
    Subject("Gaussian net", _gaussian_net, held=60),
    Subject("sums of chains", _sums),
    Subject("chain with outliers", _outliers),
    Subject("mixture of flows", _flows),
]


def try_fit(learner: str, subject: Subject, **how: Any) -> Fit | UnsupportedError:
    """What the learner finds, or its refusal of such tasks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return credo.fit(subject.start, subject.data(), learner, seed=3, **how)
        except UnsupportedError as refusal:
            if "cannot treat this task" not in str(refusal):
                raise
            return refusal


def digest(found: Fit) -> str:
    """Everything but the clock."""
    trace = {name: values for name, values in found.trace.items() if name != "seconds"}
    told = (found.status.value, found.notes, found.log_likelihood, found.evidence)
    return fingerprint(*told, found.objective, trace, found.restarts, repr(pack(found.model)))


def main(learner: str, name: str, checkpoint: str) -> None:
    """Fit slowly, and print the digest."""
    driver._THIN = 0.0
    subject = next(s for s in SUBJECTS if s.id == name)
    how: Any = {"checkpoint": Path(checkpoint), "every": 0.0, "on_step": lambda *_: time.sleep(0.01)}
    found = try_fit(learner, subject, **LIMITS, **how)
    assert isinstance(found, Fit), found
    print(digest(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
