"""Random hybrid models with evidence, and their answers on two independent roads.

Quadrature: factors are evaluated on a grid of real values times all states and summed by the trapezoidal rule
with one step of Richardson's extrapolation. Quadratic forms: where a model is Gaussian given states, the form
of every joint state is read off values of the factors at a few points. Neither knows of conditioning.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import credo
from credo import potentials
from credo.core.density import namespace
from credo.core.result import Status
from hybrid_zoo import Truth, real

_WALL = 14.0  # beyond it there is no weight worth a digit
_LOG_2PI = float(np.log(2 * np.pi))


@dataclass
class Case:
    """A model, evidence, and whether it is Gaussian given its states."""

    model: credo.HybridNet
    evidence: dict[str, Any]
    is_gaussian: bool
    notes: list[str] = field(default_factory=list)

    @property
    def free(self) -> list[credo.Variable]:
        """Variables that are not fixed."""
        seen = {name for name, value in self.evidence.items() if not isinstance(value, list)}
        return [v for v in self.model.variables if v.name not in seen]


def random_case(seed: int, gaussian: bool = False) -> Case:
    """One to three discrete and one to three real variables, any factors or Gaussian ones, and evidence."""
    rng = np.random.default_rng(seed)
    n_real = int(rng.integers(1, 4))
    n_discrete = int(rng.integers(1, 4 if n_real < 3 else 3))
    states = [
        credo.Variable(f"s{i}", int(rng.integers(2, 4 if n_real < 3 else 3))) for i in range(n_discrete)
    ]
    reals = [real(f"x{i}") for i in range(n_real)]
    is_gaussian = n_real == 3 or bool(rng.random() < 0.35) or gaussian
    factors = [_table(rng, states) for _ in range(int(rng.integers(1, 4)))]
    for k, x in enumerate(reals):
        factors.append(_anchor(rng, x, reals[:k], states, is_gaussian))
    for _ in range(int(rng.integers(0, 3))):
        factors.append(_more(rng, reals, states, is_gaussian))
    variables = [*states, *reals]
    order = rng.permutation(len(variables))
    rng.shuffle(factors)  # type: ignore[arg-type]
    model = credo.HybridNet([variables[i] for i in order], factors)
    return Case(model, _evidence(rng, variables), is_gaussian)


def _table(rng: np.random.Generator, states: list[credo.Variable]) -> credo.TableFactor:
    scope = _some(rng, states, 2)
    table = rng.random([v.size for v in scope]) + 0.05
    table[rng.random(table.shape) < 0.15] = 0.0
    if not table.any():
        table.flat[0] = 1.0
    return credo.TableFactor(scope, table)


def _some(rng: np.random.Generator, things: list, most: int) -> list:
    count = int(rng.integers(1, min(most, len(things)) + 1))
    return [things[i] for i in rng.permutation(len(things))[:count]]


def _anchor(rng, x, before, states, is_gaussian):
    """A factor that bounds x, given earlier variables."""
    kind = rng.choice(
        ["gaussian", "emission", "regression"] if is_gaussian else ["gaussian", "laplace", "student"]
    )
    if not is_gaussian and rng.random() < 0.4:
        kind = "emission"
    if kind == "gaussian":
        return potentials.gaussian(x, rng.normal(), rng.uniform(0.4, 1.5))
    if kind == "emission":
        s = states[int(rng.integers(len(states)))]
        return potentials.emission(x, s, 1.5 * rng.normal(size=s.size), rng.uniform(0.4, 1.5, s.size))
    if kind == "laplace":
        return potentials.laplace(x, scale=rng.uniform(0.4, 0.6), centre=0.5 * rng.integers(-2, 3))
    if kind == "student":  # tails are too heavy for a grid without a wall
        return credo.DensityFactor(
            [x], _walled_student, rng.uniform(3, 8), rng.uniform(0.5, 1.0), rng.normal()
        )
    parents = _some(rng, before, 2) if before else []
    given = _some(rng, states, 2)
    sizes = [v.size for v in given]
    weights = rng.uniform(-0.8, 0.8, (*sizes, len(parents)))
    return credo.LinearGaussianFactor.conditional(
        x, parents, given, weights, rng.uniform(0.4, 1.5, sizes), rng.normal(size=sizes)
    )


def _walled_student(x, freedom, scale, centre):
    xp = namespace(x)
    return -(freedom + 1) / 2 * xp.log1p(((x - centre) / scale) ** 2 / freedom) - 0.1 * x**2


def _more(rng, reals, states, is_gaussian):
    """A factor that need not bound anything."""
    kinds = ["block", "residual", "density of states"]
    kind = rng.choice(kinds if is_gaussian else [*kinds, "laplace", "student", "bilinear", "mixture"])
    scope = _some(rng, reals, 2)
    if kind == "block":
        k = len(scope)
        root = rng.normal(size=(k, k)) * 0.6
        return credo.GaussianFactor(scope, root @ root.T, rng.normal(size=k), rng.normal())
    if kind == "residual":
        given = _some(rng, states, 2)
        sizes = [v.size for v in given]
        constant = np.where(rng.random(sizes) < 0.1, -np.inf, rng.normal(size=sizes))
        w = rng.normal(size=(*sizes, len(scope)))
        return credo.LinearGaussianFactor(
            [*scope, *given], w, rng.normal(size=sizes), rng.uniform(0.5, 2, sizes), constant
        )
    if kind == "density of states":
        s = states[int(rng.integers(len(states)))]
        return credo.DensityFactor([s], _slope, rng.normal())
    if kind == "bilinear":
        return credo.BilinearFactor(states, reals, 0.4 * rng.normal(size=(len(states), len(reals))))
    if kind == "mixture":
        return potentials.gaussian_mixture(scope[0], [0.4, 0.6], [-1.0, 1.5], [0.5, 1.0])
    if kind == "laplace":
        return potentials.laplace(*scope, scale=rng.uniform(0.8, 2.0), centre=0.5 * rng.integers(-2, 3))
    return potentials.student(*scope, freedom=rng.uniform(2, 6), scale=rng.uniform(0.6, 1.5))


def _slope(s, weight):
    return weight * s


def _evidence(rng: np.random.Generator, variables: list[credo.Variable]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for v in variables:
        if rng.random() >= 0.3:
            continue
        if not v.is_discrete:
            found[v.name] = float(0.5 * rng.integers(-5, 6))
        elif rng.random() < 0.3:
            found[v.name] = rng.uniform(0.1, 1.0, v.size).tolist()
        else:
            found[v.name] = int(rng.integers(v.size))
    return found


def truth(case: Case) -> Truth | None:
    """Log Z, probabilities, means and variances by quadrature; None where the grid is too small."""
    n_free = sum(not v.is_discrete for v in case.free)
    step = {0: 1.0, 1: 0.01, 2: 0.05, 3: 0.25}[n_free]
    fine, edge = _sums(case, step)
    if not np.isfinite(fine[0]):
        return Truth(-np.inf, {})
    if edge > 1e-9:
        return None
    coarse = fine if n_free in (0, 3) else _sums(case, 2 * step)[0]
    ratio = np.exp(coarse[0] - fine[0])
    z = (4 - ratio) / 3  # in units of the fine Z
    log_z = fine[0] + np.log(z)
    marginals = {}
    for name in fine[1]:
        # Unnormalised moments are what the rule converges for.
        moments = (4 * fine[1][name] - ratio * coarse[1][name]) / 3 / z
        marginals[name] = (
            moments if name.startswith("s") else np.array([moments[0], moments[1] - moments[0] ** 2])
        )
    return Truth(float(log_z), marginals)


def _sums(case: Case, step: float) -> tuple[tuple[float, dict[str, np.ndarray]], float]:
    """Log Z and probabilities, or first and second moments; the share of the outermost points."""
    graph = case.model.to_factor_graph()
    points = np.arange(-round(_WALL / step), round(_WALL / step) + 1) * step
    hard = {name for name, value in case.evidence.items() if not isinstance(value, list)}
    axes = []
    for v in graph.variables:
        own = np.arange(v.size) if v.is_discrete else points
        axes.append(np.array([case.evidence[v.name]]) if v.name in hard else own)
    mesh = np.meshgrid(*axes, indexing="ij", sparse=True)
    columns = dict(zip(graph.variables.names, mesh, strict=True))
    log_p: Any = np.zeros([len(axis) for axis in axes])
    for factor in graph.factors:
        log_p = log_p + factor.log_values(*(columns[name] for name in factor.names))
    for name, value in case.evidence.items():
        if isinstance(value, list):
            log_p = log_p + np.log(np.asarray(value))[columns[name]]
    top = log_p.max()
    if top == -np.inf:
        return (-np.inf, {}), 0.0
    p = np.exp(log_p - top)
    total, edge, found = p.sum(), 0.0, {}
    n_free = sum(not v.is_discrete for v in case.free)
    for i, v in enumerate(graph.variables):
        if v.name in hard:
            continue
        own = p.sum(axis=tuple(j for j in range(p.ndim) if j != i)) / total
        if v.is_discrete:
            found[v.name] = own
        else:
            edge = max(edge, own[0], own[-1])
            found[v.name] = np.array([own @ points, own @ points**2])
    return (float(top + np.log(total) + n_free * np.log(step)), found), edge


@dataclass
class Form:
    """A joint state of the free discrete variables with g + h'x - x'Jx/2 of the free real ones."""

    state: dict[str, int]
    precision: np.ndarray
    shift: np.ndarray
    constant: float

    @property
    def mode(self) -> np.ndarray:
        """The best numbers."""
        return np.linalg.solve(self.precision, self.shift)

    def integral(self, maximised: np.ndarray) -> float:
        """The log of the maximum over some numbers of the integral over the others."""
        value = self.constant + 0.5 * self.shift @ self.mode
        inner = self.precision[np.ix_(~maximised, ~maximised)]
        return float(value + 0.5 * (len(inner) * _LOG_2PI - np.linalg.slogdet(inner)[1]))


def forms(case: Case) -> tuple[list[credo.Variable], list[Form]]:
    """The free real variables, and the form of every joint state that has weight, from values of factors."""
    graph = case.model.to_factor_graph()
    free = case.free
    states = [v for v in free if v.is_discrete]
    reals = [v for v in free if not v.is_discrete]
    k = len(reals)
    points = [np.zeros(k), *np.eye(k), *(2 * np.eye(k))]
    pairs = list(itertools.combinations(range(k), 2))
    points += [np.eye(k)[i] + np.eye(k)[j] for i, j in pairs]
    found = []
    for chosen in itertools.product(*(range(v.size) for v in states)):
        state = dict(zip([v.name for v in states], chosen, strict=True))
        soft = {n: v for n, v in case.evidence.items() if isinstance(v, list)}
        given = {n: v for n, v in case.evidence.items() if n not in soft} | state
        values = np.array([_score(graph, given, reals, x) for x in points])
        values += sum(np.log(likelihood[state[name]]) for name, likelihood in soft.items())
        if values[0] == -np.inf:
            continue
        f0, f1, f2 = values[0], values[1 : k + 1], values[k + 1 : 2 * k + 1]
        J = np.diag(-(f2 - 2 * f1 + f0))
        h = f1 - f0 + 0.5 * np.diag(J)
        for (i, j), both in zip(pairs, values[2 * k + 1 :], strict=True):
            J[i, j] = J[j, i] = -(both - f1[i] - f1[j] + f0)
        found.append(Form(state, J, h, float(f0)))
    return reals, found


def _score(graph: Any, given: dict[str, Any], reals: list[credo.Variable], x: np.ndarray) -> float:
    at = given | {v.name: number for v, number in zip(reals, x, strict=True)}
    return float(sum(f.log_values(*(np.asarray(at[name]) for name in f.names)) for f in graph.factors))


# What a promise may miss: by kind of answer, for exact methods and for quadrature of the method itself.
_EXACT = 2e-6
_BOUND = 1e-6


def wrong(result: Any, expected: Truth) -> str | None:
    """The promise of a result that is broken, None if all are kept."""
    log_z = result.log_z
    if log_z is not None:
        gap = log_z.value - expected.log_z
        broken = {"exact": abs(gap) > _EXACT, "lower": gap > _BOUND, "upper": gap < -_BOUND}
        if np.isnan(gap) or broken.get(log_z.kind, False):
            return f"log Z {log_z} is {gap:.3g} off"
    is_exact = result.status is Status.EXACT
    for name, value in expected.marginals.items():
        found = result.marginals[name]
        pair = found if isinstance(found, np.ndarray) else np.array([found.mean, found.variance])
        if not np.isfinite(pair).all() or (is_exact and np.abs(pair - value).max() > 10 * _EXACT):
            return f"{name}: {pair} instead of {value}"
        if isinstance(found, np.ndarray) and abs(found.sum() - 1) > 1e-6:
            return f"{name}: {found} does not sum to one"
    return None


def error_of(result: Any, expected: Truth) -> float:
    """The largest error of log Z and marginals."""
    errors = [0.0 if result.log_z is None else abs(result.log_z.value - expected.log_z)]
    for name, value in expected.marginals.items():
        found = result.marginals[name]
        pair = found if isinstance(found, np.ndarray) else np.array([found.mean, found.variance])
        errors.append(float(np.abs(pair - value).max()))
    return max(errors)
