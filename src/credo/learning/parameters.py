"""Log tables as a linear function of a vector of weights, for every kind of undirected model.

    theta = D w + fixed         all log tables of the graph, in factor order without gaps

For a `LogLinear` model D holds its features. For tables, D selects: each table entry is one weight, or
the entries of factors that share a table are the same weights. Entries that are -inf are constraints
and stay. Expected features are D' mu for factor marginals mu, so one gradient serves all models:

    d/dw log Z = D' mu.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import OptionError, UnsupportedError
from ..core.factor_graph import FactorGraph
from ..core.wiring import starts_of
from ..models.mrf import MarkovNet

__all__ = ["NOT_DECLARED", "Parameters", "free_weights", "why_not_linear"]

NOT_DECLARED = (
    "none of its parameters is one to learn; declare parameters: credo.Parameter in the place of a number, "
    "in a DensityFactor of a HybridNet"
)
_MOST = 2000  # weights whose rank is computed
_MOST_STATES = 1 << 14  # joint states over which they are counted where tables have zeros


@dataclass(frozen=True)
class Parameters:
    """How weights make the tables of a graph."""

    graph: FactorGraph  # the structure; its tables lie without gaps
    design: Any  # sparse D, (entries, weights)
    transpose: Any  # sparse D', kept in row form
    fixed: np.ndarray  # (entries,) what no weight changes
    start: np.ndarray  # (weights,) of the model given
    model: Callable[[np.ndarray], Any]  # a new model of the same kind with these weights

    @classmethod
    def of(cls, model: Any, *, tie: Any = None, fixed: Iterable[int] = ()) -> Parameters:
        """The parameters of a model.

        Parameters
        ----------
        model
            `LogLinear`, `MarkovNet` or `FactorGraph`.
        tie
            Which factors share one table: `"shape"` for all factors with equal state counts, or a
            list of lists of factor positions. Factors that share storage already are tied anyway.
        fixed
            Positions of factors that are not learned.
        """
        if hasattr(type(model), "design"):
            if tie is not None or len(_factors("fixed", fixed, model.to_factor_graph().n_factors)):
                raise OptionError("tie, fixed: the features of a log-linear model say what is shared already")
            design = model.design
            return cls(
                model.to_factor_graph(), design, design.T.tocsr(), model.fixed, model.weights.copy(),
                model.with_weights,
            )  # fmt: skip
        return _of_tables(model, tie, fixed)

    def tables(self, weights: np.ndarray) -> np.ndarray:
        """All log tables."""
        return np.asarray(self.design @ weights) + self.fixed

    def scores(self, theta: np.ndarray, batch: Any = None) -> np.ndarray:
        """All log tables; the same for every batch."""
        return self.tables(theta)

    def pull(self, statistics: np.ndarray, batch: Any = None) -> np.ndarray:
        """D' statistics."""
        return self.features(statistics)

    def graph_at(self, weights: np.ndarray) -> FactorGraph:
        """The factor graph with these weights; plans compiled for the structure are shared."""
        return self.graph.with_states(self.graph.variables, self.tables(weights), self.graph.table_start)

    def features(self, entries: np.ndarray) -> np.ndarray:
        """D' entries: totals of features from counts or marginals of table entries."""
        return np.asarray(self.transpose @ entries)


def free_weights(parameters: Parameters) -> int:
    r"""How many directions of the weights change the distribution.

    Tables overlap: what two factors say about a variable is one number, and constants say nothing. So every
    table is written as a sum of interactions of subsets of its variables (contrasts on the axes of a subset,
    constants on the others), those of one subset are added over all factors, and the answer is the rank of
    these as functions of the weights. Where tables have zeros, subsets are no longer apart: then it is the
    rank of the totals of features over all joint states that are possible, less their mean.
    """
    graph = parameters.graph
    if len(parameters.start) > _MOST:
        raise UnsupportedError(f"expected at most {_MOST} weights to count, got {len(parameters.start)}")
    if (parameters.fixed == -np.inf).any():
        return _free_on_support(parameters)
    design = parameters.design.toarray()
    found: dict[tuple[int, ...], np.ndarray] = {}
    for a in range(graph.n_factors):
        scope = graph.scope_of(a)
        first, sizes = int(graph.table_start[a]), graph.variables.sizes[scope]
        part = design[first : first + int(graph.table_size[a])].reshape(*sizes, -1)
        for k, size in enumerate(sizes.tolist()):
            part = np.moveaxis(np.tensordot(_contrasts(size), part, axes=(1, k)), 0, k)
        for kept in np.ndindex(*(min(2, int(size)) for size in sizes)):
            if not any(kept):
                continue
            where = tuple(slice(1, None) if used else 0 for used in kept)
            order = np.argsort(scope[np.array(kept, dtype=bool)])
            block = part[where].transpose(*order, len(order)).reshape(-1, design.shape[1])
            name = tuple(np.sort(scope[np.array(kept, dtype=bool)]).tolist())
            found[name] = found.get(name, 0.0) + block
    return int(np.linalg.matrix_rank(np.concatenate(list(found.values())))) if found else 0


def _free_on_support(parameters: Parameters) -> int:
    graph, sizes = parameters.graph, parameters.graph.variables.sizes
    if np.log2(np.maximum(sizes, 1)).sum() > np.log2(_MOST_STATES):
        raise UnsupportedError(
            f"tables with zeros: free weights are counted over at most {_MOST_STATES} joint states, here are "
            "more; ask for the criterion cv, which needs no count"
        )
    states = np.indices(tuple(sizes)).reshape(len(sizes), -1).T
    states = states[np.isfinite(graph.log_scores(states))]
    totals = np.zeros((len(states), parameters.design.shape[1]))
    design = parameters.design.toarray()
    for a in range(graph.n_factors):
        scope = graph.scope_of(a)
        entry = np.ravel_multi_index(tuple(states[:, scope].T), tuple(sizes[scope])) if len(scope) else 0
        totals += design[int(graph.table_start[a]) + entry]
    return int(np.linalg.matrix_rank(totals - totals.mean(axis=0))) if len(states) else 0


def _contrasts(size: int) -> np.ndarray:
    """The mean of an axis, then each state but the first less the mean: what constants and effects are."""
    rows = np.eye(size) - 1.0 / size
    rows[0] = 1.0 / size
    return rows


def why_not_linear(model: Any) -> str | None:
    """Why the weights of a model cannot be moved freely, or None."""
    if hasattr(type(model), "flat_tables"):
        return (
            "the tables of a BayesNet are conditional probabilities and must stay so; "
            "use em, or learn MarkovNet.from_graph(model.to_factor_graph())"
        )
    if not (hasattr(type(model), "design") or hasattr(model, "from_graph") or isinstance(model, FactorGraph)):
        return f"expected a LogLinear, MarkovNet or FactorGraph, got {type(model).__name__}"
    return NOT_DECLARED if isinstance(model, FactorGraph) and model.others else None


def _of_tables(model: MarkovNet | FactorGraph, tie: Any, fixed: Any) -> Parameters:
    from scipy import sparse

    given = model.to_factor_graph()
    held = np.zeros(given.n_factors, dtype=bool)
    held[_factors("fixed", fixed, given.n_factors)] = True
    owner = _without(_owners(given, tie), held)
    size, start = given.table_size, starts_of(given.table_size)
    factor = np.repeat(np.arange(given.n_factors), size)
    within = np.arange(int(start[-1])) - start[factor]
    tables = given.log_tables[given.table_start[factor] + within]
    # The entry of the first factor of a group stands for those of all.
    stand_in = start[owner[factor]] + within
    possible = tables > -np.inf
    group_possible = np.ones(len(tables), dtype=bool)
    np.logical_and.at(group_possible, stand_in, possible)
    if (possible & ~group_possible[stand_in]).any():
        raise OptionError("tie: expected tied tables with their zero entries at the same places")
    learned = possible & ~held[factor]
    column = np.full(len(tables), -1)
    chosen = np.unique(stand_in[learned])
    column[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(learned)
    columns = column[stand_in[rows]]
    shape = (len(tables), len(chosen))
    design = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    # Tied tables that differ at the start begin at their mean.
    members = np.bincount(columns, minlength=len(chosen))
    first = np.bincount(columns, tables[rows], minlength=len(chosen)) / np.maximum(members, 1)
    rest = np.where(learned, 0.0, tables)
    graph = given.with_states(given.variables, np.asarray(design @ first) + rest, start[:-1])

    def make(weights: np.ndarray) -> Any:
        return _rebuilt(model, given, owner, np.asarray(design @ weights) + rest, start)

    return Parameters(graph, design, design.T.tocsr(), rest, first, make)


def _rebuilt(model: Any, given: FactorGraph, owner: np.ndarray, tables: np.ndarray, start: np.ndarray) -> Any:
    """A model of the same kind; factors that share weights share storage."""
    kept = np.unique(owner)
    new_start = np.zeros(given.n_factors, dtype=np.int64)
    new_start[kept] = starts_of(given.table_size[kept])[:-1]
    parts = [tables[start[a] : start[a + 1]] for a in kept]
    flat = np.concatenate(parts) if parts else np.empty(0)
    graph = FactorGraph.from_flat(
        given.variables, given.scope_start, given.scope, flat, table_start=new_start[owner]
    )
    graph.memo = given.memo
    return model.from_graph(graph) if hasattr(model, "from_graph") else graph


def _owners(graph: FactorGraph, tie: Any) -> np.ndarray:
    """First factor of the group that each factor shares its table with."""
    owner = np.arange(graph.n_factors)
    by_shape = isinstance(tie, str) and tie == "shape"
    for group in graph.shape_groups:
        if by_shape:
            owner[group.factors] = group.factors.min()
            continue
        # Only equal shapes with one storage are one table.
        _, first, where = np.unique(group.table_start, return_index=True, return_inverse=True)
        owner[group.factors] = group.factors[first][where.ravel()]
    if tie is None or by_shape:
        return owner
    if isinstance(tie, str) or not isinstance(tie, Iterable):
        raise OptionError(f"tie: expected 'shape' or lists of factor positions, got {tie!r:.80}")
    for members in tie:
        found = _factors("tie", members, graph.n_factors)
        shapes = {tuple(graph.variables.sizes[graph.scope_of(int(a))]) for a in found}
        if len(shapes) > 1:
            raise OptionError(
                f"tie: expected factors of one shape, got {[tuple(map(int, s)) for s in sorted(shapes)]}"
            )
        together = np.isin(owner, owner[found])
        owner[together] = owner[found].min()
    return owner


def _without(owner: np.ndarray, held: np.ndarray) -> np.ndarray:
    """The same groups, with the held factors on their own."""
    made = np.arange(len(owner))
    free = np.flatnonzero(~held)
    _, first, where = np.unique(owner[free], return_index=True, return_inverse=True)
    made[free] = free[first][where.ravel()]
    return made


def _factors(what: str, members: Any, count: int) -> np.ndarray:
    try:
        found = np.array(list(members))
    except (TypeError, ValueError, OverflowError):
        found = np.empty((0, 0))
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise OptionError(f"{what}: expected a list of factor positions, got {members!r:.80}")
    if len(found) and not (0 <= found.min() and found.max() < count):
        raise OptionError(f"{what}: expected factor positions in [0, {count}), got {found.tolist()!r:.80}")
    return found.astype(np.int64)
