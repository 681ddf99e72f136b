"""What is no real number is refused by every constructor that takes numbers, and never cut to one."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import credo
from credo.core.density import DensityFactor, GaussianFactor
from credo.core.domain import Real
from credo.core.errors import CredoError, DataError, ModelError
from credo.core.linear_gaussian import LinearGaussianFactor
from credo.core.numbers import float_array
from credo.data.table import StateTable
from credo.families import Categorical, DiagonalGaussian, Dirichlet, Gaussian, Poisson
from credo.models.hmm import HMM
from credo.models.log_linear import LogLinear
from credo.models.normal_form import NormalForm, Source

X, Y = credo.Variable("x", Real()), credo.Variable("y", Real())
A = credo.Variable("a", 2)
NET = credo.BayesNet({"a": 2}, {}, {"a": [0.5, 0.5]})
HIDDEN = HMM([0.5, 0.5], np.eye(2), DiagonalGaussian([[0.0], [1.0]], [[1.0], [1.0]]))


def spoiled(kind):
    """Two numbers, of a kind that floats cannot hold."""
    return {
        "complex": np.array([0.5 + 1j, 0.5]),
        "complex list": [0.5 + 1j, 0.5],
        "masked": np.ma.array([0.5, 0.5], mask=[True, False]),
        "masked list": [np.ma.masked, 0.5],
        "dates": np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"),
        "spans": np.array([1, 2], dtype="timedelta64[D]"),
        "objects": np.array([object(), 0.5], dtype=object),
        "none": [None, 0.5],
        "words": ["half", "half"],
        "mixed": np.array([0.5 + 1j, 0.5], dtype=object),
    }[kind]


KINDS = [
    "complex", "complex list", "masked", "masked list", "dates", "spans", "objects", "none", "words", "mixed",
]  # fmt: skip

MAKERS = {
    "TableFactor": lambda v: credo.TableFactor([A], v),
    "TableFactor.from_log": lambda v: credo.TableFactor.from_log([A], v),
    "FactorGraph": lambda v: credo.FactorGraph({"a": 2}, {("a",): v}),
    "FactorGraph.from_arrays": lambda v: credo.FactorGraph.from_arrays([2, 2], ([[0], [1]], [v, v])),
    "FactorGraph.from_arrays log": lambda v: credo.FactorGraph.from_arrays([2], ([[0]], [v]), log=True),
    "BayesNet": lambda v: credo.BayesNet({"a": 2}, {}, {"a": v}),
    "BayesNet.from_flat": lambda v: credo.BayesNet.from_flat(NET.variables, [0, 1], [0], v),
    "MarkovNet": lambda v: credo.MarkovNet({"a": 2}, {("a",): v}),
    "MarkovNet.ising": lambda v: credo.MarkovNet.ising({(0, 1): 1.0}, v),
    "LogLinear": lambda v: LogLinear({"a": 2}, [("a", [0, 1], 0), ("a", [1, 0], 1)], v),
    "Feature": lambda v: LogLinear({"a": 2}, [("a", v, 0)], [1.0]),
    "likelihoods": lambda v: credo.infer(NET, "junction-tree", evidence={"a": v}),
    "GaussianFactor": lambda v: GaussianFactor([X, Y], np.eye(2), v),
    "GaussianFactor.from_moments": lambda v: GaussianFactor.from_moments([X, Y], v, np.eye(2)),
    "LinearGaussianFactor": lambda v: LinearGaussianFactor([X, A], [[1.0], [1.0]], offset=v),
    "DensityFactor": lambda v: DensityFactor([X], lambda x, p: -(x**2) * p[0], v),
    "GaussianNet": lambda v: credo.GaussianNet(np.eye(2), v),
    "HMM": lambda v: HMM(v, np.eye(2), Categorical([[1.0, 0.0], [0.0, 1.0]])),
    "Categorical": lambda v: Categorical([v]),
    "Gaussian": lambda v: Gaussian([v], [np.eye(2)]),
    "DiagonalGaussian": lambda v: DiagonalGaussian([[0.0, 0.0]], [v]),
    "Poisson": Poisson,
    "Dirichlet": lambda v: Dirichlet([v]),
    "weights": lambda v: StateTable.of(NET.variables, {"a": [0, 1]}, weights=v),
    "Source": lambda v: NormalForm({"a": 2}, [Source("a", v)]),
}  # fmt: skip


@pytest.mark.parametrize("maker", MAKERS)
def test_real_numbers_are_taken(maker):
    MAKERS[maker]([0.5, 0.5])
    MAKERS[maker](np.ma.array([0.5, 0.5], mask=False))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("maker", MAKERS)
def test_what_is_no_real_number_is_refused(maker, kind):
    with pytest.raises(CredoError, match="got"):
        MAKERS[maker](spoiled(kind))


@pytest.mark.parametrize("kind", ["complex", "dates", "spans", "objects", "words", "mixed"])
@pytest.mark.parametrize(
    "read", [partial(credo.log_likelihood, HIDDEN), Poisson([1.0]).rows, Categorical([[0.5, 0.5]]).rows]
)
def test_rows_of_data_that_are_no_real_numbers_are_refused(read, kind):
    with pytest.raises(DataError, match="got"):
        read(spoiled(kind))


def test_masked_cells_of_data_are_missing():
    x = np.ma.array([[0.3], [5.0], [0.1]], mask=[[False], [True], [False]])
    blank = np.array([[0.3], [np.nan], [0.1]])
    assert credo.log_likelihood(HIDDEN, x) == credo.log_likelihood(HIDDEN, blank)
    states = np.ma.array([0, 1, 1], mask=[False, True, False])
    np.testing.assert_array_equal(Categorical([[0.5, 0.5]]).rows(states), [0, -1, 1])
    np.testing.assert_array_equal(Poisson([1.0]).rows(states), [0, np.nan, 1])
    seen = StateTable.of({"a": 2, "b": 2}, np.ma.array([[0, 1], [1, 1]], mask=[[False, True], [False] * 2]))
    np.testing.assert_array_equal(seen.states[seen.row_of], [[0, -1], [1, 1]])
    again = StateTable.of({"a": 2, "b": 2}, {"a": states, "b": [0, 1, 1]})
    np.testing.assert_array_equal(again.states[again.row_of], [[0, 0], [-1, 1], [1, 1]])


def test_dates_are_no_states():
    with pytest.raises(DataError, match="expected states, got datetime64"):
        StateTable.of({"a": 2}, {"a": np.array([0, 1], dtype="datetime64[ns]")})


def test_numbers_of_other_kinds_keep_their_value():
    expected = [0.5, 0.25]
    for given in (
        [Fraction(1, 2), Decimal("0.25")],
        ["0.5", "0.25"],
        np.array([0.5, 0.25], dtype=np.float32),
        np.ma.array([0.5, 0.25], mask=False),
    ):
        np.testing.assert_array_equal(float_array("x", given), expected)


def test_a_copy_is_the_callers_own():
    for given in (np.ones(2), np.ma.array([1.0, 1.0])):
        assert not np.shares_memory(float_array("x", given, copy=True), given)
    given = np.ones(2)
    assert float_array("x", given) is given


def test_refusals_tell_the_way_out():
    with pytest.raises(ModelError, match=r"x: expected numbers, got complex ones.*give `.real`"):
        float_array("x", [1j])
    with pytest.raises(ModelError, match=r"masked entries; `filled\(...\)` gives"):
        float_array("x", spoiled("masked"))
    with pytest.raises(ModelError, match=r"got dates \(datetime64\[ns\]\); give numbers"):
        float_array("x", spoiled("dates"))
    with pytest.raises(ModelError, match="expected numbers, got 1000"):
        float_array("x", 10**400)


def test_an_observed_number_is_no_part_of_a_complex_one():
    net = credo.GaussianNet(np.eye(2))
    name = net.variables.names[0]
    for value in (np.complex128(1 + 2j), np.datetime64("2020-01-01"), np.timedelta64(1, "D")):
        with pytest.raises(CredoError, match="expected a number, got"):
            credo.infer(net, evidence={name: value})
