"""Every exact algorithm x the zoo: joint marginals, conditionals and samples."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from conformance.subjects import SUBJECTS, is_sentence, promising, takes, try_each
from credo.core.errors import QueryError, UnsupportedError
from zoo import ZOO, Case, case

COUNT = 4000
DEVIATIONS = 5.5  # about 1e-7 per comparison, and there are some thousands


@pytest.mark.parametrize("spec", promising("exact", task="query"))
def test_joint_of_any_pair_or_triple_equals_brute_force(spec: str):
    try_each(itertools.product(ZOO, ("none", "inside", "several")), partial(check_joints, spec))


def check_joints(spec: str, case: Case, kind: str) -> None:
    """Joint marginals of random names in random order, against enumeration."""
    evidence = case.evidences.get(kind, {})
    truth, rng = Oracle(case, evidence), np.random.default_rng(1)
    for size in (1, 2, 3):
        sets = list(itertools.permutations(case.names, size))
        for i in rng.permutation(len(sets))[:3]:
            joint = credo.query(case.graph, sets[i], evidence=evidence, method=spec)
            assert joint.names == sets[i]
            np.testing.assert_allclose(joint.table, truth.joint(sets[i]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("spec", promising("exact", task="query"))
def test_conditional_tables_equal_brute_force(spec: str):
    cases = [c for c in ZOO if len(c.names) > 2]
    try_each(itertools.product(cases, ("none", "hard", "soft")), partial(_check_conditionals, spec))


def _check_conditionals(spec: str, case: Case, kind: str) -> None:
    evidence, rng = case.evidences[kind], np.random.default_rng(2)
    truth = Oracle(case, evidence)
    for _ in range(2):
        a, b, c = rng.choice(case.names, 3, replace=False).tolist()
        for names, given in (([a], [b]), ([a, c], [b]), ([a], [c, b])):
            found = credo.query(case.graph, names, given=given, evidence=evidence, method=spec)
            expected = truth.conditional(names, given)
            # Where p(given) is tiny the quotient amplifies rounding, so the tolerance is relative to it.
            weight = truth.joint(given)
            np.testing.assert_allclose(found.table * weight, expected * weight, rtol=0, atol=1e-10)
            sums = found.table.sum(axis=tuple(range(len(names))))
            assert np.isfinite(found.table).all()
            np.testing.assert_allclose(sums[sums > 0], 1, atol=1e-9)


def _sample(spec: str, problem: Case, evidence: dict, seed: int = 7) -> np.ndarray:
    found = credo.sample(problem.graph, COUNT, evidence=evidence, method=spec, seed=seed)
    assert found.indices.shape == (COUNT, len(problem.names))
    return found.indices


def _worst_deviation(indices: np.ndarray, probabilities: np.ndarray) -> float:
    """Largest deviation of a frequency, in standard deviations, over all single and pair marginals."""
    n, worst = probabilities.ndim, 0.0
    for keep in (*itertools.combinations(range(n), 1), *itertools.combinations(range(n), 2)):
        p = np.clip(probabilities.sum(axis=tuple(k for k in range(n) if k not in keep)), 0, 1)
        cell = np.ravel_multi_index(tuple(indices[:, k] for k in keep), p.shape)
        found = np.bincount(cell, minlength=p.size) / len(indices)
        # One count of slack: for very small p the normal law is not reached.
        slack = np.maximum(np.abs(found - p.ravel()) - 1 / len(indices), 0)
        spread = np.sqrt(p * (1 - p) / len(indices)).ravel()
        worst = max(worst, float((slack / np.maximum(spread, 1e-12)).max()))
    return worst


@pytest.mark.parametrize("spec", promising("exact", task="samples"))
def test_samples_have_the_right_support_and_frequencies(spec: str):
    try_each(itertools.product(ZOO, ("none", "several")), partial(_check_frequencies, spec))


def _check_frequencies(spec: str, case: Case, kind: str) -> None:
    evidence = case.evidences.get(kind, {})
    truth = Oracle(case, evidence)
    indices = _sample(spec, case, evidence)
    weights = truth.weights[tuple(indices.T)] if case.names else np.zeros(1)
    assert (weights > -np.inf).all()
    assert _worst_deviation(indices, truth.probabilities) < DEVIATIONS


def test_the_frequency_check_rejects_samples_of_another_model():
    problem = case("grid 3x3")
    wrong = credo.sample(problem.graph, COUNT, evidence={"x4": [1.0, 1.5]}, method="enumerate", seed=7)
    assert _worst_deviation(wrong.indices, Oracle(problem).probabilities) > DEVIATIONS


@pytest.mark.parametrize("spec", promising("exact", task="samples"))
def test_the_same_seed_gives_the_same_samples_and_another_seed_others(spec: str):
    problem = case("grid 3x3")
    first, again, other = (_sample(spec, problem, {}, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("spec", promising("exact", task="samples"))
def test_no_samples_can_be_asked_for(spec: str):
    assert credo.sample(case("pair").graph, 0, method=spec, seed=0).indices.shape == (0, 2)


def test_the_exact_methods_take_on_what_the_documentation_says():
    for task in ("sum", "max", "query", "samples"):
        assert {"enumerate", "junction-tree"} <= set(promising("exact", task=task))
    assert "elimination" in set(promising("exact", task="query")) & set(promising("exact", task="max"))


@pytest.mark.parametrize("task", ["query", "samples"])
@pytest.mark.parametrize("spec", SUBJECTS)
def test_what_is_not_computed_is_refused_in_a_sentence(spec: str, task: str):
    if takes(spec, task):
        return
    graph = case("pair").graph
    with pytest.raises((QueryError, UnsupportedError)) as refusal:
        credo.query(graph, "x0", method=spec) if task == "query" else credo.sample(graph, 2, method=spec)
    assert is_sentence(str(refusal.value))
