r"""Where chains begin: at different points, each of positive weight.

Random points are the starts of short runs. Of the ends e of those, chains take the one of the largest weight
first and then, again and again, the one farthest from all that are taken,

    argmax_e  min_{taken t}  d(e, t)^2,    d(e, t)^2 = sum_i (e_i - t_i)^2 / var_i + #{i: e_i != t_i}

over continuous and discrete variables i, var_i the variance among the ends: separate modes that were found
all get their chains as long as there are chains. An end more than 10 + 3 sqrt(n / 2) nats below the best is
left out, n the number of variables: the log density of a Gaussian varies by sqrt(n / 2).
"""

from __future__ import annotations

import numpy as np

from ...core.bijections import bijection_of
from ...core.domain import Real, Simplex
from ...core.errors import UnsupportedError
from ...core.factor_graph import FactorGraph
from ...core.wiring import starts_of
from ...kernels.tables import best_states
from ...structures.layers import dense_layers
from ..exact.possible_states import feasible_states
from ..problem.base import Problem
from ..problem.located import Places
from .draws import Draws

__all__ = ["farthest", "starting_points"]

_NEGLIGIBLE = 10.0  # nats below the best end of a short run at which a mode has no weight
_TRIES = 200  # random points per chain before the search for a possible one ends


def starting_points(
    problem: Problem,
    count: int,
    spread: float,
    rng: np.random.Generator,
    name: str,
    places: Places | None = None,
) -> Draws:
    """One point per chain, (count, 1, ...): states that no zero forbids, values around where variables lie.

    Without places real variables begin around zero. Free coordinates of a simplex variable are normal
    numbers. Points of weight zero are drawn anew, wider and narrower.
    """
    graph = problem.graph
    places = Places.none(len(graph.variables)) if places is None else places
    tables = graph.discrete_part()
    boxes = _boxes(tables, problem, count, rng, name)
    found = _points(graph, boxes, places, np.full(count, spread), rng)
    if graph.is_tables or dense_layers(graph) is not None:  # what has no zeros has no impossible points
        return found
    bad = _impossible(graph, found)
    for _ in range(_TRIES):
        if not bad.any():
            return found
        fresh = _points(graph, boxes, places, spread * 10 ** rng.uniform(-2, 1, count), rng)
        found = _mix(bad, fresh, found)
        bad = _impossible(graph, found)
    if not bad.any():
        return found
    raise UnsupportedError(
        f"{name} cannot treat this problem: none of {_TRIES} random points has positive weight; "
        "check the factors that are zero somewhere, or change spread"
    )


def _boxes(
    tables: FactorGraph, problem: Problem, count: int, rng: np.random.Generator, name: str
) -> list[np.ndarray]:
    """Per chain, flags of states of which every combination is possible as far as tables are concerned."""
    variables = tables.variables
    if not np.isneginf(tables.log_tables).any():
        return [np.ones(int(variables.state_start[-1]), dtype=bool)] * count
    n = len(variables)
    posed = Problem(tables, np.ones(n), np.zeros(n, dtype=np.int64), has_evidence=problem.has_evidence)
    try:
        return [feasible_states(posed, chain, rng, name) for chain in range(count)]
    except UnsupportedError:
        raise UnsupportedError(
            f"{name} cannot treat this problem: no joint state of positive weight was found to start from; "
            "give evidence that makes the search easier, or use an exact method"
        ) from None


def _points(
    graph: FactorGraph,
    boxes: list[np.ndarray],
    places: Places,
    spread: np.ndarray,
    rng: np.random.Generator,
) -> Draws:
    count = len(boxes)
    states = np.full((count, 1, len(graph.variables)), -1, dtype=np.int64)
    for chain, box in enumerate(boxes):
        wish = np.where(box, rng.random(len(box)), -1.0)
        sizes = graph.variables.sizes
        states[chain, 0, sizes > 0] = best_states(starts_of(sizes[sizes > 0]), wish)
    values = {}
    for i, (name, domain) in enumerate(zip(graph.variables.names, graph.variables.domains, strict=True)):
        if isinstance(domain, Real):
            noise = spread * rng.standard_normal(count)
            values[name] = (places.centre[i] + places.scale[i] * noise)[:, None]
        elif isinstance(domain, Simplex):
            own = bijection_of(domain)
            noise = np.minimum(spread, 1.0)[:, None] * rng.standard_normal((count, own.free))
            values[name] = own.inverse(noise)[:, None, :]
    return Draws(states, values)


def _impossible(graph: FactorGraph, points: Draws) -> np.ndarray:
    columns = {
        name: points.values[name][:, 0] if name in points.values else points.states[:, 0, i]
        for i, name in enumerate(graph.variables.names)
    }
    return np.isneginf(np.broadcast_to(graph.log_scores(columns), len(points.states)))


def _mix(bad: np.ndarray, fresh: Draws, old: Draws) -> Draws:
    states, values = old.states.copy(), {name: v.copy() for name, v in old.values.items()}
    states[bad] = fresh.states[bad]
    for name, v in values.items():
        v[bad] = fresh.values[name][bad]
    return Draws(states, values)


def farthest(ends: Draws, count: int) -> Draws:
    """As many ends of short runs (one draw per chain) as wanted, far from each other and of some weight."""
    assert ends.logs is not None
    logs = ends.logs[:, 0]
    drop = _NEGLIGIBLE + 3 * np.sqrt(ends.states.shape[2] / 2)
    apart = _squares(ends)
    apart[:, logs < logs.max() - drop] = -1.0
    taken = [int(logs.argmax())]
    while len(taken) < count:
        taken.append(int(apart[taken].min(axis=0).argmax()))
    values = {name: v[taken] for name, v in ends.values.items()}
    return Draws(ends.states[taken], values, ends.logs[taken])


def _squares(ends: Draws) -> np.ndarray:
    """Squared distances of all ends from each other."""
    rows = ends.states[:, 0]
    found = np.array([(rows != row).sum(axis=1) for row in rows], dtype=np.float64)
    for value in ends.values.values():
        x = value.reshape(len(rows), -1)
        scale = x.std(axis=0)
        x = x / np.where(scale > 0, scale, 1.0)
        found += ((x[:, None] - x) ** 2).sum(axis=2)
    return found
