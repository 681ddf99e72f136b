"""Random hybrid models with random evidence: no promise of an answer is broken.

The oracle is enumeration times quadrature (`hybrid_fuzz.truth`). Answers called exact are so, bounds lie on
their side, models without weight are refused, and what approximates stays finite and normalised.
"""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from credo.inference.portfolio.choose import choose
from credo.inference.portfolio.question import Question
from hybrid_fuzz import Case, error_of, forms, random_case, truth, wrong
from seeds import each_seed

EXACT = ("junction-tree", "enumerate", "elimination", "conditional-gaussian", "gaussian", "gaussian-bp")


def given(case: Case, seed: int):
    """The evidence as a mapping, or as arrays where it can be."""
    if seed % 2 or any(isinstance(value, list) for value in case.evidence.values()):
        return case.evidence
    positions = [case.model.variables.position(name) for name in case.evidence]
    return np.array(positions, dtype=np.int64), np.array(list(case.evidence.values()), dtype=np.float64)


def keeps_its_promises(case: Case, method, expected, evidence) -> bool:
    """Whether a method answered; what it answers is checked."""
    try:
        found = credo.infer(case.model, method, evidence=evidence, seed=0)
    except UnsupportedError:
        return False
    except ZeroProbabilityError:
        assert expected.log_z == -np.inf, (method, case)
        return True
    assert expected.log_z > -np.inf, (method, case)
    assert wrong(found, expected) is None, (method, case)
    return found.status is Status.EXACT


@each_seed(range(100))
def test_exact_methods_and_the_chosen_one(seed):
    case = random_case(seed)
    expected, evidence = truth(case), given(case, seed)
    assert expected is not None
    answered = [method for method in EXACT if keeps_its_promises(case, method, expected, evidence)]
    if case.is_gaussian:
        assert "conditional-gaussian" in answered
    chosen, _ = choose(Question.of(case.model, evidence).problem((), None, None))
    if "exact" in chosen.promises:
        assert keeps_its_promises(case, None, expected, evidence)
    assert ("exact" in chosen.promises) == bool(answered)


@each_seed(range(100, 130))
def test_two_oracles_agree(seed):
    case = random_case(seed, gaussian=True)
    reals, found = forms(case)
    none = np.zeros(len(reals), dtype=bool)
    log_z = np.logaddexp.reduce([form.integral(none) for form in found]) if found else -np.inf
    assert truth(case).log_z == pytest.approx(log_z, abs=1e-10)


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("method", "seeds", "most"),
    [
        (None, (1, 36), 0.1),
        ("ep", (0, 3, 36, 44), 0.5),
        ("mean-field", (20, 34), 1.0),
        ("grid-bp", (20, 40), 0.05),
    ],
)
def test_approximate_methods(method, seeds, most):
    for seed in seeds:
        case = random_case(seed)
        expected = truth(case)
        try:
            found = credo.infer(case.model, method, evidence=case.evidence, seed=0)
        except ZeroProbabilityError:
            assert expected.log_z == -np.inf
            continue
        assert wrong(found, expected) is None, (method, seed)
        assert not found.converged or error_of(found, expected) < most, (method, seed)
