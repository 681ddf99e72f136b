"""Every registered algorithm x the zoo: marginals, factor marginals and log Z."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest

from conformance.oracle import Oracle
from conformance.subjects import SUBJECTS, ask, promises, promising, slopes, takes, trials, try_each
from credo.core.result import Estimate, Result
from zoo import TREES, ZOO, Case

EXACT = 1e-10
SLACK = 1e-8  # bounds may be touched, up to rounding
SUMMING = [s for s in SUBJECTS if takes(s, "sum")]


def _scale(log_z: float) -> float:
    """Absolute error allowed in a log: relative to its size once that exceeds 1."""
    return EXACT * max(1.0, abs(log_z))


@pytest.mark.parametrize("spec", SUMMING)
def test_what_is_summed_keeps_its_word(spec: str):
    try_each(trials(spec), partial(check_sum, spec))


def check_sum(spec: str, case: Case, kind: str) -> None:
    """One answer, and all that its method and its kind promise about it."""
    result = ask(spec, case.graph, evidence=case.evidences[kind])
    truth = Oracle(case, case.evidences[kind])
    if result.marginals is not None:
        _marginals_are_distributions(result, case)
    if result.log_z is not None:
        _log_z_keeps_its_word(result.log_z, truth.log_z)
    is_better = result.log_z is not None and result.log_z.kind == "lower"  # that of one state, which has none
    assert is_better or (result.factor_marginals is not None) == slopes(spec)
    if "exact" in promises(spec):
        assert result.log_z is None or result.log_z.kind == "exact"
        _marginals_are_those_of(result, case, truth, EXACT)
    if promises(spec) & {"exact", "consistent"}:
        _factor_marginals_agree_with_marginals(result, case)


def _marginals_are_distributions(result: Result, case: Case) -> None:
    assert list(result.marginals) == case.names
    for name, size in zip(case.names, case.sizes, strict=True):
        p = result.marginals[name]
        assert p.shape == (size,)
        assert np.isfinite(p).all() and (p >= 0).all()
        assert p.sum() == pytest.approx(1, abs=1e-9)


def _log_z_keeps_its_word(found: Estimate, truth: float) -> None:
    assert np.isfinite(found.value)
    excess = {
        "exact": abs(found.value - truth) - _scale(truth),
        "lower": found.value - truth - SLACK,
        "upper": truth - found.value - SLACK,
        "estimate": -np.inf,
    }[found.kind]
    assert excess <= 0, f"{found} but the truth is {truth}"


def _marginals_are_those_of(result: Result, case: Case, truth: Oracle, tol: float) -> None:
    for name in case.names if result.marginals is not None else ():
        np.testing.assert_allclose(result.marginals[name], truth.joint([name]), rtol=0, atol=tol)
    for a, (scope, _) in enumerate(case.factors if result.factor_marginals is not None else ()):
        np.testing.assert_allclose(result.factor_marginals[a], truth.joint(scope), rtol=0, atol=tol)


def _factor_marginals_agree_with_marginals(result: Result, case: Case) -> None:
    if result.marginals is None or result.factor_marginals is None:
        return
    assert len(result.factor_marginals) == len(case.factors)
    for a, (scope, table) in enumerate(case.factors):
        found = result.factor_marginals[a]
        assert found.shape == table.shape
        assert np.isfinite(found).all() and (found >= 0).all()
        for k, name in enumerate(scope):
            rest = tuple(j for j in range(found.ndim) if j != k)
            np.testing.assert_allclose(found.sum(axis=rest), result.marginals[name], rtol=0, atol=1e-9)


@pytest.mark.parametrize("spec", promising("exact on trees"))
def test_exact_on_trees(spec: str):
    try_each(trials(spec, TREES), partial(_check_tree, spec))


def _check_tree(spec: str, case: Case, kind: str) -> None:
    result = ask(spec, case.graph, evidence=case.evidences[kind])
    truth = Oracle(case, case.evidences[kind])
    _marginals_are_those_of(result, case, truth, 1e-7)
    found = result.log_z
    assert found is None or found.value == pytest.approx(truth.log_z, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("spec", promising("exact"))
def test_log_evidence_is_the_difference_of_two_log_zs(spec: str):
    try_each(product(ZOO), partial(_check_log_evidence, spec))


def _check_log_evidence(spec: str, case: Case) -> None:
    free = ask(spec, case.graph).log_z
    prior = Oracle(case).probabilities
    for kind in ("hard", "inside", "everything"):
        evidence = case.evidences.get(kind, {})
        where = tuple(evidence.get(n, slice(None)) for n in case.names)
        seen = ask(spec, case.graph, evidence=evidence).log_z
        # Differences lose the digits that two large logs share.
        tol = 1e-10 * max(1.0, abs(free.value), abs(seen.value))
        assert seen.value - free.value == pytest.approx(np.log(prior[where].sum()), abs=tol, rel=1e-10)


@pytest.mark.parametrize("spec", promising("exact"))
def test_a_likelihood_of_one_state_is_hard_evidence(spec: str):
    try_each(product(ZOO), partial(_check_likelihood_of_one_state, spec))


def _check_likelihood_of_one_state(spec: str, case: Case) -> None:
    hard = case.evidences.get("inside", {})
    sizes = dict(zip(case.names, case.sizes, strict=True))
    soft = {n: np.eye(sizes[n])[k] for n, k in hard.items()}
    one, other = (ask(spec, case.graph, evidence=e) for e in (hard, soft))
    assert one.log_z.value == pytest.approx(other.log_z.value, rel=1e-12, abs=1e-10)
    if one.marginals is not None:
        np.testing.assert_allclose(one.marginals.flat, other.marginals.flat, rtol=0, atol=EXACT)
