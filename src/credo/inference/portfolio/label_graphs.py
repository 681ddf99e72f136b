"""Questions about rows that form graphs: each graph is asked by itself, those of one structure together.

The first of a structure is asked as `infer` would; where the junction tree answered it, it answers all others
of that structure in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import QueryError
from ...core.factor_graph import FactorGraph
from ...core.instance import Instance
from ...core.result import Estimate, Kind, Result, Status
from .batch import infer_batch

__all__ = ["draw_graphs", "infer_graphs", "labels_log_z", "total_of"]

Ask = Callable[..., Result]


class _Answer(NamedTuple):
    """What is known of one graph."""

    value: Estimate | None
    score: Estimate | None
    status: Status
    rows: np.ndarray | None  # (rows, states) marginals, or (rows,) states


def infer_graphs(instance: Instance, ask: Ask, *, maximise: Any) -> Result:
    """Marginals and log Z, or best states, of every graph; `ask(graph)` is `infer` with its options."""
    is_best = maximise == "all"
    if maximise and not is_best:
        raise QueryError(f"maximise: expected () or 'all' for rows of graphs, got {maximise!r:.80}")
    graphs = [instance.unit(number).to_factor_graph() for number in range(instance.units)]
    answers: list[Any] = [None] * len(graphs)
    results: list[Result] = []
    for which in _of_one_structure(graphs):
        found, first = _together([graphs[k] for k in which], ask, is_best=is_best)
        results.append(first)
        for k, answer in zip(which, found, strict=True):
            answers[k] = answer
    value, each = total_of([answer.value for answer in answers])
    changes: dict[str, Any] = {"each": each}
    if all(answer.rows is not None for answer in answers):
        rows = instance.named(np.concatenate([answer.rows for answer in answers]))
        changes |= {"assignment": rows} if is_best else {"marginals": rows}
    if is_best:
        changes["score"] = total_of([answer.score for answer in answers])[0]
    names = dict.fromkeys(result.algorithm for result in results)
    notes = dict.fromkeys(note for result in results for note in result.notes)
    status = _joint([answer.status for answer in answers])
    hint = next((result.hint for result in results if result.status is status), "")
    return Result(", ".join(names), status, value, notes=tuple(notes), hint=hint, **changes)


def _of_one_structure(graphs: Sequence[FactorGraph]) -> Iterator[list[int]]:
    groups: dict[bytes, list[int]] = {}
    for k, graph in enumerate(graphs):
        groups.setdefault(graph.structure_key, []).append(k)
    yield from groups.values()


def _together(graphs: list[FactorGraph], ask: Ask, *, is_best: bool) -> tuple[list[_Answer], Result]:
    """Graphs of one structure; plans of the first serve all."""
    head, *others = graphs
    first = ask(head)
    answers = [_answer(first, head, is_best=is_best)]
    others = [head.with_states(head.variables, g.log_tables, head.table_start) for g in others]
    if not others or not (first.status is Status.EXACT and first.algorithm.startswith("junction-tree")):
        return answers + [_answer(ask(g), g, is_best=is_best) for g in others], first
    tables = np.stack([g.log_tables for g in others])
    found = infer_batch(head, tables, first.algorithm, maximise="all" if is_best else (), each=not is_best)
    count = len(head.variables)
    for k, value in enumerate(found.values.tolist()):
        rows: Any = found.states
        if is_best:
            rows = np.empty(0, np.int64) if rows is None else rows[k]
        else:
            assert found.factor_marginals is not None  # of every node there is one, and these come first
            entries = int(head.table_size[:count].sum())
            rows = found.factor_marginals[k, :entries].reshape(count, -1)
        exact = Estimate(value, "exact")
        answers.append(_Answer(exact, exact if is_best else None, Status.EXACT, rows))
    return answers, first


def _answer(found: Result, graph: FactorGraph, *, is_best: bool) -> _Answer:
    rows: Any = None
    if is_best:
        # Without nodes there is nothing to maximise, and no assignment.
        best = found.assignment
        rows = np.empty(0, np.int64) if best is None and not len(graph.variables) else best
        rows = np.asarray(best.indices) if best is not None else rows
    elif found.marginals is not None:
        rows = np.asarray(found.marginals.flat).reshape(len(graph.variables), -1)
    return _Answer(found.log_z, found.score, found.status, rows)


def total_of(parts: Sequence[Estimate | None]) -> tuple[Estimate | None, np.ndarray | None]:
    """The sum of what is known of each, and the numbers; bounds of one side stay bounds."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None, None
    kinds: set[Kind] = {part.kind for part in known} - {"exact"}
    kind: Kind = "exact" if not kinds else kinds.pop() if len(kinds) == 1 else "estimate"
    values = np.array([part.value for part in known])
    return Estimate(float(values.sum()), kind), values


def _joint(parts: Sequence[Status]) -> Status:
    """How all ended: as the first that did not end well, otherwise with the weakest promise."""
    for status in parts:
        if not status.is_success:
            return status
    return next((s for s in (Status.CONVERGED, Status.OPTIMAL) if s in parts), Status.EXACT)


def labels_log_z(instance: Instance, states: np.ndarray, ask: Ask) -> list[Estimate | None]:
    """Log weight of what was observed of every graph, (rows,) states with -1 where missing."""
    found: list[Estimate | None] = []
    for number, (first, last) in enumerate(zip(instance.begin, instance.begin[1:], strict=False)):
        graph, own = instance.unit(number).to_factor_graph(), states[first:last]
        if (own >= 0).all():
            found.append(Estimate(float(graph.log_scores(own[None])[0]), "exact"))
            continue
        names = graph.variables.names
        found.append(
            ask(graph, evidence={names[t]: int(own[t]) for t in np.flatnonzero(own >= 0).tolist()}).log_z
        )
    return found


def draw_graphs(
    instance: Instance, count: int, rng: np.random.Generator, draw: Callable[..., Any]
) -> np.ndarray:
    """Joint draws (count, rows); `draw(graph, count, seed=...)` makes those of one graph."""
    found = []
    for number in range(instance.units):
        graph = instance.unit(number).to_factor_graph()
        found.append(draw(graph, count, seed=int(rng.integers(1 << 62))).indices)
    return np.concatenate(found, axis=1)
