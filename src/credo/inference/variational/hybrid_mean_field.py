r"""Mean field on graphs with real variables, compiled: categorical and Gaussian beliefs, block by block.

The belief of variable i depends on the expectation of the factors around it under the other beliefs,

    f_i(x_i) = sum_{a at i} E_{b_-i}[ log f_a(x_a) ].

A discrete variable gets b_i proportional to exp f_i. A real variable has b_i = N(m, v). If all its factors
are Gaussian, exp(g + h'x - x'Jx / 2), or are so given states, f_i is quadratic, and with the precisions J_a
and shifts h_a of `closed_forms.py`

    1/v'  =  sum_a J_a,                       m'  =  v' sum_a h_a.

Where the sum of precisions is not positive the bound grows with v without limit, so that there is no
integral. Otherwise, with E over b_i,

    1/v'  =  (1 - r) / v - r E[f_i''],        m'  =  m + r v' E[f_i'],
    E[f_i'] = E[f_i (x - m)] / v,             E[f_i''] = E[f_i ((x - m)^2 / v - 1)] / v,

a step of natural gradient ascent that needs no derivative of the potentials; r is halved from one until the
bound does not fall (by more than a thousandth of a nat where expectations are not exact: there the zero of
the gradient is sought, not the top of a sum over points). Variables that share no factor are updated at once.
Expectations of factors that are Gaussian given states need means and variances only; others are sums over
states and Gauss-Hermite points, exact for polynomials of degree 2 nodes - 1.

Source: Khan and Lin (2017) for the natural gradient; Bonnet's and Price's identities for the derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core.domain import Discrete
from ...core.errors import ModelError, UnsupportedError
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from ..problem.closed_forms import expected_by_states, natural, over_states
from ..problem.colour_blocks import colour_blocks
from ..problem.gaussian_system import closed_only, has_closed_form
from ..problem.potentials import group_function

__all__ = ["HybridBeliefs", "Sweeper"]

_HALVINGS = 30  # of a step before a belief stays
_WIDEST = 1e30  # variance beyond which a belief does not go
_GROWTH = 1e3  # by which a variance may grow in one step
_ROUNDING = 1e-12  # relative; by which the bound may fall in one step
_ULPS = 8 * np.finfo(float).eps  # relative; by which a mean may change by rounding alone
_QUADRATURE = 1e-3  # nats by which it may fall where expectations are not exact


@record("mean-field of any domain")
class HybridBeliefs(NamedTuple):
    """Where coordinate ascent stands; the last row of each array stands for no variable."""

    probabilities: np.ndarray  # (n + 1, states) of discrete variables
    means: np.ndarray  # (n + 1,) of real ones
    variances: np.ndarray  # (n + 1,)
    free_energy: float  # of these beliefs


class MeanFieldStructure(NamedTuple):
    """What is constant in a program."""

    functions: tuple[Any, ...]  # of the groups; None where the form is closed
    domains: tuple[tuple[Any, ...], ...]  # of their scopes
    discrete: tuple[tuple[int, int], ...]  # (group, axis) around discrete variables
    real: tuple[tuple[int, int], ...]  # (group, axis) around real ones
    closed: tuple[tuple[int, int], ...]  # (group, axis) around those among closed forms only
    forms: tuple[Any, ...]  # `quadratic` or `residual` of the groups of these; None for the others


@dataclass(frozen=True)
class Sweeper:
    """A graph made ready."""

    graph: FactorGraph
    structure: MeanFieldStructure  # constants of programs
    plan: dict[str, Any]  # arguments of programs
    constant: float  # factors of no variable

    @classmethod
    def of(cls, graph: FactorGraph, nodes: int) -> Sweeper:
        """Colour the graph and lay it out."""
        is_discrete, is_closed = graph.variables.sizes > 0, closed_only(graph)
        kinds = (is_discrete, ~is_discrete & ~is_closed, is_closed)
        blocks = [colour_blocks(graph, kind) for kind in kinds]
        met = [tuple((m.group, m.axis) for m in b.meetings) for b in blocks]
        structure = MeanFieldStructure(
            tuple(None if has_closed_form(g) else group_function(g) for g in graph.batches),
            tuple(g.domains for g in graph.batches),
            met[0],
            met[1],
            met[2],
            tuple(g.function if has_closed_form(g) else None for g in graph.batches),
        )
        plan = {
            "scopes": tuple(g.scopes for g in graph.batches),
            "parameters": tuple(g.parameters for g in graph.batches),
            "members": tuple(b.members for b in blocks),
            "rows": tuple(tuple(m.rows for m in b.meetings) for b in blocks),
            "slots": tuple(tuple(m.slots for m in b.meetings) for b in blocks),
            "sizes": np.append(graph.variables.sizes, 1),
            "nodes": _hermite(nodes),
        }
        constant = sum(float(f.log_values()) for f in graph.factors if not f.scope)
        plan["slack"] = np.asarray(0.0 if _is_exact(graph) else _QUADRATURE)
        with precision(double=True):  # once: small arrays take longer to hand over than to compute with
            return cls(graph, structure, jax.tree.map(jnp.asarray, plan), constant)

    @property
    def is_exact(self) -> bool:
        """Whether every expectation is: sums, and closed forms of real variables."""
        return _is_exact(self.graph)

    def start(self, probabilities: np.ndarray, means: np.ndarray, variances: np.ndarray) -> HybridBeliefs:
        """Beliefs with their free energy; refused where it is not finite."""
        beliefs = HybridBeliefs(probabilities, means, variances, 0.0)
        return beliefs._replace(free_energy=self.free_energy(beliefs))

    def free_energy(self, beliefs: HybridBeliefs, nodes: int | None = None) -> float:
        """Minus the bound on log Z, with other Gauss-Hermite points if asked for."""
        plan = self.plan if nodes is None else {**self.plan, "nodes": _hermite(nodes)}
        with precision(double=True):
            parts, entropy = _ENERGY(beliefs[:3], plan, structure=self.structure)
        for group, part in zip(self.graph.batches, parts, strict=True):
            self._refuse(group, np.asarray(part))
        return -(self.constant + sum(float(np.asarray(p).sum()) for p in parts) + float(entropy))

    def _refuse(self, group: Any, means: np.ndarray) -> None:
        wrong = np.flatnonzero(~np.isfinite(means))
        if not len(wrong):
            return
        factor = self.graph.factors[int(group.factors[wrong[0]])]
        if means[wrong[0]] == -np.inf:
            raise UnsupportedError(
                f"mean-field cannot treat this problem: the factor over {list(factor.names)} is zero where "
                "beliefs have weight, so E[log factor] is -inf; use gibbs, metropolis or nuts"
            )
        raise ModelError(
            f"factor over {list(factor.names)}: a log-potential is NaN or +inf where beliefs lie"
        )

    def sweep(self, beliefs: HybridBeliefs, orders: tuple[np.ndarray, ...]) -> tuple[HybridBeliefs, float]:
        """Update the blocks of discrete variables, of real ones, and of those among closed forms only."""
        with precision(double=True):
            new, change = _SWEEP(beliefs[:3], self.plan, orders, structure=self.structure)
            found = self.start(*(np.asarray(x) for x in new))
        return found, float(change)


def _is_exact(graph: FactorGraph) -> bool:
    return all(has_closed_form(g) or all(isinstance(d, Discrete) for d in g.domains) for g in graph.batches)


def _hermite(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights for the standard normal distribution."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return points, weights / weights.sum()


def _points(beliefs: Any, plan: Any, domain: Any, at: jax.Array) -> tuple[Any, Any]:
    """Values of variables to sum over and their weights, (rows, values)."""
    probabilities, means, variances = beliefs
    if isinstance(domain, Discrete):
        states = jnp.broadcast_to(jnp.arange(domain.size), (len(at), domain.size))
        return states, probabilities[at][:, : domain.size]
    points, weights = plan["nodes"]
    values = means[at][:, None] + jnp.sqrt(variances[at])[:, None] * points
    return values, jnp.broadcast_to(weights, values.shape)


def _expect(
    g: int,
    row: jax.Array,
    beliefs: Any,
    plan: Any,
    structure: MeanFieldStructure,
    axis: int | None,
    own: Any,
) -> jax.Array:
    """Expected log-potentials of factors; (rows,), or (rows, values) by the values of one axis."""
    if structure.forms[g] is not None:
        return _expected_form(g, row, beliefs, plan, structure, axis, own)
    domains = structure.domains[g]
    shape = [1] * len(domains)
    columns, weight = [], jnp.ones((len(row), *shape))
    for k, domain in enumerate(domains):
        if k == axis:
            values = jnp.minimum(own, domain.size - 1) if isinstance(domain, Discrete) else own
            share = jnp.ones(values.shape)
        else:
            values, share = _points(beliefs, plan, domain, plan["scopes"][g][row, k])
        spread = (len(row), *shape[:k], values.shape[1], *shape[k + 1 :])
        columns.append(values.reshape(spread))
        weight = weight * share.reshape(spread)
    logs = structure.functions[g](columns, tuple(p[row] for p in plan["parameters"][g]))
    terms = jnp.where(weight > 0, weight * jnp.where(weight > 0, logs, 0.0), 0.0)
    others = tuple(1 + k for k in range(len(domains)) if k != axis)
    return terms.sum(axis=others)


def _expected_form(
    g: int,
    row: jax.Array,
    beliefs: Any,
    plan: Any,
    structure: MeanFieldStructure,
    axis: int | None,
    own: Any,
) -> jax.Array:
    """The same where the form is closed."""
    mean, variance, shares = _moments(g, row, beliefs, plan, structure)
    mean, variance, shares = mean[:, None], variance[:, None], [s[:, None] for s in shares]
    k = mean.shape[-1]
    if axis is not None and axis < k:
        mean = jnp.repeat(mean, own.shape[1], axis=1).at[..., axis].set(own)
        variance = variance.at[..., axis].set(0.0)
    parameters = [p[row][:, None] for p in plan["parameters"][g]]
    table = expected_by_states(structure.forms[g], mean, variance, parameters, len(shares))
    if axis is None or axis < k:
        found = over_states(table, shares)
        return found[:, 0] if axis is None else found
    found = over_states(table, shares, axis - k)[:, 0]
    return jnp.take_along_axis(found, jnp.minimum(own, found.shape[1] - 1), axis=1)


def _moments(
    g: int, row: jax.Array, beliefs: Any, plan: Any, structure: MeanFieldStructure
) -> tuple[Any, Any, list[Any]]:
    """Means and variances (rows, k) of the real variables of factors; probabilities of each discrete one."""
    probabilities, means, variances = beliefs
    at, domains = plan["scopes"][g][row], structure.domains[g]
    k = sum(not isinstance(d, Discrete) for d in domains)
    shares = [probabilities[at[:, j]][:, : domains[j].size] for j in range(k, len(domains))]
    return means[at[:, :k]], variances[at[:, :k]], shares


def _around(
    kind: int, b: Any, own: jax.Array, beliefs: Any, plan: Any, structure: MeanFieldStructure
) -> jax.Array:
    """The functions f_i of a block at `own` (length, values)."""
    length = len(own)
    own = jnp.concatenate([own, own[:1]])
    total = jnp.zeros(own.shape)
    for m, (g, axis) in enumerate((structure.discrete, structure.real)[kind]):
        row, slot = plan["rows"][kind][m][b], plan["slots"][kind][m][b]
        total = total.at[slot].add(_expect(g, row, beliefs, plan, structure, axis, own[slot]))
    return total[:length]


def _natural(b: Any, beliefs: Any, plan: Any, structure: MeanFieldStructure) -> tuple[jax.Array, jax.Array]:
    """Precisions and shifts of the quadratic functions f_i of a block."""
    length = plan["members"][2].shape[1]
    precision, shift = jnp.zeros(length + 1), jnp.zeros(length + 1)
    for m, (g, axis) in enumerate(structure.closed):
        row, slot = plan["rows"][2][m][b], plan["slots"][2][m][b]
        mean, _, shares = _moments(g, row, beliefs, plan, structure)
        parameters = [p[row] for p in plan["parameters"][g]]
        J, h = natural(structure.forms[g], axis, mean, shares, parameters)
        precision, shift = precision.at[slot].add(J), shift.at[slot].add(h)
    return precision[:length], shift[:length]


def _energy(beliefs: Any, plan: Any, *, structure: MeanFieldStructure) -> tuple[list[jax.Array], jax.Array]:
    """Expected log-potentials of every factor, group by group, and the entropy."""
    probabilities, _, variances = beliefs
    parts = []
    for g, domains in enumerate(structure.domains):
        rows = jnp.arange(len(plan["scopes"][g]))
        parts.append(
            _expect(g, rows, beliefs, plan, structure, None, None) if domains else jnp.zeros(len(rows))
        )
    entropy = -jnp.where(
        probabilities > 0, probabilities * jnp.log(jnp.maximum(probabilities, 1e-300)), 0.0
    ).sum()
    is_real = plan["sizes"] == 0
    return parts, entropy + jnp.where(is_real, 0.5 * jnp.log(2 * np.pi * np.e * variances), 0.0).sum()


def _sweep(beliefs: Any, plan: Any, orders: Any, *, structure: MeanFieldStructure) -> tuple[Any, jax.Array]:
    """Beliefs after updating every block, and the largest change."""
    change = jnp.zeros(())
    for kind, update in enumerate((_update_discrete, _update_real, _update_closed)):
        if plan["members"][kind].shape[0]:
            beliefs, moved = _update(kind, update, beliefs, plan, orders[kind], structure)
            change = jnp.maximum(change, moved)
    return beliefs, change


def _update(
    kind: int, update: Any, beliefs: Any, plan: Any, order: Any, structure: MeanFieldStructure
) -> jax.Array:
    members = plan["members"][kind]

    def one(k: jax.Array, carry: Any) -> tuple[Any, jax.Array]:
        beliefs, change = carry
        b = order[k]

        def around(own: Any = None) -> Any:
            if kind == 2:
                return _natural(b, beliefs, plan, structure)
            return _around(kind, b, own, beliefs, plan, structure)

        beliefs, moved = update(members[b], beliefs, plan, around)
        is_meant = members[b] < len(plan["sizes"]) - 1
        return beliefs, jnp.maximum(change, jnp.where(is_meant, moved, 0.0).max())

    return jax.lax.fori_loop(0, len(members), one, (beliefs, jnp.zeros(())))


def _update_discrete(members: Any, beliefs: Any, plan: Any, around: Any) -> tuple[Any, Any]:
    probabilities, means, variances = beliefs
    states = jnp.broadcast_to(jnp.arange(probabilities.shape[1]), (len(members), probabilities.shape[1]))
    logs = jnp.where(states < plan["sizes"][members][:, None], around(states), -jnp.inf)
    old, new = probabilities[members], jax.nn.softmax(logs, axis=1)
    # No state is left only where the start was impossible already; the old belief is no worse.
    new = jnp.where(jnp.isfinite(logs.max(axis=1, keepdims=True)), new, old)
    return (probabilities.at[members].set(new), means, variances), jnp.abs(new - old).max(axis=1)


def _update_real(members: Any, beliefs: Any, plan: Any, around: Any) -> tuple[Any, Any]:
    probabilities, means, variances = beliefs
    m, v = means[members], variances[members]
    points, weights = plan["nodes"]

    def look(m: Any, v: jax.Array) -> tuple[Any, Any]:
        logs = around(m[:, None] + jnp.sqrt(v)[:, None] * points)
        return logs, logs @ weights + 0.5 * jnp.log(v)

    logs, here = look(m, v)
    slope = (logs * points) @ weights / jnp.sqrt(v)
    bend = (logs * (points**2 - 1)) @ weights / v
    allowed = here - plan["slack"] - _ROUNDING * (1 + jnp.abs(here))

    def is_searching(state: Any) -> jax.Array:
        return (state[0] < _HALVINGS) & (~state[4]).any()

    def halve(state: Any) -> Any:
        k, r, new_m, new_v, is_done = state
        precision = (1 - r) / v - r * bend
        is_valid = precision > jnp.maximum(1 / (v * _GROWTH), 1 / _WIDEST)
        wide = jnp.where(is_valid, 1 / precision, v)
        moved = jnp.where(is_valid, m + r * wide * slope, m)
        is_better = ~is_done & is_valid & (look(moved, wide)[1] >= allowed)
        return (
            k + 1,
            r / 2,
            jnp.where(is_better, moved, new_m),
            jnp.where(is_better, wide, new_v),
            is_done | is_better,
        )

    first = (jnp.zeros((), jnp.int64), jnp.ones(len(m)), m, v, members == len(means) - 1)
    _, _, new_m, new_v, _ = jax.lax.while_loop(is_searching, halve, first)
    # The whole step, of which halving may have left little: it vanishes only with the gradient.
    change = jnp.maximum(jnp.abs(slope) * jnp.sqrt(v), jnp.abs(1 + bend * v))
    return (probabilities, means.at[members].set(new_m), variances.at[members].set(new_v)), change


def _update_closed(members: Any, beliefs: Any, plan: Any, around: Any) -> tuple[Any, Any]:
    probabilities, means, variances = beliefs
    m, v = means[members], variances[members]
    precision, shift = around()
    is_meant, is_bounded = members < len(means) - 1, precision > 1 / _WIDEST
    wide = jnp.where(is_bounded, 1 / jnp.where(is_bounded, precision, 1.0), _WIDEST)
    new_v = jnp.where(is_meant, wide, v)
    new_m = jnp.where(is_meant & is_bounded, shift * new_v, m)
    moved = jnp.maximum(jnp.abs(new_m - m) - _ULPS * jnp.abs(m), 0.0)  # what is left of it is rounding
    change = jnp.maximum(moved / jnp.sqrt(v), jnp.abs(jnp.log(new_v / v)))
    return (probabilities, means.at[members].set(new_m), variances.at[members].set(new_v)), change


_ENERGY, _SWEEP = Compiled(_energy), Compiled(_sweep)
