"""Exact answers where all factors are Gaussian: linear algebra.

    f(x) = exp( g + h'x - x'Jx / 2 ),       mean = J^-1 h,      covariance = J^-1,
    log Z = g + ( h'J^-1 h + n log 2 pi - log det J ) / 2

The most probable values are the mean. With some variables maximised and the others, S, integrated, the
maximisers are their means still, and the maximum is g + ( h'J^-1 h + |S| log 2 pi - log det J_SS ) / 2.
Samples are independent: x = mean + L'^-1 D^-1/2 z with J = L D L' and standard normal z.

Small or densely coupled models cost n^3 / 3 multiplications; large sparse ones are factorised along an
elimination order of few fill-ins, and the variances come from the entries of the inverse in the pattern of
the factor alone. A product of factors that cannot be normalised is refused with the direction along which it
does not fall. Where log Z is a small difference of large numbers, it is an estimate, and its doubt is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.result import Assignment, Marginals, Result, Samples, Status
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.gaussian_system import GaussianSystem, claim, gaussian_densities, joint_densities, rounding

__all__ = ["GaussianElimination"]


@register
@dataclass(frozen=True, kw_only=True)
class GaussianElimination(Algorithm):
    """Means, variances, log Z, maxima and samples of a Gaussian model, all exact.

    Examples
    --------
    >>> import credo
    >>> net = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]], [3.0, 0.0])
    >>> found = credo.infer(net, "gaussian")
    >>> found.marginals["x0"].mean.__round__(6), found.marginals["x0"].variance.__round__(6)
    (2.0, 0.666667)
    """

    name: ClassVar[str] = "gaussian"
    promises: ClassVar[frozenset[str]] = frozenset({"exact"})

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Factorise once and read every answer off the factor."""
        system = GaussianSystem.of(problem)
        factorisation = system.factorise()
        mean = factorisation.solve(system.shift)
        if not problem.is_sum:
            return self._maximum(problem, system, mean)
        variables = problem.graph.variables
        samples = None
        if problem.samples:
            draws = mean + factorisation.draw(problem.samples, rng)
            indices = np.full((problem.samples, len(variables)), -1, dtype=np.int64)
            columns = {name: draws[:, i] for i, name in enumerate(variables.names)}
            samples = Samples(variables, indices, columns)
        densities = gaussian_densities(variables.names, mean, factorisation.variances())
        densities |= joint_densities(problem, mean, factorisation)
        value = system.log_integral(factorisation, mean)
        log_z, notes = claim(value, "exact", rounding(problem.graph, np.abs(mean)))
        return Result(
            self.name,
            Status.EXACT,
            log_z=log_z,
            marginals=Marginals(variables, np.empty(0), densities),
            samples=samples,
            notes=notes,
        )

    def _maximum(self, problem: Problem, system: GaussianSystem, mean: np.ndarray) -> Result:
        variables = problem.graph.variables
        summed = np.setdiff1d(np.arange(len(mean)), problem.maximised)
        value = system.constant + 0.5 * float(system.shift @ mean)
        if len(summed):
            log_determinant = system.part(summed).factorise().log_determinant
            value += 0.5 * (len(summed) * float(np.log(2 * np.pi)) - log_determinant)
        best = {variables.names[i]: float(mean[i]) for i in problem.maximised}
        found, notes = claim(value, "exact", rounding(problem.graph, np.abs(mean)))
        return Result(
            self.name,
            Status.EXACT,
            log_z=found,
            assignment=Assignment(variables, np.full(len(mean), -1), best),
            score=found,
            notes=notes,
        )
