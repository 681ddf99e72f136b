"""The documented rule behind `credo.infer(model)` without a method.

Evidence conditions the model first, so observed numbers are gone. Tables: the junction tree, if its
forecast stays within half of the machine's memory and about a minute of work (for maxima: and within
`seconds`); otherwise the portfolio of searches and bounds for maxima, which takes 10 seconds if no time is
given, and belief propagation for sums. Batches and learners ask many times: they get belief propagation for
maxima too. Gaussian factors alone: exact linear algebra, also for every state where
there are few. Everything else: Bethe variational inference on states, numbers of the line and simplices. With
positive numbers, intervals or vectors belief propagation on grids, which follows skewed densities more
closely; where it does not read a domain, Markov chains. Samples by NUTS if all variables are continuous,
otherwise by Gibbs sampling. Two layers of more than 20 units, every pair joined, go to belief propagation
by matrices at once, samples of them to Gibbs sampling. What was chosen, and why, is in the result's notes.
"""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import UnsupportedError
from ...optimise.run import planning
from ...structures.layers import dense_layers
from ..exact.junction_tree import JunctionTreePropagation
from ..problem.base import Algorithm, Problem, algorithms
from ..problem.contents import TASKS
from ..problem.reading import compact, refusal
from ..problem.tree import Limits, affordable, prepare

__all__ = ["choose"]

_FOR_OTHERS = (
    ("gaussian", "exact linear algebra"),
    ("conditional-gaussian", "exact linear algebra for every state"),
    ("bethe", "a variational approximation"),
    ("grid-bp", "belief propagation on points"),
    ("nuts", "a Markov chain with gradients"),
    ("gibbs", "a Markov chain"),
)
_FOR_FREE = (*_FOR_OTHERS[:2], *_FOR_OTHERS[3:], _FOR_OTHERS[2])  # read through free coordinates
_FOR_SAMPLES = (
    ("gaussian", "independent exact draws"),
    ("conditional-gaussian", "independent exact draws"),
    ("nuts", "a Markov chain with gradients"),
    ("gibbs", "a Markov chain"),
)
_OTHERWISE = ("bp", "an approximation")
_RACE = ("portfolio", "searches and bounds in turn")
_RACED = ("max", "mixed")  # tasks whose answers are states
_PLANNING = 0.2  # share of the time that the search for an elimination order may take
_NARROW = 20  # units of a layer whose joint states exact inference may go through
_MINUTE = 36.0  # log2 of the multiplications that take about a minute


def choose(problem: Problem, seconds: float | None = None, *, many: bool = False) -> tuple[Algorithm, str]:
    """The algorithm to use within some seconds, and a sentence that says so; `many`: it is asked often."""
    if (of_layers := _for_layers(problem)) is not None:
        return of_layers
    if (tables := problem.graph.as_tables()) is None:
        return _choose_other(problem)
    chosen = JunctionTreePropagation()
    problem = problem if tables is problem.graph else replace(problem, graph=tables)
    is_raced = not (problem.is_sum or many) and problem.task in _RACED
    with planning(_PLANNING):
        predicted = prepare(problem, chosen.effort).forecast
    limits = Limits(None, min(_MINUTE, affordable(seconds)) if is_raced and seconds is not None else _MINUTE)
    if limits.excess(predicted):
        name, what = _RACE if is_raced else _OTHERWISE
        other = algorithms.resolve(name)
        if refusal(other, problem) is not None:
            limits.refuse(predicted, problem)
        return other, f"chosen: {name}, {what} (junction-tree would need {predicted})"
    return chosen, f"chosen: junction-tree ({predicted})"


def _for_layers(problem: Problem) -> tuple[Algorithm, str] | None:
    """What serves two wide layers of units, every pair joined: no order of elimination is a good one."""
    layers = dense_layers(problem.graph)
    if layers is None or min(layers.weights.shape) <= _NARROW:
        return None
    name, why = _FOR_SAMPLES[-1] if problem.samples else _OTHERWISE
    algorithm = algorithms.resolve(name)
    if refusal(algorithm, problem) is not None:
        return None
    m, n = layers.weights.shape
    return algorithm, f"chosen: {name}, {why} (two layers of {m} and {n} units, every pair joined)"


def _choose_other(problem: Problem) -> tuple[Algorithm, str]:
    """The same where some factors cannot be tables."""
    from ...core.free import is_plain  # tables need no coordinates

    is_free = not all(is_plain(domain) for domain in compact(problem).problem.graph.variables.domains)
    known = _FOR_SAMPLES if problem.samples else _FOR_FREE if is_free else _FOR_OTHERS
    for name, why in known:
        algorithm = algorithms.resolve(name)
        if refusal(algorithm, problem) is None:
            return algorithm, f"chosen: {name}, {why}"
    raise UnsupportedError(
        f"no method gives {TASKS[problem.task]} of this model of continuous variables; tried "
        f"{[name for name, _ in known]}"
    )
