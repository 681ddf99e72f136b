"""Models with real and simplex-valued variables, alone or together with discrete ones.

    HybridNet     p(x) = (1/Z) prod_a f_a(x_a),              any domains, any factors
    GaussianNet   p(x) ∝ exp( -x'Jx / 2 + h'x ),             J symmetric and positive definite

In a Gaussian net the mean is J^-1 h and the covariance J^-1; an entry of J that is zero is an edge that is
not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core import check
from ..core.density import (
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
from ..core.groups import Gaussians
from ..core.naming import NamedModel
from ..core.parameter import Parameter
from ..core.records import register
from ..core.variable import Variable, Variables
from ..families.gaussian_field import GaussianField
from ..families.product import Product
from .declared import DeclaredWeights, checked_places, declared_in, with_values

__all__ = ["GaussianNet", "HybridNet"]

_MOST_DENSE = 5000  # variables of a sparse matrix that may be made dense on request


@register("HybridNet")
class HybridNet(NamedModel):
    """A model of variables of any domain; immutable.

    Parameters
    ----------
    variables
        Variables, or a mapping name -> states, `Real()` or `Simplex(k)`.
    factors
        `GaussianFactor`s, `DensityFactor`s and `TableFactor`s; `credo.potentials` makes common ones. What a
        `DensityFactor` was given as a `Parameter` is learned by `credo.fit`; everything else stays.

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
        factors = tuple(factors)
        self._graph = FactorGraph(variables, factors)
        self._declared = declared_in(factors)

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the factor graph, and where declared parameters stand."""
        return (
            {"graph": self._graph, "declared": self._declared} if self._declared else {"graph": self._graph}
        )

    @classmethod
    def from_parts(cls, graph: Any, declared: Any = ()) -> HybridNet:
        """The model of what a file kept."""
        if not isinstance(graph, FactorGraph):
            raise ModelError(f"graph: expected a FactorGraph, got {type(graph).__name__}")
        made = cls.__new__(cls)
        made._graph, made._declared = graph, checked_places(graph, declared)
        return made

    @property
    def declared(self) -> tuple[str, ...]:
        """Names of the parameters that learning may change."""
        return tuple(d.name for d in self._declared)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The values of declared parameters, by name."""
        return {d.name: d.value(self._graph) for d in self._declared}

    @property
    def n_parameters(self) -> int:
        """How many numbers are declared."""
        return sum(value.size for value in self.parameters.values())

    def with_parameters(self, values: Mapping[str, Any]) -> HybridNet:
        """The same model with other values of some declared parameters."""
        known = {d.name: d for d in self._declared}
        new = {}
        for name, value in values.items():
            if name not in known:
                raise ModelError(f"parameters: expected names of {list(known)}, got {name!r:.40}")
            new[name] = Parameter(name, value, known[name].domain).value
            if new[name].shape != (shape := known[name].value(self._graph).shape):
                raise ModelError(f"parameter '{name}': expected shape {shape}, got {new[name].shape}")
        return self._with_values(new)

    def _with_values(self, values: Mapping[str, np.ndarray]) -> HybridNet:
        made = HybridNet.__new__(HybridNet)
        made._graph, made._declared = with_values(self._graph, self._declared, values), self._declared
        return made

    def score_weights(self, data: Any = None) -> DeclaredWeights:
        """Declared parameters as free numbers, for learning."""
        return DeclaredWeights(self._graph, self._declared, self._with_values)

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
        """The variables in the order of the graph; iterate for them, `names` for their names."""
        return self._graph.variables

    @property
    def factors(self) -> Sequence[Factor]:
        """The factors in the order they were given; their numbers are positions here."""
        return self._graph.factors

    def to_factor_graph(self) -> FactorGraph:
        """The one form every algorithm reads."""
        return self._graph

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        return self._graph._columns()

    def __repr__(self) -> str:
        return f"HybridNet({len(self.variables)} variables, {len(self.factors)} factors)"


@register("GaussianNet")
class GaussianNet(NamedModel):
    """A Gaussian Markov random field; immutable.

    Parameters
    ----------
    precision
        The symmetric matrix J, (n, n): an array, or a `scipy.sparse` matrix, which is never made dense. An
        array is checked to be positive definite at once, a sparse matrix when it is factorised for an answer.
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
        self.precision: Any = _sparse(precision) if _is_sparse(precision) else _dense(precision)
        n = self.precision.shape[0]
        h = np.zeros(n) if shift is None else finite_array("GaussianNet: the shift", shift, (n,))
        h.flags.writeable = False
        self.shift = h
        from scipy.sparse import csr_matrix

        matrix = self.precision if _is_sparse(precision) else csr_matrix(self.precision)
        variables = Variables.alike(n, Real(), names)
        self._graph = FactorGraph.of_groups(variables, *Gaussians.field(matrix, h))

    @classmethod
    def from_moments(cls, mean: Any, covariance: Any, names: Sequence[str] | None = None) -> GaussianNet:
        """The model with this mean and covariance."""
        mean = check.finite_numbers("mean", mean)
        if mean.ndim != 1:
            raise ModelError(f"mean: expected one number per variable, got shape {mean.shape}")
        covariance = finite_array("GaussianNet: the covariance", covariance, (len(mean), len(mean)))
        return cls(*canonical_of_moments("GaussianNet", mean, covariance), names)

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the arguments of the constructor."""
        names = self.names if isinstance(self.names, tuple) else None
        return {"precision": self.precision, "shift": self.shift, "names": names}

    @classmethod
    def from_parts(cls, precision: Any, shift: Any, names: Any) -> GaussianNet:
        """The model of what a file kept."""
        return cls(precision, shift, names)

    @property
    def edges(self) -> np.ndarray:
        """Which pairs have a precision, (n, n)."""
        found: np.ndarray = self._dense_precision("edges") != 0
        np.fill_diagonal(found, False)
        return found

    @property
    def n_parameters(self) -> int:
        """Free numbers: means, variances and edges."""
        return 2 * len(self.shift) + int(self.edges.sum()) // 2

    def as_rows(self) -> Product:
        """The family of its rows, which `credo.fit` learns: the zeros of the precision stay."""
        field = GaussianField(self.mean[None], self.covariance[None], self.edges)
        return Product([field], [tuple(self.names)])

    def from_rows(self, family: Any) -> GaussianNet:
        """The net of a family that was learned."""
        field = family.parts[0]
        precision = np.where(self.edges, field.precisions[0], 0.0) + np.diag(field.precisions[0].diagonal())
        return GaussianNet(precision, precision @ field.mean[0], self.names)

    @property
    def names(self) -> Sequence[str]:
        """One name per variable."""
        return self.variables.names

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean J^-1 h."""
        if not _is_sparse(self.precision):
            return np.linalg.solve(self.precision, self.shift)
        from scipy.sparse.linalg import spsolve

        return np.asarray(spsolve(self.precision.tocsc(), self.shift))

    @property
    def covariance(self) -> np.ndarray:
        """The covariance J^-1, a dense matrix."""
        return np.linalg.inv(self._dense_precision("covariance"))

    @property
    def log_z(self) -> float:
        """The logarithm of the integral of exp(-x'Jx / 2 + h'x)."""
        n = len(self.shift)
        log_det = np.linalg.slogdet(self._dense_precision("log_z"))[1]
        return float(0.5 * (self.shift @ self.mean + n * np.log(2 * np.pi) - log_det))

    def _dense_precision(self, what: str) -> np.ndarray:
        if not _is_sparse(self.precision):
            return np.asarray(self.precision)
        if len(self.shift) > _MOST_DENSE:
            raise ModelError(
                f"{what}: expected at most {_MOST_DENSE} variables for a dense matrix, here are "
                f"{len(self.shift)}; ask credo.infer for variances and log Z"
            )
        return np.asarray(self.precision.toarray())

    @property
    def variables(self) -> Variables:
        """The variables in the order of the graph; iterate for them, `names` for their names."""
        return self._graph.variables

    def to_factor_graph(self) -> FactorGraph:
        """The one form every algorithm reads."""
        return self._graph

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        mean = self.mean
        if len(mean) > _MOST_DENSE:
            return {"mean": lambda i: told(mean[i])}
        sd = np.sqrt(np.diag(self.covariance))
        return {"mean": lambda i: told(mean[i]), "sd": lambda i: told(sd[i])}

    def __repr__(self) -> str:
        return f"GaussianNet({len(self.shift)} variables)"


def _is_sparse(matrix: Any) -> bool:
    return hasattr(matrix, "tocsr") and hasattr(matrix, "nnz")


def _dense(precision: Any) -> np.ndarray:
    """A dense precision matrix, checked."""
    J = check.finite_numbers("precision", precision)
    if J.ndim != 2 or J.shape[0] != J.shape[1]:
        raise ModelError(f"precision: expected a finite symmetric matrix, got shape {J.shape}")
    J = symmetric("GaussianNet", "precision", J)
    if not is_positive_definite(J):
        raise ModelError("precision: expected a positive definite matrix; its density has no integral")
    J.flags.writeable = False
    return J


def _sparse(precision: Any) -> Any:
    """A sparse precision matrix, checked as far as that is cheap."""
    J = precision.tocsr().astype(np.float64)
    if J.shape[0] != J.shape[1] or not np.isfinite(J.data).all():
        raise ModelError(f"precision: expected a finite symmetric matrix, got shape {J.shape}")
    skew = abs(J - J.T)
    if skew.nnz and skew.max() > 1e-8 * abs(J).max():
        raise ModelError(f"precision: expected a symmetric matrix, entries differ by {skew.max():.3g}")
    if not (J.diagonal() > 0).all():
        at = int(np.flatnonzero(~(J.diagonal() > 0))[0])
        raise ModelError(
            f"precision: expected a positive definite matrix, entry ({at}, {at}) is not positive"
        )
    return J
