"""The documented rule behind `credo.infer(model)` without a method.

The junction tree, if its forecast stays within half of the machine's memory and about a minute of
work; otherwise belief propagation, where it can answer the question. With continuous variables: exact
linear algebra if all factors are Gaussian, otherwise Bethe variational inference; samples by NUTS if all
variables are real, otherwise by Gibbs sampling. What was chosen, and why, is in the result's notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.errors import UnsupportedError
from .base import Algorithm, Problem, algorithms
from .exact.junction_tree import JunctionTree
from .exact.tree import Limits, prepare

if TYPE_CHECKING:
    from .hybrid import HybridProblem

__all__ = ["choose", "choose_hybrid"]

_FOR_HYBRID = (
    ("gaussian", "exact linear algebra"),
    ("bethe", "a variational approximation"),
)
_FOR_SAMPLES = (
    ("gaussian", "independent exact draws"),
    ("nuts", "a Markov chain with gradients"),
    ("gibbs", "a Markov chain"),
)
_MINUTE = 36.0  # log2 of the multiplications that take about a minute


def choose(problem: Problem) -> tuple[Algorithm, str]:
    """The algorithm to use, and a sentence that says so."""
    chosen = JunctionTree()
    predicted = prepare(problem, chosen.effort).forecast
    limits = Limits(None, _MINUTE)
    if limits.excess(predicted):
        bp = algorithms.resolve("bp")
        if bp.why_not(problem) is not None:
            limits.refuse(predicted, problem)
        return bp, f"chosen: bp, an approximation (junction-tree would need {predicted})"
    return chosen, f"chosen: junction-tree ({predicted})"


def choose_hybrid(problem: HybridProblem) -> tuple[Algorithm, str]:
    """The same for graphs with continuous variables."""
    known = _FOR_SAMPLES if problem.samples else _FOR_HYBRID
    for name, why in known:
        algorithm = algorithms.resolve(name)
        if algorithm.why_not(problem) is None:
            return algorithm, f"chosen: {name}, {why}"
    raise UnsupportedError(
        f"no method answers this question about continuous variables; tried {[name for name, _ in known]}"
    )
