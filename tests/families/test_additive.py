"""Sums of effects: regression by hand, what is kept, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import CredoError
from credo.families import TiedGaussian
from credo.families.additive import AdditiveGaussian

RNG = np.random.default_rng(0)
EFFECTS = [RNG.normal(size=(2, 2)), RNG.normal(size=(3, 2))]


def family():
    return AdditiveGaussian(EFFECTS, [[1.0, 0.3], [0.3, 0.5]])


def test_the_new_members_are_those_of_a_weighted_regression_on_all_rows():
    first, x = family(), RNG.normal(size=(40, 2)) + 3
    q = RNG.dirichlet(np.ones(6), size=40)
    found = first.update(None, first.expect(x, q).sums)
    design = np.array([[*np.eye(2)[a], *np.eye(3)[b]] for a in range(2) for b in range(3)])
    rows = np.repeat(design[None], 40, axis=0).reshape(-1, 5) * np.sqrt(q.reshape(-1, 1))
    best = np.linalg.lstsq(rows, np.repeat(x, 6, axis=0) * np.sqrt(q.reshape(-1, 1)), rcond=None)[0]
    assert found.mean == pytest.approx(design @ best)
    gap = x[:, None] - found.mean[None]
    assert found.covariance == pytest.approx(np.einsum("nk,nki,nkj->ij", q, gap, gap) / 40)
    assert found.n_parameters == 4 * 2 + 3


def test_effects_of_states_that_no_row_has_stay_and_missing_cells_are_left_out():
    first, x = family(), RNG.normal(size=(20, 2))
    q = np.zeros((20, 6))
    q[:, 0] = 1.0  # the first state of both chains
    found = first.update(None, first.expect(x, q).sums)
    assert found.mean[0] == pytest.approx(x.mean(axis=0))
    assert found.effects[0][1] == pytest.approx(EFFECTS[0][1])
    assert found.effects[1][1:] == pytest.approx(EFFECTS[1][1:])
    none = first.update(None, first.expect(np.full((3, 2), np.nan), np.ones((3, 6))).sums)
    assert none.mean == pytest.approx(first.mean) and none.covariance == pytest.approx(first.covariance)
    gaps = np.where(RNG.random(x.shape) < 0.3, np.nan, x)
    tied = TiedGaussian(first.mean, first.covariance)
    assert first.log_density(gaps) == pytest.approx(tied.log_density(gaps))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: AdditiveGaussian([], [[1.0]]), "with one d, got none"),
        (lambda: AdditiveGaussian([[[0.0]], [[0.0, 1.0]]], [[1.0]]), "for chain 1"),
        (lambda: family().update(None, None, object()), "prior of additive effects: expected None"),
        (lambda: credo.FactorialHMM(states=[2, 0]), "states of chain 1 must be at least 1"),
        (lambda: credo.FactorialHMM(states=[]), "expected a number for every chain"),
        (lambda: credo.FactorialHMM([[1.0]], states=[2]), "expected nothing but emission beside it"),
        (lambda: credo.HMM(start=[1.0], states=2), "expected nothing but emission beside it, got start"),
        (credo.HMM, "HMM: expected start, transition and emission, or states"),
        (lambda: credo.FactorialHMM(states=[2], emission="none"), "emission must be one of"),
        (lambda: credo.Mixture(0), "components must be at least 1"),
    ],
)
def test_what_is_refused(wrong, sentence):
    with pytest.raises(CredoError, match=sentence):
        wrong()
