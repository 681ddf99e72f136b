"""Every registered algorithm x the zoo: MAP, marginal MAP and powered sums."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from conformance.subjects import (
    SUBJECTS,
    ask,
    compiles,
    on_zoo,
    promises,
    promising,
    refuses,
    takes,
    trials,
    try_each,
)
from credo.core.errors import OptionError
from credo.core.result import Estimate, Result, Status
from zoo import ZOO, Case, case

SLACK = 1e-8  # bounds may be touched, up to rounding
MIXTURES = {
    "all 0.5": lambda names, rng: dict.fromkeys(names, 0.5),
    "all 2": lambda names, rng: dict.fromkeys(names, 2.0),
    "nearly a maximum": lambda names, rng: dict.fromkeys(names, 1e-3),
    "random": lambda names, rng: {n: float(rng.uniform(0.1, 3)) for n in names},
    "some of each": lambda names, rng: {n: [0.0, 0.3, 1.0, 2.5][i % 4] for i, n in enumerate(names)},
}
MAXIMISING = [s for s in SUBJECTS if takes(s, "max")]


def close(truth: float):
    return pytest.approx(truth, rel=1e-10, abs=1e-10)


def _check_kind(found: Estimate | None, truth: float, what: str) -> None:
    """Whether a number is what its kind says it is."""
    if found is None:
        return
    assert not np.isnan(found.value)
    says, slack = (
        f"{what}: {found} but the truth is {truth}",
        SLACK * max(1.0, abs(truth)) if np.isfinite(truth) else 0.0,
    )
    if found.kind in ("exact", "upper"):
        assert found.value >= truth - slack, says
    if found.kind in ("exact", "lower"):
        assert found.value <= truth + slack, says


def _check_assignment(result: Result, worth: float, best: float) -> None:
    """Whether the assignment's score is true, and what was said to be proven is."""
    _check_kind(result.score, worth, "score")
    assert result.score is not None, "an assignment without its score"
    assert worth <= best + SLACK
    if result.status in (Status.EXACT, Status.OPTIMAL):
        assert worth == pytest.approx(best, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("spec", MAXIMISING)
def test_map_keeps_its_word(spec: str):
    try_each(trials(spec), partial(check_map, spec))


def check_map(spec: str, case: Case, kind: str) -> None:
    """One assignment, and all that its method and the kinds of its numbers promise."""
    evidence = case.evidences[kind]
    truth = Oracle(case, evidence)
    result = ask(spec, case.graph, evidence=evidence, maximise="all")
    if result.assignment is not None and case.names:
        assert set(result.assignment) == set(case.names)
        _check_assignment(result, truth.score(result.assignment.indices.tolist()), truth.best())
        for name, value in evidence.items():
            assert isinstance(value, list) or result.assignment.index(name) == value
    _check_kind(result.log_z, truth.best(), "value")
    if "exact" in promises(spec):
        assert result.log_z.value == close(truth.best())
        assert result.marginals is None or not case.names


@pytest.mark.parametrize("spec", [s for s in SUBJECTS if takes(s, "mixed")])
def test_marginal_map_keeps_its_word(spec: str):
    try_each(on_zoo(spec), partial(check_marginal_map, spec))


def check_marginal_map(spec: str, case: Case) -> None:
    """Maxima over some variables of sums over the others, and what is promised about them."""
    for kind in ("none", "several"):
        evidence = case.evidences.get(kind, {})
        truth = Oracle(case, evidence)
        for chosen in _subsets(case, 2):
            result = ask(spec, case.graph, evidence=evidence, maximise=chosen)
            _check_kind(result.log_z, truth.marginal_map(chosen), "value")
            if chosen and result.assignment is not None:
                assert set(result.assignment) == set(chosen)
                states = {n: result.assignment.index(n) for n in chosen}
                _check_assignment(result, truth.value_of(states), truth.marginal_map(chosen))


CUT_SHORT = ({"max_iter": 0}, {"max_iter": 1}, {"max_iter": 3}, {"seconds": 0.0})


TASKS = {"sum": lambda names: [], "max": lambda names: names, "mixed": lambda names: names[::2]}


@pytest.mark.parametrize(("spec", "task"), [(s, t) for s in SUBJECTS for t in TASKS if takes(s, t)])
def test_a_run_cut_short_keeps_its_word(spec: str, task: str):
    names = ["grid 3x3"]
    if not compiles(spec):
        names += ["grid with zeros", "three-way factors", "single variable"]
    try_each(product(map(case, names), CUT_SHORT), partial(_check_cut_short, spec, task))


@pytest.mark.parametrize(("spec", "task"), [(s, t) for s in SUBJECTS for t in TASKS if not takes(s, t)])
def test_a_task_that_a_method_does_not_take_on_is_refused(spec: str, task: str):
    problem = case("grid 3x3")
    refuses(spec, problem.graph, maximise=TASKS[task](problem.names))


def _check_cut_short(spec: str, task: str, problem: Case, limits: dict) -> None:
    chosen = TASKS[task](problem.names)
    result, truth = ask(spec, problem.graph, maximise=chosen, **limits), Oracle(problem)
    _check_kind(result.log_z, truth.marginal_map(chosen), "value")
    if chosen and result.assignment is not None:
        states = {n: result.assignment.index(n) for n in chosen}
        _check_assignment(result, truth.value_of(states), truth.marginal_map(chosen))


@pytest.mark.parametrize("spec", [s for s in SUBJECTS if takes(s, "powered")])
def test_powered_sums_keep_their_word(spec: str):
    tried = ((one, mixture) for (one,), mixture in product(on_zoo(spec), MIXTURES))
    try_each(tried, partial(_check_powered, spec))


def _check_powered(spec: str, case: Case, mixture: str) -> None:
    heat = MIXTURES[mixture](case.names, np.random.default_rng(5))
    by_falling_temperature = sorted(case.names, key=lambda n: -heat[n])
    found = ask(spec, case.graph, temperatures=heat).log_z
    _check_kind(found, Oracle(case).powered_sum(heat, by_falling_temperature), "powered sum")


def _subsets(case: Case, count: int) -> list[list[str]]:
    """Random sets of variables to maximise, none of them empty or everything if that can be helped."""
    rng = np.random.default_rng(len(case.id))
    found = []
    for _ in range(count):
        size = int(rng.integers(1, max(2, len(case.names)))) if case.names else 0
        found.append(sorted(rng.choice(case.names, size, replace=False).tolist() if case.names else []))
    return found


@pytest.mark.parametrize("spec", promising("exact", task="max"))
def test_marginal_map_equals_brute_force(spec: str):
    try_each(product(ZOO, ("none", "inside", "several")), partial(_compare_marginal_map, spec))


def _compare_marginal_map(spec: str, case: Case, kind: str) -> None:
    evidence = case.evidences.get(kind, {})
    truth = Oracle(case, evidence)
    for chosen in _subsets(case, 3):
        result = ask(spec, case.graph, evidence=evidence, maximise=chosen)
        assert result.log_z.value == close(truth.marginal_map(chosen)), chosen
        if chosen:
            assert set(result.assignment) == set(chosen)
            states = {n: result.assignment.index(n) for n in chosen}
            assert truth.value_of(states) == close(result.log_z.value), chosen


@pytest.mark.parametrize("spec", promising("exact", task="powered"))
def test_powered_sums_equal_brute_force(spec: str):
    try_each(product(ZOO, MIXTURES), partial(_compare_powered, spec))


def _compare_powered(spec: str, case: Case, mixture: str) -> None:
    heat = MIXTURES[mixture](case.names, np.random.default_rng(3))
    by_falling_temperature = sorted(case.names, key=lambda n: -heat[n])
    for kind in ("none", "several"):
        evidence = case.evidences.get(kind, {})
        found = ask(spec, case.graph, evidence=evidence, temperatures=heat).log_z
        assert found.value == close(Oracle(case, evidence).powered_sum(heat, by_falling_temperature)), kind


@pytest.mark.parametrize("spec", promising("exact", task="ordered"))
def test_an_explicit_order_is_followed(spec: str):
    try_each(product(ZOO), partial(_compare_ordered, spec))


def _compare_ordered(spec: str, case: Case) -> None:
    rng = np.random.default_rng(11)
    heat = {n: float(rng.choice([0.0, 0.5, 1.0, 2.0])) for n in case.names}
    for _ in range(2):
        order = rng.permutation(case.names).tolist()
        found = ask(spec, case.graph, temperatures=heat, order=order).log_z
        assert found.value == close(Oracle(case).powered_sum(heat, order)), order


@pytest.mark.parametrize("spec", promising("exact", task="ordered"))
def test_sums_and_maxima_in_different_orders_differ(spec: str):
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[3, 1], [2, 2.5]]})
    max_sum = ask(spec, graph, temperatures={"a": 0.0}, order=["b", "a"])
    sum_max = ask(spec, graph, temperatures={"a": 0.0}, order=["a", "b"])
    assert max_sum.log_z.value == close(np.log(4.5))
    assert sum_max.log_z.value == close(np.log(5.5))


@pytest.mark.parametrize("spec", promising("exact", task="powered"))
def test_extreme_temperatures_give_finite_answers(spec: str):
    graph = credo.FactorGraph({"a": 3}, {"a": [1, 2, 0]})
    for tiny in (1e-10, 1e-300, 5e-324):
        assert ask(spec, graph, temperatures={"a": tiny}).log_z.value == close(np.log(2))
    # (1^(1/t) + 2^(1/t))^t tends to 2^t * sqrt(2): the sum counts the two possible states.
    assert ask(spec, graph, temperatures={"a": 1e6}).log_z.value == pytest.approx(1e6 * np.log(2), rel=1e-5)
    for wrong in (float("inf"), float("nan"), -1):
        with pytest.raises(OptionError, match=r"temperature of 'a' must be in \[0, inf\), got"):
            credo.infer(graph, spec, temperatures={"a": wrong})
