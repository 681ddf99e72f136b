r"""A mixture of products, and every question it answers by itself.

    b(x) = sum_m lambda_m prod_i b_i^m(x_i)

with one weight vector for all variables; each b_i^m is a Gaussian, a table of probabilities or a Dirichlet.
From one optimised mixture, without optimising again:

    marginal      b(x_S) = sum_m lambda_m prod_{i in S} b_i^m(x_i)             factors are dropped
    conditional   lambda_m' ∝ lambda_m prod_{i in E} b_i^m(x_i)                components are re-weighted
    maximum       ascent from every component's mode, the best under the mixture; for few joint states all
    samples       a component by lambda, then every variable by itself

The ascent never lowers the density. All continuous values move to the maximum of the Jensen bound
sum_m r_m log b^m(x), r_m the responsibilities: a precision-weighted mean of means for real variables, the
weighted concentrations less one for simplex ones. Then every discrete variable takes its best state given
the rest. A Dirichlet with a concentration below one has no highest point: it is followed to within 1e-6 of
the edge, so that a concentration a little below one, which a flat belief may get, changes little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ...core import check
from ...core.belief import Density
from ...core.domain import Real, Simplex
from ...core.errors import QueryError, ZeroProbabilityError
from ...core.numbers import float_array
from ...core.result import Assignment, Estimate, Marginals, Samples
from ...core.variable import Variable, Variables
from ...families.densities import DirichletMixtureDensity, MixtureDensity
from ...families.mapped import VectorMixtureDensity
from ...families.natural import dirichlet_log_norm

__all__ = ["Surrogate"]

_LOG_2PI = math.log(2 * math.pi)
_EXHAUSTIVE = 2**16  # joint states that are all tried
_CLIMBS = 500  # most sweeps of an ascent
_STILL = 1e-12  # rise of the log density at which it ends
_EDGE = 1e-300  # smallest coordinate of a simplex value
_RIM = 1e-6  # smallest coordinate of a maximum


@dataclass(frozen=True, repr=False)
class Surrogate:
    """The mixture found by `bethe`: `result.state`.

    Variables keep the order of the model; those that were observed are not in it.

    Parameters
    ----------
    variables
        What it is about.
    log_weights
        Logarithms of the weights lambda, (components,).
    means, sds
        Of the Gaussians, (real variables, components).
    log_tables
        Log probabilities of the states of all discrete variables one after another, (states, components).
    concentrations
        Of the Dirichlets, name -> (components, width).
    log_z
        What the optimisation says about log Z; for a marginal or conditional, that of the whole mixture.

    Examples
    --------
    >>> import credo
    >>> from credo import potentials
    >>> x, y = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real())
    >>> model = credo.HybridNet([x, y], [potentials.gaussian(x, 1.0), potentials.gaussian(y, 2.0, 4.0)])
    >>> found = credo.infer(model, "bethe(components=1)", seed=0).state
    >>> round(found.marginal("y").mean, 1), round(float(found.marginal("y").sd), 1)
    (2.0, 2.0)
    >>> round(found.maximum(["y"])["y"], 1)
    2.0
    """

    variables: Variables
    log_weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray
    log_tables: np.ndarray
    concentrations: Mapping[str, np.ndarray]
    log_z: Estimate | None = None

    @property
    def weights(self) -> np.ndarray:
        """Weights lambda of the components."""
        return np.exp(self.log_weights)

    @property
    def effective_components(self) -> float:
        """How many components share the weight: exp of its entropy."""
        share = self.weights
        return float(np.exp(-(share[share > 0] * np.log(share[share > 0])).sum()))

    @cached_property
    def _real(self) -> dict[int, int]:
        """Position -> row in `means`."""
        found = (i for i, v in enumerate(self.variables) if isinstance(v.domain, Real))
        return {i: row for row, i in enumerate(found)}

    def _part(self, i: Any) -> slice:
        return slice(*self.variables.state_start[i : i + 2])

    @cached_property
    def marginals(self) -> Marginals:
        """Marginals of all variables."""
        flat = np.exp(_log_sum(self.log_tables + self.log_weights, 1))
        for i in np.flatnonzero(self.variables.sizes):
            flat[self._part(i)] /= flat[self._part(i)].sum()
        continuous = [v.name for v in self.variables if not v.is_discrete]
        return Marginals(self.variables, flat, {name: self._density(name) for name in continuous})

    def _density(self, name: str) -> Density:
        i = self.variables.position(name)
        if i in self._real:
            return MixtureDensity(self.weights, self.means[self._real[i]], self.sds[self._real[i]])
        return DirichletMixtureDensity(self.weights, self.concentrations[self.variables.names[i]])

    def vectors(self, places: Mapping[str, np.ndarray]) -> dict[str, Density]:
        """Joint densities of some real variables each, by name; positions are given."""
        found: dict[str, Density] = {}
        for name, at in places.items():
            rows = [self._real[int(i)] for i in at]
            covariances = np.eye(len(rows)) * (self.sds[rows] ** 2).T[:, None, :]
            found[name] = VectorMixtureDensity(self.weights, self.means[rows].T, covariances)
        return found

    def marginal(self, names: str | Iterable[str]) -> Any:
        """The marginal of one variable (probabilities or a density), or the mixture of several.

        The mixture of several variables has `log_density`, `table` (discrete variables only) and all
        questions of this class.
        """
        if isinstance(names, (str, Variable)):
            i = self.variables.position(names)
            return self.marginals[self.variables.names[i]]
        positions = self.variables.positions(names)
        if len(set(positions.tolist())) < len(positions):
            raise QueryError(f"marginal: a variable is named twice in {list(names)}")
        return self._keep(positions)

    def _keep(self, positions: np.ndarray) -> Surrogate:
        chosen = [self.variables[int(i)] for i in positions]
        rows = [self._real[int(i)] for i in positions if int(i) in self._real]
        parts = [np.arange(*self.variables.state_start[i : i + 2]) for i in positions]
        states = np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)
        names = {v.name for v in chosen}
        return Surrogate(
            Variables.of(chosen),
            self.log_weights,
            self.means[rows],
            self.sds[rows],
            self.log_tables[states],
            {name: alpha for name, alpha in self.concentrations.items() if name in names},
            self.log_z,
        )

    def condition(self, given: Mapping[str, Any]) -> Surrogate:
        """The mixture of the other variables given values of some."""
        columns = {}
        for name, value in given.items():
            variable = self.variables[self.variables.position(name)]
            columns[variable.name] = np.asarray(variable.value(value))
        logs = self.log_weights + self._log_components(columns)
        top = _log_sum(logs, -1)
        if not np.isfinite(top):
            raise ZeroProbabilityError(f"the mixture gives {dict(given)} the weight zero; check the values")
        rest = [i for i, name in enumerate(self.variables.names) if name not in columns]
        return replace(self._keep(np.array(rest, np.int64)), log_weights=logs - top)

    def conditional(self, names: str | Iterable[str], given: Mapping[str, Any]) -> Any:
        """The marginal of some variables given values of others; see `marginal`."""
        return self.condition(given).marginal(names)

    def _log_components(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Log density of the given values under each component, (..., components)."""
        total: Any = np.zeros(len(self.log_weights))
        for name, given in columns.items():
            i, column = self.variables.position(name), np.asarray(given)
            if self.variables.sizes[i]:
                total = total + self.log_tables[self._part(i)][column]
            elif i in self._real:
                mean, sd = self.means[self._real[i]], self.sds[self._real[i]]
                total = total - 0.5 * ((column[..., None] - mean) / sd) ** 2 - np.log(sd) - 0.5 * _LOG_2PI
            else:
                total = total + _log_dirichlet(column, self.concentrations[self.variables.names[i]])
        return np.asarray(total)

    def log_density(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Log density (log probability) of joint values: name -> array, for every variable of the mixture.

        Arrays are broadcast against each other: state indices or labels of discrete variables, numbers,
        vectors on the last axis for simplex variables.
        """
        missing = [name for name in self.variables.names if name not in columns]
        if missing:
            raise QueryError(
                f"log_density: no values for {missing[:5]}; ask for a marginal of the others first"
            )
        read = {
            name: _indices(self.variables[self.variables.position(name)], columns[name]) for name in columns
        }
        try:
            logs = self._log_components(read)
        except ValueError:
            shapes = {name: column.shape for name, column in read.items()}
            raise QueryError(f"log_density: expected shapes that can be broadcast, got {shapes}") from None
        return _log_sum(logs + self.log_weights, -1)

    @property
    def table(self) -> np.ndarray:
        """Joint probabilities of discrete variables, one axis each."""
        sizes = self.variables.sizes
        if (sizes == 0).any():
            names = [v.name for v in self.variables if not v.is_discrete]
            raise QueryError(f"table: {names[:3]} have no states; use log_density")
        if math.prod(map(int, sizes)) > 2**26:
            raise QueryError(f"table: {math.prod(map(int, sizes))} joint states; ask for a smaller marginal")
        mesh = np.meshgrid(*map(np.arange, sizes), indexing="ij", sparse=True)
        table = np.exp(self.log_density(dict(zip(self.variables.names, mesh, strict=True))))
        return np.broadcast_to(table, tuple(sizes)) / table.sum()

    def sample(self, count: int, rng: np.random.Generator | int | None = None) -> Samples:
        """Joint draws; `rng` is a generator or a seed."""
        check.whole("count", count, 0)
        rng = check.generator(rng)
        part = rng.choice(len(self.log_weights), size=count, p=_normalise(self.weights))
        indices = np.full((count, len(self.variables)), -1, np.int64)
        continuous: dict[str, np.ndarray] = {}
        for i, name in enumerate(self.variables.names):
            if self.variables.sizes[i]:
                cumulative = np.cumsum(np.exp(self.log_tables[self._part(i)]), axis=0)[:, part]
                level = rng.random(count) * cumulative[-1]
                indices[:, i] = (cumulative <= level).sum(axis=0)
            elif i in self._real:
                row = self._real[i]
                continuous[name] = self.means[row, part] + self.sds[row, part] * rng.standard_normal(count)
            else:
                gamma = rng.standard_gamma(self.concentrations[name][part])
                gamma = np.maximum(gamma, np.finfo(float).tiny)
                continuous[name] = gamma / gamma.sum(axis=1, keepdims=True)
        return Samples(self.variables, indices, continuous)

    def maximum(
        self, names: Literal["all"] | Iterable[str] = "all", given: Mapping[str, Any] | None = None
    ) -> Assignment:
        """The most probable values of some variables (the others summed out), or of all: marginal MAP, MAP.

        `given` holds values of further variables.
        """
        if isinstance(names, str) and names != "all":
            raise QueryError(f"maximum: expected 'all' or a list of names, got {names!r}")
        mixture = self.condition(given) if given else self
        if names != "all":
            mixture = mixture._keep(np.sort(mixture.variables.positions(names)))
        values = mixture._best()
        indices = np.full(len(self.variables), -1, np.int64)
        continuous: dict[str, Any] = {}
        for name, value in values.items():
            i = self.variables.position(name)
            if self.variables.sizes[i]:
                indices[i] = int(value)
            else:
                continuous[name] = float(value) if np.ndim(value) == 0 else value
        return Assignment(self.variables, indices, continuous)

    def _best(self) -> dict[str, Any]:
        sizes = [int(size) for size in self.variables.sizes]
        if all(sizes) and math.prod(sizes) * len(self.log_weights) <= _EXHAUSTIVE:
            states = np.unravel_index(int(np.argmax(self.table)), sizes) if sizes else ()
            return dict(zip(self.variables.names, states, strict=True))
        starts = _ModeAscent(self).run()
        values = _log_sum(self._log_components(starts) + self.log_weights, -1)
        best = int(np.argmax(values))
        return {name: column[best] for name, column in starts.items()}

    def __repr__(self) -> str:
        return (
            f"Surrogate({len(self.variables)} variables, {len(self.log_weights)} components of which "
            f"{self.effective_components:.2f} share the weight)"
        )


class _ModeAscent:
    """Ascent of the mixture density from the mode of every component at once; starts on the first axis."""

    def __init__(self, mixture: Surrogate) -> None:
        self._mixture, variables = mixture, mixture.variables
        self._where = np.flatnonzero(variables.sizes)  # discrete variables
        tables = [mixture.log_tables[mixture._part(i)] for i in self._where]
        self._states = np.array([table.argmax(axis=0) for table in tables], np.int64).reshape(
            len(tables), len(mixture.log_weights)
        )
        self._x = mixture.means.T.copy()
        self._simplex = {name: _mode_of(alpha - 1) for name, alpha in mixture.concentrations.items()}

    def run(self) -> dict[str, np.ndarray]:
        """Name -> values, one per start."""
        before: Any = -np.inf
        for _ in range(_CLIMBS):
            logs = self._logs()
            now = _log_sum(logs, -1)
            if (now - before <= _STILL * (1 + np.abs(now))).all():
                break
            before = now
            self._move(np.exp(logs - now[:, None]))
            if len(self._where):
                self._choose(self._logs())
        names = self._mixture.variables.names
        values: dict[str, np.ndarray] = {
            names[int(i)]: s for i, s in zip(self._where, self._states, strict=True)
        }
        values |= {names[i]: self._x[:, row] for i, row in self._mixture._real.items()}
        return values | self._simplex

    def _logs(self) -> np.ndarray:
        """Log of weight times density of each component, (starts, components)."""
        mixture = self._mixture
        gap = (self._x[:, :, None] - mixture.means) / mixture.sds
        logs = mixture.log_weights - 0.5 * (gap**2).sum(axis=1) - np.log(mixture.sds).sum(axis=0)
        if len(self._where):
            rows = mixture.variables.state_start[self._where][:, None] + self._states
            logs = logs + mixture.log_tables[rows].sum(axis=0)
        for name, x in self._simplex.items():
            logs = logs + _log_dirichlet(x, mixture.concentrations[name])
        return np.asarray(logs)

    def _move(self, share: np.ndarray) -> None:
        """Move all continuous values; `share` holds responsibilities (starts, components)."""
        mixture = self._mixture
        precision = share[:, None] / mixture.sds**2
        self._x = (precision * mixture.means).sum(axis=-1) / precision.sum(axis=-1)
        for name, alpha in mixture.concentrations.items():
            self._simplex[name] = _mode_of(share @ (alpha - 1))

    def _choose(self, logs: np.ndarray) -> None:
        """Give every discrete variable its best state, one after another."""
        for row, i in enumerate(self._where):
            table = self._mixture.log_tables[self._mixture._part(i)]
            own = table[self._states[row]]
            with np.errstate(invalid="ignore"):
                rest = logs - own
            if np.isneginf(
                own
            ).any():  # -inf - -inf says nothing about the rest: sum it without this variable
                rest = np.where(np.isneginf(own), self._without(row), rest)
            best = _log_sum(rest[:, None] + table, -1).argmax(axis=1)
            self._states[row] = best
            logs = rest + table[best]

    def _without(self, row: int) -> np.ndarray:
        """The logs without the discrete variable of a row."""
        rest = _ModeAscent.__new__(_ModeAscent)
        rest._mixture, rest._x, rest._simplex = self._mixture, self._x, self._simplex
        rest._where, rest._states = np.delete(self._where, row), np.delete(self._states, row, axis=0)
        return rest._logs()


def _mode_of(excess: np.ndarray) -> np.ndarray:
    """The maximum of sum_v excess_v log x_v; where none is positive, the density grows to a corner."""
    positive = np.maximum(excess, 0.0)
    corner = np.eye(excess.shape[-1])[excess.argmax(axis=-1)]
    none = positive.sum(axis=-1, keepdims=True) == 0
    point = np.where(none, corner, positive)
    point = np.maximum(point / point.sum(axis=-1, keepdims=True), _RIM)
    return point / point.sum(axis=-1, keepdims=True)


def _log_dirichlet(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    from scipy.special import xlogy

    terms = xlogy(alpha - 1, np.maximum(x, _EDGE)[..., None, :]).sum(axis=-1)
    return np.asarray(terms - dirichlet_log_norm(alpha))


def _log_sum(logs: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(np.logaddexp.reduce(logs, axis=axis))


def _normalise(p: np.ndarray) -> np.ndarray:
    return np.asarray(p / p.sum())


def _indices(variable: Variable, column: Any) -> np.ndarray:
    """What arrays hold for a column of values."""
    if not variable.is_discrete:
        return _values(variable, column)
    column = np.asarray(column)
    if column.dtype.kind in "iu" and ((column >= 0) & (column < variable.size)).all():
        return column
    flat = [variable.index(value) for value in column.ravel().tolist()]
    return np.array(flat, np.int64).reshape(column.shape)


def _values(variable: Variable, column: Any) -> np.ndarray:
    """Numbers, or vectors on the last axis."""
    found = float_array(f"values of '{variable.name}'", column, error=QueryError)
    if isinstance(variable.domain, Simplex) and found.shape[-1:] != (variable.domain.width,):
        raise QueryError(
            f"values of '{variable.name}': expected {variable.domain.width} numbers on the last axis, got "
            f"shape {found.shape}"
        )
    return found
