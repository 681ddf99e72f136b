"""What must not matter (names, orders, repetition), and what every algorithm says when it refuses."""

from __future__ import annotations

import itertools
import re
from functools import partial

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from conformance.subjects import (
    SUBJECTS,
    ask,
    compiles,
    is_sentence,
    on_zoo,
    promises,
    promising,
    takes,
    try_each,
)
from credo.core.errors import UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from credo.inference.problem.base import Problem, algorithms
from credo.inference.problem.reading import refusal
from zoo import ZOO, Case

EVIDENCE_SAYS = (
    "the evidence has probability zero under this model; "
    "check the observed states, or give soft evidence (a likelihood vector)"
)
MODEL_SAYS = "the model gives every configuration weight zero: its factors contradict each other"
KNOWN_PROMISES = {"exact", "exact on trees", "consistent", "lower", "monotone", "order free", "upper"}


def _contradiction(case: Case) -> dict[str, int] | None:
    """Hard evidence of probability zero on as few variables as possible."""
    prior = Oracle(case).probabilities
    for size in (1, 2, 3, 4):
        for keep in itertools.combinations(range(prior.ndim), size):
            table = prior.sum(axis=tuple(k for k in range(prior.ndim) if k not in keep))
            if (table == 0).any() and case.log_weights.min() == -np.inf:
                states = np.argwhere(table == 0)[0].tolist()
                return {case.names[k]: x for k, x in zip(keep, states, strict=True)}
    return None


QUESTIONS = {"sum": (), "max": "all", "mixed": ["a"]}  # what is maximised, by the task that this is


ON_TABLES = [spec for spec in SUBJECTS if takes(spec, "sum") or takes(spec, "max")]


def _first(spec: str) -> dict:
    """The simplest question that a method takes on."""
    return {} if takes(spec, "sum") else {"maximise": "all"}


def _taken(specs: list[str], *tasks: str) -> list[tuple[str, str]]:
    return [(spec, task) for spec in specs for task in tasks if takes(spec, task)]


CONTRADICTIONS = [(c, e) for c in ZOO if c.log_weights.min() == -np.inf and (e := _contradiction(c))]


def test_the_zoo_holds_contradictions():
    assert {c.id for c, _ in CONTRADICTIONS} >= {"tree with zeros", "grid with zeros", "xor", "bayes net"}


@pytest.mark.parametrize(("spec", "task"), _taken(promising("exact"), "sum", "max"))
def test_contradictory_evidence_is_named(spec: str, task: str):
    def check(case: Case, evidence: dict) -> None:
        with pytest.raises(ZeroProbabilityError, match=re.escape(EVIDENCE_SAYS)):
            credo.infer(case.graph, spec, evidence=evidence, maximise=QUESTIONS[task])

    try_each(CONTRADICTIONS, check)


@pytest.mark.parametrize("spec", promising("exact"))
def test_contradictory_evidence_is_named_by_queries_and_samples(spec: str):
    case, evidence = CONTRADICTIONS[0]
    for call in (
        lambda: credo.query(case.graph, case.names[0], evidence=evidence, method=spec),
        lambda: credo.sample(case.graph, 3, evidence=evidence, method=spec, seed=0),
    ):
        with pytest.raises((ZeroProbabilityError, UnsupportedError)) as refusal:
            call()
        assert is_sentence(str(refusal.value))


@pytest.mark.parametrize(("spec", "task"), _taken(promising("exact"), "sum", "max", "mixed"))
def test_a_model_without_possible_states_is_named(spec: str, task: str):
    never = credo.FactorGraph(
        {"a": 2, "b": 2}, {("a",): [1, 0], ("b",): [1, 1], ("a", "b"): [[0, 0], [1, 1]]}
    )
    with pytest.raises(ZeroProbabilityError, match=re.escape(MODEL_SAYS)):
        credo.infer(never, spec, maximise=QUESTIONS[task])


def _disguised(case: Case, seed: int) -> tuple[Case, dict[str, str], dict[str, np.ndarray]]:
    """The same problem with new names, variables and factors in another order, and states permuted."""
    rng = np.random.default_rng(seed)
    new_name = {n: f"v{i}" for i, n in enumerate(rng.permutation(case.names).tolist())}
    sizes = dict(zip(case.names, case.sizes, strict=True))
    moved = {n: rng.permutation(sizes[n]) for n in case.names}  # new state k is old state moved[n][k]
    factors = []
    for a in rng.permutation(len(case.factors)):
        scope, table = case.factors[a]
        axes = rng.permutation(len(scope)).tolist()
        table = table[np.ix_(*[moved[n] for n in scope])] if scope else table
        factors.append((tuple(new_name[scope[k]] for k in axes), table.transpose(axes)))
    states = {new_name[n]: sizes[n] for n in rng.permutation(case.names).tolist()}
    return Case(f"{case.id}, disguised", states, factors), new_name, moved


@pytest.mark.parametrize("spec", promising("exact", "order free"))
def test_order_and_names_do_not_matter(spec: str):
    try_each(on_zoo(spec), partial(_compare_disguised, spec))


def _compare_disguised(spec: str, case: Case) -> None:
    other, new_name, moved = _disguised(case, 3)
    one, two = ask(spec, case.graph), ask(spec, other.graph)
    assert one.log_z.value == pytest.approx(two.log_z.value, rel=1e-10, abs=1e-8)
    if one.marginals is not None:
        for name in case.names:
            there = two.marginals[new_name[name]]
            np.testing.assert_allclose(one.marginals[name][moved[name]], there, atol=1e-8)
    if takes(spec, "max"):
        value = ask(spec, case.graph, maximise="all").log_z
        there = ask(spec, other.graph, maximise="all").log_z
        assert value is None or value.value == pytest.approx(there.value, rel=1e-10, abs=1e-8)


@pytest.mark.parametrize("spec", ON_TABLES)
def test_asking_twice_gives_the_same_answer_and_changes_nothing(spec: str):
    try_each(on_zoo(spec)[::3], partial(_ask_twice, spec))


def _ask_twice(spec: str, case: Case) -> None:
    graph, before = case.graph, case.graph.log_tables.copy()
    evidence = case.evidences.get("several", {})
    first = ask(spec, graph, evidence=evidence, **_first(spec))
    ask(spec, graph, **_first(spec))
    if takes(spec, "max"):
        ask(spec, graph, maximise="all")
    again = ask(spec, graph, evidence=evidence, **_first(spec))
    np.testing.assert_array_equal(graph.log_tables, before)
    # Between the two questions a kernel may have been compiled.
    assert (first.log_z is None) == (again.log_z is None)
    if first.log_z is not None:
        assert first.log_z.kind == again.log_z.kind
        assert first.log_z.value == pytest.approx(again.log_z.value, rel=1e-11, abs=1e-12)
    if first.marginals is not None:
        np.testing.assert_allclose(first.marginals.flat, again.marginals.flat, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("spec", ON_TABLES)
def test_the_result_tells_its_story(spec: str):
    pair = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[2, 1], [1, 2]]})  # what `takes` asks about
    result = ask(spec, pair, **_first(spec))
    assert result.algorithm == spec
    assert is_sentence(result.status.advice)
    assert result.seconds >= 0
    assert result.converged == result.status.is_success
    if "exact" in promises(spec):
        assert result.status is Status.EXACT
    assert result.algorithm in str(result)


def test_promises_are_words_the_tests_know():
    assert set().union(*map(promises, SUBJECTS)) <= KNOWN_PROMISES


@pytest.mark.parametrize("heat", [1.0, 0.0, 0.5], ids=["sum", "max", "powered"])
@pytest.mark.parametrize("spec", SUBJECTS)
def test_a_refusal_is_a_sentence(spec: str, heat: float):
    for case in ZOO:
        n = len(case.names)
        problem = Problem(case.graph, np.full(n, heat), np.zeros(n, dtype=np.int64))
        reason = refusal(algorithms.resolve(spec), problem)
        assert reason is None or is_sentence(reason)


@pytest.mark.parametrize(("spec", "task"), _taken([s for s in SUBJECTS if not compiles(s)], "sum", "max"))
def test_a_wide_model_is_answered_or_refused_in_a_sentence(spec: str, task: str):
    grid = np.arange(25 * 25).reshape(25, 25)
    across = np.stack([grid[:, :-1].ravel(), grid[:, 1:].ravel()], axis=1)
    down = np.stack([grid[:-1].ravel(), grid[1:].ravel()], axis=1)
    graph = credo.FactorGraph.from_arrays(np.full(625, 4), (np.concatenate([across, down]), np.eye(4) + 1))
    try:
        result = credo.infer(graph, spec, maximise=QUESTIONS[task], max_iter=2, seconds=1.0, seed=0)
    except UnsupportedError as refusal:
        assert is_sentence(str(refusal))
    except UserWarning as stop:
        assert is_sentence(str(stop))
    else:
        assert np.isfinite(result.log_z.value)
