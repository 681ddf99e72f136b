"""Questions about rows that form graphs: each graph is asked by itself, those of one structure together.

The first of a structure is asked as `infer` would; where the junction tree answered it, it answers all others
of that structure in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import UnsupportedError
from ...core.factor_graph import FactorGraph
from ...core.instance import Instance
from ...core.kind_graphs import KindGraphs
from ...core.progress import Progress
from ...core.result import Estimate, Kind, Result, Status
from ..exact.hidden_rows import unit_log_z
from .batch import infer_batch

__all__ = ["draw_graphs", "infer_graphs", "labels_log_z", "of_one_structure"]

Ask = Callable[..., Result]


class _Answer(NamedTuple):
    """What is known of one graph."""

    value: Estimate | None
    score: Estimate | None
    status: Status
    rows: np.ndarray | None  # (rows x states,) marginals, or (rows,) states


def infer_graphs(instance: Instance | KindGraphs, ask: Ask, *, maximise: Any) -> Result:
    """Marginals and log Z, or best states where `maximise` is "all", of every graph.

    `ask(graph)` is `infer` with the options of the call, `maximise` among them.
    """
    is_best = maximise == "all"
    graphs = [instance.unit(number).to_factor_graph() for number in range(instance.units)]
    answers: list[Any] = [None] * len(graphs)
    results: list[Result] = []  # of the first graph of each structure
    with Progress("graphs", len(graphs)) as bar:
        done = 0
        for which in of_one_structure(graphs):
            found = _answer_together([graphs[k] for k in which], ask, results, is_best=is_best)
            for k, answer in zip(which, found, strict=True):
                answers[k], done = answer, done + 1
                bar.update(done)
    value, each = _total([answer.value for answer in answers])
    changes: dict[str, Any] = {"each": each}
    if all(answer.rows is not None for answer in answers):
        rows = np.concatenate([answer.rows for answer in answers])
        known = instance.named(rows) if is_best else instance.named_tables(rows)
        changes |= {"assignment": known} if is_best else {"marginals": known}
    if is_best:
        changes["score"] = _total([answer.score for answer in answers])[0]
    names = dict.fromkeys(result.algorithm for result in results)
    notes = dict.fromkeys(note for result in results for note in result.notes)
    status = _joint([answer.status for answer in answers])
    hint = next((result.hint for result in results if result.status is status), "")
    return Result(", ".join(names), status, value, notes=tuple(notes), hint=hint, **changes)


def of_one_structure(graphs: Sequence[FactorGraph]) -> Iterator[list[int]]:
    """Positions of graphs that differ in their tables alone."""
    groups: dict[bytes, list[int]] = {}
    for k, graph in enumerate(graphs):
        groups.setdefault(graph.structure_key, []).append(k)
    yield from groups.values()


def _answer_together(
    graphs: list[FactorGraph], ask: Ask, results: list[Result], *, is_best: bool
) -> Iterator[_Answer]:
    """Answers for graphs of one structure, whose plans are those of the first."""
    head, *others = graphs
    first = ask(head)
    results.append(first)
    yield _answer(first, head, is_best=is_best)
    others = [head.with_states(head.variables, g.log_tables, head.table_start) for g in others]
    if others and first.status is Status.EXACT and first.algorithm.startswith("junction-tree"):
        yield from _answer_at_once(others, first.algorithm, is_best=is_best)
        return
    for graph in others:
        yield _answer(ask(graph), graph, is_best=is_best)


def _answer_at_once(graphs: list[FactorGraph], method: str, *, is_best: bool) -> Iterator[_Answer]:
    """Exact answers for graphs of one structure by one kernel."""
    head = graphs[0]
    tables = np.stack([graph.log_tables for graph in graphs])
    found = infer_batch(head, tables, method, maximise="all" if is_best else (), each=not is_best)
    nodes = int(head.table_size[: len(head.variables)].sum())  # every node has a table, and these come first
    for k, value in enumerate(found.values.tolist()):
        exact = Estimate(value, "exact")
        if is_best:
            best = np.empty(0, np.int64) if found.states is None else found.states[k]
            yield _Answer(exact, exact, Status.EXACT, best)
        else:
            entries: Any = found.factor_marginals
            yield _Answer(exact, None, Status.EXACT, entries[k, :nodes])


def _answer(found: Result, graph: FactorGraph, *, is_best: bool) -> _Answer:
    rows = None
    if is_best and found.assignment is not None:
        rows = np.asarray(found.assignment.indices)
    elif is_best and not len(graph.variables):
        rows = np.empty(0, np.int64)  # nothing to maximise, and no assignment
    elif not is_best and found.marginals is not None:
        rows = np.asarray(found.marginals.flat)
    return _Answer(found.log_z, found.score, found.status, rows)


def _total(parts: Sequence[Estimate | None]) -> tuple[Estimate | None, np.ndarray | None]:
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


def labels_log_z(
    instance: Instance | KindGraphs, states: np.ndarray, ask: Ask, *, is_named: bool
) -> tuple[np.ndarray, bool]:
    """Log p(labels | features) of every unit, missing labels summed out, and whether it is exact.

    Parameters
    ----------
    instance, states
        The rows, and what was observed of them: positions of states, -1 where missing.
    ask
        `infer` with its options, for graphs, and for all where a method `is_named`.
    """
    if isinstance(instance, Instance) and instance.structure != "graph" and not is_named:
        return unit_log_z(instance.clamped(states)) - unit_log_z(instance), True
    free = infer_graphs(instance, ask, maximise=())
    parts = zip(range(instance.units), np.split(states, instance.begin[1:-1]), strict=True)
    value, each = _total([_seen(instance.unit(number), own, ask) for number, own in parts])
    if value is None or each is None or free.log_z is None or free.each is None:
        raise UnsupportedError(f"log_likelihood: {free.algorithm} computes no log Z; use another inference")
    return each - free.each, {value.kind, free.log_z.kind} == {"exact"}


def _seen(instance: Instance | KindGraphs, states: np.ndarray, ask: Ask) -> Estimate | None:
    """Log weight of what was observed of one graph."""
    graph = instance.to_factor_graph()
    if (states >= 0).all():
        return Estimate(float(graph.log_scores(states[None])[0]), "exact")
    names = graph.variables.names
    return ask(graph, evidence={names[t]: int(states[t]) for t in np.flatnonzero(states >= 0).tolist()}).log_z


def draw_graphs(
    instance: Instance | KindGraphs, count: int, rng: np.random.Generator, draw: Callable[..., Any]
) -> np.ndarray:
    """Joint draws (count, rows); `draw(graph, count, seed=...)` makes those of one graph."""
    found = []
    for number in range(instance.units):
        graph = instance.unit(number).to_factor_graph()
        found.append(draw(graph, count, seed=int(rng.integers(1 << 62))).indices)
    return np.concatenate(found, axis=1)
