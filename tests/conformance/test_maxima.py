"""Every registered algorithm x the zoo: MAP, marginal MAP and powered sums."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from conformance.subjects import SUBJECTS, ask, promises, promising, takes
from credo.core.errors import OptionError
from zoo import ZOO, Case

PAIRS = [pytest.param(c, kind, id=f"{c.id}-{kind}") for c in ZOO for kind in c.evidences]


def close(truth: float):
    return pytest.approx(truth, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(("case", "kind"), PAIRS)
@pytest.mark.parametrize("spec", [s for s in SUBJECTS if takes(s, "max")])
def test_map_keeps_its_word(spec: str, case: Case, kind: str):
    evidence = case.evidences[kind]
    truth = Oracle(case, evidence)
    result = ask(spec, case.graph, evidence=evidence, maximise="all")
    if result.assignment is not None:
        assert set(result.assignment) == set(case.names)
        assert truth.score(result.assignment.indices.tolist()) <= truth.best() + 1e-9
        for name, value in evidence.items():
            assert isinstance(value, list) or result.assignment.index(name) == value
    if result.log_z is not None and result.log_z.kind in ("exact", "upper"):
        assert result.log_z.value >= truth.best() - 1e-8
    if result.log_z is not None and result.log_z.kind in ("exact", "lower"):
        assert result.log_z.value <= truth.best() + 1e-8
    if "exact" in promises(spec):
        assert result.log_z.value == close(truth.best())
        if case.names:
            assert result.marginals is None
            assert truth.score(result.assignment.indices.tolist()) == close(truth.best())


def _subsets(case: Case, count: int) -> list[list[str]]:
    """Random sets of variables to maximise, none of them empty or everything if that can be helped."""
    rng = np.random.default_rng(len(case.id))
    found = []
    for _ in range(count):
        size = int(rng.integers(1, max(2, len(case.names)))) if case.names else 0
        found.append(sorted(rng.choice(case.names, size, replace=False).tolist() if case.names else []))
    return found


@pytest.mark.parametrize("kind", ["none", "inside", "several"])
@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
@pytest.mark.parametrize("spec", promising("exact", task="max"))
def test_marginal_map_equals_brute_force(spec: str, case: Case, kind: str):
    evidence = case.evidences.get(kind, {})
    truth = Oracle(case, evidence)
    for chosen in _subsets(case, 3):
        result = ask(spec, case.graph, evidence=evidence, maximise=chosen)
        assert result.log_z.value == close(truth.marginal_map(chosen)), chosen
        if chosen:
            assert set(result.assignment) == set(chosen)
            states = {n: result.assignment.index(n) for n in chosen}
            assert truth.value_of(states) == close(result.log_z.value), chosen


MIXTURES = {
    "all 0.5": lambda names, rng: dict.fromkeys(names, 0.5),
    "all 2": lambda names, rng: dict.fromkeys(names, 2.0),
    "nearly a maximum": lambda names, rng: dict.fromkeys(names, 1e-3),
    "random": lambda names, rng: {n: float(rng.uniform(0.1, 3)) for n in names},
    "some of each": lambda names, rng: {n: [0.0, 0.3, 1.0, 2.5][i % 4] for i, n in enumerate(names)},
}


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
@pytest.mark.parametrize("spec", promising("exact", task="max"))
def test_powered_sums_equal_brute_force(spec: str, case: Case, mixture: str):
    heat = MIXTURES[mixture](case.names, np.random.default_rng(3))
    by_falling_temperature = sorted(case.names, key=lambda n: -heat[n])
    for kind in ("none", "several"):
        evidence = case.evidences.get(kind, {})
        found = ask(spec, case.graph, evidence=evidence, temperatures=heat).log_z
        assert found.value == close(Oracle(case, evidence).powered_sum(heat, by_falling_temperature)), kind


@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
@pytest.mark.parametrize("spec", promising("exact", task="max"))
def test_an_explicit_order_is_followed(spec: str, case: Case):
    rng = np.random.default_rng(11)
    heat = {n: float(rng.choice([0.0, 0.5, 1.0, 2.0])) for n in case.names}
    for _ in range(2):
        order = rng.permutation(case.names).tolist()
        found = ask(spec, case.graph, temperatures=heat, order=order).log_z
        assert found.value == close(Oracle(case).powered_sum(heat, order)), order


@pytest.mark.parametrize("spec", promising("exact", task="max"))
def test_sums_and_maxima_in_different_orders_differ(spec: str):
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[3, 1], [2, 2.5]]})
    max_sum = ask(spec, graph, temperatures={"a": 0.0}, order=["b", "a"])
    sum_max = ask(spec, graph, temperatures={"a": 0.0}, order=["a", "b"])
    assert max_sum.log_z.value == close(np.log(4.5))
    assert sum_max.log_z.value == close(np.log(5.5))


@pytest.mark.parametrize("spec", promising("exact", task="max"))
def test_extreme_temperatures_give_finite_answers(spec: str):
    graph = credo.FactorGraph({"a": 3}, {"a": [1, 2, 0]})
    for tiny in (1e-10, 1e-300, 5e-324):
        assert ask(spec, graph, temperatures={"a": tiny}).log_z.value == close(np.log(2))
    # (1^(1/t) + 2^(1/t))^t tends to 2^t * sqrt(2): the sum counts the two possible states.
    assert ask(spec, graph, temperatures={"a": 1e6}).log_z.value == pytest.approx(1e6 * np.log(2), rel=1e-5)
    for wrong in (float("inf"), float("nan"), -1):
        with pytest.raises(OptionError, match=r"temperature of 'a' must be in \[0, inf\), got"):
            credo.infer(graph, spec, temperatures={"a": wrong})
