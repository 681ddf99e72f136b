"""What is known about convergence before a message has been sent.

Every certificate is a number and a limit; below the limit the iteration converges to one and the
same fixed point from every start. All are sufficient only: above the limit nothing is known. And
all are about convergence, not about accuracy.

With M the matrix of `influence`, one synchronous sweep satisfies |z_new - z*| <= M |z - z*| for
the log messages z, entry by entry, so each of these suffices:

    largest singular value of M < 1                                       (3.24), Theorem 3.1
    largest column sum of M < 1, largest row sum of M < 1                 (3.43), (3.44), (3.48)
    spectral radius of M < 1: implied by each of the others, so the one that holds most often;
        then M v < v for some v > 0, the sweep is a contraction in a weighted maximum norm, and
        schedules that update messages one by one converge too

and for sum-product alone

    max_i sum_{a at i} (|a| - 1) (max theta_a - min theta_a) < 2          Simon's condition
    the factor graph has no loop: finitely many sweeps, exact marginals
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import UnsupportedError
from ...core.evidence import Evidence, condition
from ...core.factor_graph import FactorGraph, Model
from ...core.registry import describe
from ...optimise.run import noted
from ...structures.graph import component_labels
from ...structures.recognise import is_binary, is_pairwise
from ..problem.base import Algorithm, Problem, algorithms
from .alpha_bp import AlphaBP
from .bp import BP
from .engine import Weighted
from .exponents import single_factors
from .fractional_bp import FractionalBP
from .influence import Influence, influence
from .trw import TRW

__all__ = ["Certificate", "Certification", "certify", "loops", "matrix_certificates", "simon"]

_ROUNDING = 1e-10  # a value this close to its limit is not called below it


@dataclass(frozen=True)
class Certificate:
    """One sufficient condition, tested."""

    name: str  # of the condition
    holds: bool | None  # None where the condition cannot be tested
    value: float | None  # the number that was computed
    threshold: float  # the condition is value < threshold
    meaning: str  # what follows if it holds, or why it cannot be tested

    @classmethod
    def of(cls, name: str, value: float, threshold: float, meaning: str) -> Certificate:
        """Compare a value with its limit."""
        return cls(name, bool(value < threshold * (1 - _ROUNDING)), float(value), threshold, meaning)


@dataclass(frozen=True)
class Certification:
    """All certificates of a method on a model."""

    method: str  # with its options
    certificates: tuple[Certificate, ...]

    @property
    def guaranteed(self) -> bool:
        """Whether at least one condition holds."""
        return any(c.holds for c in self.certificates)

    @property
    def sentence(self) -> str:
        """What follows, for people."""
        held = [c for c in self.certificates if c.holds]
        if held:
            best = held[0]
            if best.name == "loops":
                return f"{self.method} is exact here after finitely many sweeps: there are no loops."
            return (
                f"{self.method} is guaranteed to converge, to the same point from every start: "
                f"{best.name} {best.value:.6g} < {best.threshold:g}. This says nothing about accuracy."
            )
        if all(c.holds is None for c in self.certificates):
            return f"Nothing is known about {self.method} here: {self.certificates[0].meaning}."
        return (
            f"Nothing is guaranteed for {self.method} here: no condition holds. They are sufficient, "
            "not necessary; it may still converge."
        )


@noted
def certify(
    model: Model, method: str | Algorithm = "bp", *, evidence: Mapping[str, Any] | None = None
) -> Certification:
    """Test every known condition under which a message-passing method converges on a model.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    method
        A member of the message-passing family: `"bp"`, `"bp(damping=0.5)"`,
        `"alpha-bp(alpha=0.5)"`, `"fractional-bp(power=2)"`, `"trw"`.
    evidence
        As for `infer`; observed variables cut loops, so it matters.

    Examples
    --------
    >>> import credo
    >>> from credo.inference.messages.certificates import certify
    >>> weak = credo.datasets.ising_grid(4, coupling=0.2, seed=0)
    >>> certify(weak, "alpha-bp(alpha=0.8)").guaranteed
    True
    """
    original = model.to_factor_graph()
    graph, _ = condition(original, Evidence.of(original.variables, evidence))
    algorithm = algorithms.resolve(method)
    power, step = _weights(algorithm, graph)
    found = list(matrix_certificates(graph, power, step))
    if (power == 1).all() and (step == 1).all():
        found = [loops(graph), *found, simon(graph)]
    return Certification(describe(algorithm), tuple(found))


def _weights(algorithm: Any, graph: FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    """Exponent and step size per factor of a method that runs the shared iteration."""
    n = len(graph.variables)
    problem = Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64))
    if isinstance(algorithm, BP):
        linear = algorithm.damping_domain == "linear"
        found = Weighted.plain(graph, 1 - algorithm.damping, linear=linear)
    elif isinstance(algorithm, TRW):
        found = _tree_weights(algorithm, problem)
    elif isinstance(algorithm, (AlphaBP, FractionalBP)):
        found = algorithm.weights(problem)
    else:
        raise UnsupportedError(
            f"{algorithm.name}: expected a method of the message-passing family "
            "(bp, trw, fractional-bp, alpha-bp), got one without certificates"
        )
    if found.linear and (found.step != 1).any():
        raise UnsupportedError(
            f"{algorithm.name}: the certificates are for damping of logarithms, got damping of "
            "probabilities; use damping_domain=log"
        )
    return found.power, found.step


def _tree_weights(algorithm: TRW, problem: Problem) -> Weighted:
    fixed = algorithm.rho == "uniform" or algorithm.fixed_rho is not None or bool(algorithm.forests)
    if not fixed:
        raise UnsupportedError(
            f"trw: the certificates are for fixed appearance probabilities, got rho={algorithm.rho}, which "
            "are found while it runs; use rho=uniform"
        )
    rho = algorithm.start(problem, np.random.default_rng(0)).rho
    # Automatic damping d is left out: it turns M into d I + (1 - d) M, below 1 exactly when M is.
    return Weighted(1 / rho, np.full(len(rho), 1 - (algorithm.damping or 0.0)))


def matrix_certificates(graph: FactorGraph, power: np.ndarray, step: np.ndarray) -> tuple[Certificate, ...]:
    """The four tests of the matrix M; the last is the weakest requirement.

    Parameters
    ----------
    graph
        The conditioned factor graph.
    power, step
        alpha and eta of each factor.
    """
    try:
        matrix = influence(graph, power, step)
    except UnsupportedError as reason:
        return (Certificate("spectral radius", None, None, 1.0, str(reason)),)
    slowest = _slowest_single(graph, step)
    published = (
        is_binary(graph) and is_pairwise(graph) and bool((power == step)[~single_factors(graph)].all())
    )
    tests = _tests(matrix, published)
    return tuple(Certificate.of(name, max(value, slowest), 1.0, meaning) for name, value, meaning in tests)


def _tests(matrix: Influence, published: bool) -> tuple[tuple[str, float, str], ...]:
    """Name, value and meaning of each test; `published` where the cited statements cover the case."""
    meaning = "one fixed point, reached from every start under flooding"
    theorem, corollary = (" (Theorem 3.1)", " (Corollary 3.1)") if published else ("", "")
    return (
        ("largest singular value", matrix.singular_value(), meaning + theorem),
        ("largest column sum", matrix.column_sum(), meaning + corollary),
        ("largest row sum", matrix.row_sum(), meaning + corollary),
        (
            "spectral radius",
            matrix.spectral_radius(),
            "one fixed point, reached from every start in any schedule; weaker than the tests above",
        ),
    )


def _slowest_single(graph: FactorGraph, step: np.ndarray) -> float:
    """Largest |1 - eta| of factors with one free variable: their messages approach the factor alone."""
    return float(np.abs(1.0 - step[single_factors(graph)]).max(initial=0.0))


def simon(graph: FactorGraph) -> Certificate:
    """Simon's condition for sum-product: the ranges of the log tables around a variable are small."""
    name = "Simon's condition"
    sizes = graph.variables.sizes
    total = np.zeros(len(sizes))
    for group in graph.shape_groups:
        free = [k for k, size in enumerate(group.shape) if size > 1]
        if len(free) < 2:
            continue
        tables = graph.log_tables[group.table_start[:, None] + np.arange(int(np.prod(group.shape)))]
        if np.isneginf(tables).any():
            return Certificate(name, None, None, 2.0, "a table holds a zero: its range is infinite")
        span = (len(free) - 1) * (tables.max(axis=1) - tables.min(axis=1))
        for k in free:
            np.add.at(total, group.scopes[:, k], span)
    return Certificate.of(
        name, float(total.max(initial=0.0)), 2.0, "one fixed point, reached from every start"
    )


def loops(graph: FactorGraph) -> Certificate:
    """Whether sum-product is exact after finitely many sweeps; the value counts independent loops."""
    n, m = len(graph.variables), graph.n_factors
    factor = np.repeat(np.arange(m), np.diff(graph.scope_start))
    free = graph.variables.sizes[graph.scope] > 1
    i, a = graph.scope[free], factor[free]
    parts = int(component_labels(n + m, i, n + a).max(initial=-1)) + 1
    count = len(i) - (n + m - parts)
    return Certificate.of("loops", float(count), 1.0, "ends after finitely many sweeps with exact marginals")
