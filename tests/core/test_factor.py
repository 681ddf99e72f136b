"""Table factors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credo
from credo.core.errors import EvidenceError, ModelError
from credo.core.factor import TableFactor
from credo.core.variable import Variable
from markup import cells

A, B = Variable("a", 2), Variable("b", ["lo", "mid", "hi"])
TABLE = np.arange(1.0, 7.0).reshape(2, 3)


def test_axis_k_belongs_to_scope_k():
    f = TableFactor([A, B], TABLE)
    for i in range(2):
        for j, label in enumerate(B.states):
            assert f.log_value({"a": i, "b": label}) == pytest.approx(np.log(TABLE[i, j]))
    g = TableFactor([B, A], TABLE.T)
    assert g.log_value({"a": 1, "b": "lo"}) == f.log_value({"a": 1, "b": "lo"})


def test_a_flat_list_is_read_in_c_order():
    assert TableFactor([A, B], [1, 2, 3, 4, 5, 6]) == TableFactor([A, B], TABLE)


def test_a_zero_weight_is_minus_infinity():
    f = TableFactor([A], [0, 1])
    assert f.log_value({"a": 0}) == -np.inf
    np.testing.assert_array_equal(f.table, [0, 1])


def test_an_empty_scope_is_a_constant():
    f = TableFactor([], 2.0)
    assert f.log_table.shape == ()
    assert f.log_value({}) == pytest.approx(np.log(2))
    assert TableFactor([], [2.0]) == f


def test_log_tables_may_hold_what_exp_cannot():
    f = TableFactor.from_log([A], [-800, 800])
    assert f.log_value({"a": 1}) == 800


def test_conditioning_removes_the_observed_axes():
    f = TableFactor([A, B], TABLE).condition({"b": "hi", "elsewhere": 3})
    assert f.names == ("a",)
    np.testing.assert_allclose(f.table, TABLE[:, 2])
    assert TableFactor([A, B], TABLE).condition({"a": 0, "b": 1}).log_table.shape == ()
    with pytest.raises(EvidenceError, match="variable 'b' has no state 'low'"):
        TableFactor([A, B], TABLE).condition({"b": "low"})


def test_tables_cannot_be_written_and_are_not_shared_with_the_caller():
    mine = np.log(TABLE)
    f = TableFactor.from_log([A, B], mine)
    mine[0, 0] = 99
    assert f.log_table[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        f.log_table[0, 0] = 1


def test_factors_print_and_compare():
    f = TableFactor([A, B], TABLE)
    assert repr(f) == "TableFactor(['a', 'b'], shape=(2, 3))"
    assert f != TableFactor([A, B], TABLE + 1)
    assert f != TableFactor([B, A], TABLE.T)
    assert f != 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TableFactor([A, B], TABLE.T),
            "factor over ['a', 'b']: expected a table of shape (2, 3), got (3, 2)",
        ),
        (lambda: TableFactor([A, B], [1, 2]), "expected a table of shape (2, 3), got (2,)"),
        (
            lambda: TableFactor([A], [1, -1]),
            "factor over ['a']: entries must be non-negative numbers, got -1",
        ),
        (lambda: TableFactor([A], [1, np.nan]), "entries must be non-negative numbers, got nan"),
        (lambda: TableFactor([A], [1, np.inf]), "factor over ['a']: entries must be finite, got inf"),
        (
            lambda: TableFactor([A], ["p", "q"]),
            "factor over ['a']: expected a table of numbers, got ['p', 'q']",
        ),
        (lambda: TableFactor([A], [[1], [1, 2]]), "expected a table of numbers"),
        (lambda: TableFactor([A], None), "expected a table of numbers, got None"),
        (lambda: TableFactor.from_log([A], [0, np.nan]), "log entries must be numbers below inf, got nan"),
        (lambda: TableFactor.from_log([A], [0, np.inf]), "log entries must be numbers below inf, got inf"),
        (lambda: TableFactor(["a"], [1, 2]), "factor scope: expected Variables, got 'a'"),
        (lambda: TableFactor([A, A], np.ones((2, 2))), "factor over ['a', 'a']: a variable appears twice"),
    ],
)
def test_bad_tables_are_refused(make, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        make()


def test_a_table_prints_and_shows_its_weights_with_names():
    factor = TableFactor([Variable("a<b", ["lo", "hi"]), Variable("c", 2)], [[1, 2.5], [0, 1e9]])
    assert repr(factor) == "TableFactor(['a<b', 'c'], shape=(2, 2))"
    assert str(factor).splitlines()[1:] == ["a<b  c=0    c=1", "lo     1    2.5", "hi     0  1e+09"]
    assert cells(factor._repr_html_())[:6] == ["a<b", "c=0", "c=1", "lo", "1", "2.5"]


def test_the_factors_of_a_net_survive_as_frames():
    pytest.importorskip("pandas")
    net = credo.MarkovNet({"a": ["p", "q"], "b": 3}, {("b", "a"): np.arange(6.0).reshape(3, 2), "a": [1, 2]})
    again = credo.MarkovNet.from_pandas([f.to_frame() for f in net.factors], states=net.states)
    assert [f.names for f in again.factors] == [("b", "a"), ("a",)]
    for one, other in zip(net.factors, again.factors, strict=True):
        np.testing.assert_allclose(one.table, other.table)


def test_a_factor_without_a_table_shows_its_scope():
    x = Variable("x", credo.Real())
    shown = cells(credo.GaussianFactor([x], [[1.0]], [0.0])._repr_html_())
    assert shown == ["variable", "domain", "x", "Real()"]


def test_whole_numbers_that_no_float_holds_are_refused():
    a = Variable("a", 2)
    for make in (TableFactor, TableFactor.from_log):
        with pytest.raises(ModelError, match=r"factor over \['a'\]: expected a table of numbers"):
            make([a], [10**400, 1])
    graph = credo.FactorGraph([a], [TableFactor([a], [1, 2])])
    with pytest.raises(EvidenceError, match="soft evidence on 'a': expected 2 numbers"):
        credo.infer(graph, evidence={"a": [10**400, 1]})
    with pytest.raises(EvidenceError, match="variable 'a' has no state"):
        credo.infer(graph, evidence={"a": 10**400})
