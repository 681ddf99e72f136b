"""Models with real and simplex-valued variables, alone or together with discrete ones.

    HybridNet     p(x) = (1/Z) prod_a f_a(x_a),              any domains, any factors
    GaussianNet   p(x) ∝ exp( -x'Jx / 2 + h'x ),             J symmetric and positive definite

In a Gaussian net the mean is J^-1 h and the covariance J^-1; an entry of J that is zero is an edge that is
not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core import check
from ..core.density import (
    GaussianFactor,
    canonical_of_moments,
    finite_array,
    is_positive_definite,
    symmetric,
)
from ..core.display import told
from ..core.domain import Real
from ..core.errors import ModelError
from ..core.factor import Factor
from ..core.factor_graph import FactorGraph
from ..core.naming import NamedModel
from ..core.variable import Variable, Variables

__all__ = ["GaussianNet", "HybridNet"]


class HybridNet(NamedModel):
    """A model of variables of any domain; immutable.

    Parameters
    ----------
    variables
        Variables, or a mapping name -> states, `Real()` or `Simplex(k)`.
    factors
        `GaussianFactor`s, `DensityFactor`s and `TableFactor`s; `credo.potentials` makes common ones.

    Examples
    --------
    >>> import credo
    >>> from credo import potentials
    >>> x, s = credo.Variable("x", credo.Real()), credo.Variable("s", ["off", "on"])
    >>> model = credo.HybridNet([x, s], [potentials.emission(x, s, [0.0, 5.0], 1.0)])
    >>> model
    HybridNet(2 variables, 1 factors)
    """

    def __init__(self, variables: Any, factors: Iterable[Factor] = ()) -> None:
        self._graph = FactorGraph(variables, factors)

    @classmethod
    def pairwise(cls, nodes: Mapping[str, Any], edges: Mapping[tuple[str, str], Any]) -> HybridNet:
        """Real variables with one function per node and one per edge, each of arrays of values.

        Parameters
        ----------
        nodes
            Name -> maker of the node's factor, called with the variable, or None for none.
        edges
            Pair of names -> maker of the edge's factor, called with the two variables.

        Examples
        --------
        >>> from credo import HybridNet, potentials
        >>> HybridNet.pairwise({"a": potentials.gaussian, "b": None}, {("a", "b"): potentials.laplace})
        HybridNet(2 variables, 2 factors)
        """
        variables = {name: Variable(name, Real()) for name in nodes}
        factors = [make(variables[name]) for name, make in nodes.items() if make is not None]
        for (one, other), make in edges.items():
            for name in (one, other):
                if name not in variables:
                    raise ModelError(f"edge ({one}, {other}): there is no node '{name}'")
            factors.append(make(variables[one], variables[other]))
        return cls(list(variables.values()), factors)

    @property
    def variables(self) -> Variables:
        """The variables."""
        return self._graph.variables

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors."""
        return self._graph.factors

    def to_factor_graph(self) -> FactorGraph:
        """The one form every algorithm reads."""
        return self._graph

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        return self._graph._columns()

    def __repr__(self) -> str:
        return f"HybridNet({len(self.variables)} variables, {len(self.factors)} factors)"


class GaussianNet(NamedModel):
    """A Gaussian Markov random field; immutable.

    Parameters
    ----------
    precision
        The symmetric matrix J, (n, n).
    shift
        The vector h, (n,); zeros if left out.
    names
        One name per variable; x0, x1, ... if left out.

    Examples
    --------
    >>> import credo
    >>> net = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]], [3.0, 0.0])
    >>> net.mean.tolist()
    [2.0, 1.0]
    """

    def __init__(self, precision: Any, shift: Any = None, names: Sequence[str] | None = None) -> None:
        J = check.finite_numbers("precision", precision)
        if J.ndim != 2 or J.shape[0] != J.shape[1]:
            raise ModelError(f"precision: expected a finite symmetric matrix, got shape {J.shape}")
        J = symmetric("GaussianNet", "precision", J)
        n = len(J)
        h = np.zeros(n) if shift is None else finite_array("GaussianNet: the shift", shift, (n,))
        if not is_positive_definite(J):
            raise ModelError("precision: expected a positive definite matrix; its density has no integral")
        J.flags.writeable = h.flags.writeable = False
        self.precision, self.shift = J, h
        self.names = tuple(f"x{i}" for i in range(n)) if names is None else tuple(map(str, names))
        if len(self.names) != n:
            raise ModelError(f"names: expected {n}, got {len(self.names)}")
        self._graph = FactorGraph([Variable(name, Real()) for name in self.names], self._factors())

    @classmethod
    def from_moments(cls, mean: Any, covariance: Any, names: Sequence[str] | None = None) -> GaussianNet:
        """The model with this mean and covariance."""
        mean = check.finite_numbers("mean", mean)
        if mean.ndim != 1:
            raise ModelError(f"mean: expected one number per variable, got shape {mean.shape}")
        covariance = finite_array("GaussianNet: the covariance", covariance, (len(mean), len(mean)))
        return cls(*canonical_of_moments("GaussianNet", mean, covariance), names)

    def _factors(self) -> list[GaussianFactor]:
        variables = [Variable(name, Real()) for name in self.names]
        J, h = self.precision, self.shift
        factors = [GaussianFactor([v], [[J[i, i]]], [h[i]]) for i, v in enumerate(variables)]
        for i, j in zip(*np.nonzero(np.triu(J, 1)), strict=True):
            factors.append(GaussianFactor([variables[i], variables[j]], [[0.0, J[i, j]], [J[i, j], 0.0]]))
        return factors

    @property
    def mean(self) -> np.ndarray:
        """The mean J^-1 h."""
        return np.linalg.solve(self.precision, self.shift)

    @property
    def covariance(self) -> np.ndarray:
        """The covariance J^-1."""
        return np.linalg.inv(self.precision)

    @property
    def log_z(self) -> float:
        """The logarithm of the integral of exp(-x'Jx / 2 + h'x)."""
        n = len(self.names)
        log_det = np.linalg.slogdet(self.precision)[1]
        return float(0.5 * (self.shift @ self.mean + n * np.log(2 * np.pi) - log_det))

    @property
    def variables(self) -> Variables:
        """The variables."""
        return self._graph.variables

    def to_factor_graph(self) -> FactorGraph:
        """The one form every algorithm reads."""
        return self._graph

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        mean, sd = self.mean, np.sqrt(np.diag(self.covariance))
        return {"mean": lambda i: told(mean[i]), "sd": lambda i: told(sd[i])}

    def __repr__(self) -> str:
        return f"GaussianNet({len(self.names)} variables)"
