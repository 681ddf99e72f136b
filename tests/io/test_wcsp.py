"""toulbar2 files: .wcsp and .cfn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo.core.errors import FormatError, UnsupportedError
from credo.io.cfn import read_cfn
from credo.io.wcsp import read_wcsp

WCSP = b"""test 3 3 4 10
2 3 2
2 0 1 1 3
0 0 5
1 2 10
0 2 11
1 2 0 2
0 0
1 3
0 7 0
2 1 0 0 6
0 0 1
0 1 2
1 0 3
1 1 4
2 0 5
2 1 6
"""


def test_costs_become_negative_log_weights():
    graph = read_wcsp(WCSP).to_factor_graph()
    assert graph.variables.sizes.tolist() == [2, 3, 2]
    assert graph.log_table(0).tolist() == [[-5, -1, -np.inf], [-1, -1, -np.inf]]
    assert graph.log_table(1).tolist() == [0, -3]
    assert float(graph.log_table(2)) == -7
    assert graph.scope_of(3).tolist() == [1, 0]
    assert graph.log_table(3).tolist() == [[-1, -2], [-3, -4], [-5, -6]]


def test_shared_tables_are_stored_once():
    graph = read_wcsp(
        b"s 3 2 3 99  2 2 2  -2 0 1 0 2  0 1 4  1 1 5   2 1 2 0 -1   2 2 0 0 -1"
    ).to_factor_graph()
    assert len(graph.log_tables) == 4
    for a, scope in enumerate([[0, 1], [1, 2], [2, 0]]):
        assert graph.scope_of(a).tolist() == scope
        assert graph.log_table(a).tolist() == [[0, -4], [0, -5]]


def test_the_assignment_of_least_cost_is_the_map_assignment():
    rng = np.random.default_rng(3)
    costs = {pair: rng.integers(0, 9, (3, 3)) for pair in itertools.combinations(range(4), 2)}
    text = f"r 4 3 {len(costs)} 1000  3 3 3 3\n"
    for (i, j), table in costs.items():
        rows = "\n".join(f"{x} {y} {table[x, y]}" for x in range(3) for y in range(3))
        text += f"2 {i} {j} 0 9\n{rows}\n"
    total = {
        x: sum(t[x[i], x[j]] for (i, j), t in costs.items()) for x in itertools.product(range(3), repeat=4)
    }
    best = credo.infer(read_wcsp(text.encode()), "enumerate", maximise="all")
    assert best.log_z.value == pytest.approx(-min(total.values()))
    assert total[tuple(best.assignment.indices.tolist())] == min(total.values())


def test_small_and_large_files_are_read_alike():
    rng = np.random.default_rng(0)
    n = 3000
    costs = rng.integers(0, 100, (n, 2, 3))
    rows = [" ".join(f"{x} {y} {t[x, y]}" for x in range(2) for y in range(3)) for t in costs]
    text = (
        f"big {2 * n} 3 {n} 1000\n"
        + "2 3 " * n
        + "\n".join(f"2 {2 * a} {2 * a + 1} 0 6 {r}" for a, r in enumerate(rows))
    )
    graph = read_wcsp(text.encode()).to_factor_graph()
    assert np.array_equal(graph.log_tables, -costs.ravel())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"test 3 3 4 10", b"test", "line 3: numbers of states: expected integers from 1, got 0"),
        (b"2 3 2\n2 0 1", b"2 0 2\n2 0 1", "line 2: numbers of states: expected integers from 1, got 0"),
        (
            b"2 0 1 1 3",
            b"2 0 7 1 3",
            "line 3: variables of a cost function: expected integers from 0 to 2, got 7",
        ),
        (b"1 2 10\n", b"1 3 10\n", "line 5: expected a state from 0 to 2, got 3"),
        (b"1 2 10\n", b"1 .5 10\n", "line 5: expected a state from 0 to 2, got 0.5"),
        (b"1 2 10\n", b"1 2 -10\n", "expected non-negative costs, got -10; see the .cfn format"),
        (b"2 1 6\n", b"2 1\n", "line 11: cost function 3: expected its variables, default cost"),
        (b"2 1 6\n", b"2 1 6 7\n", "line 17: expected the end of the file, got 1 more numbers"),
        (b"0 7 0", b"0 7 -1", "line 10: number of tuples: expected integers from 0, got -1"),
        (b"test 3 3 4 10", b"test 3 3 1000000000000 10", "expected 1000000000000 cost functions, got"),
        (b"test 3 3 4", b"test 1000000000000 3 4", "expected 1000000000000 numbers of states, got"),
        (
            b"2 3 2\n2 0 1",
            b"20000 20000 2\n2 0 1",
            "expected at most 268435456 table entries in all, got 8e\\+08",
        ),
        (b"2 0 1 1 3", b"2 0 1 1 {}", "line 3: expected a number, got '{}'"),
        (WCSP, b" \n", "line 1: expected the name of a problem, got an empty file"),
    ],
)
def test_damaged_files_are_refused(old, new, message, tmp_path):
    path = tmp_path / "m.wcsp"
    assert old in WCSP
    path.write_bytes(WCSP.replace(old, new))
    with pytest.raises(FormatError, match=message):
        credo.load(path)


def test_a_shared_table_must_have_the_shape_of_the_scope():
    text = b"s 3 3 2 99  2 2 3  -2 0 1 0 0   2 1 2 0 -1"
    with pytest.raises(FormatError, match="cost function 1: the shared table 1 has another shape"):
        read_wcsp(text)


@pytest.mark.parametrize("keyword", ["salldiff var 1", ">= 1 2", "knapsack 5 1 1"])
def test_functions_without_a_table_are_refused_by_name(keyword):
    text = f"latin 4 4 1 1\n4 4 4 4\n4 0 1 2 3 -1 {keyword}\n".encode()
    name = keyword.split()[0]
    with pytest.raises(UnsupportedError, match=f"line 3: the cost function '{name}' is given by a formula"):
        read_wcsp(text)


def test_interval_variables_are_refused():
    with pytest.raises(UnsupportedError, match=r"line 2: variable 1 is an interval \(-100\)"):
        read_wcsp(b"t 2 100 0 9\n2 -100\n")


CFN = b"""{
# a comment
  "problem": { "name": "test", "mustbe": "<100.5" },
  "variables": { "v1": ["a", "b", "c"], "v2": 2 },
  "functions": {
    "f12": {"scope": ["v1", "v2"], "costs": [4.2, 3.67, 12.1, 7.1, 3.1, 100.5]},
    "f21": {"scope": ["v2", "v1"], "defaultcost": 0.25, "costs": [0, "a", 5, 1, "c", 6.2]},
    "g": {"scope": [0, "v2"], "costs": "f12"},
    "u": {"scope": ["v1"], "costs": [1, 2, 3]}
  }
}
"""


def test_cfn_tables_are_dense_sparse_or_shared():
    graph = read_cfn(CFN).to_factor_graph()
    assert graph.variables[0].states == ("a", "b", "c")
    assert graph.variables[1].states == ("0", "1")
    dense = [[-4.2, -3.67], [-12.1, -7.1], [-3.1, -np.inf]]
    assert graph.log_table(0).tolist() == dense
    assert graph.scope_of(1).tolist() == [1, 0]
    assert graph.log_table(1).tolist() == [[-5, -0.25, -0.25], [-0.25, -0.25, -6.2]]
    assert graph.log_table(2).tolist() == dense
    assert graph.table_start[2] == graph.table_start[0]
    assert graph.log_table(3).tolist() == [-1, -2, -3]


def test_the_freedoms_of_cfn_do_not_matter():
    loose = (
        CFN.replace(b'"', b"").replace(b",", b" ").replace(b"[", b"{").replace(b"]", b"}").replace(b":", b"")
    )
    assert read_cfn(loose).to_factor_graph() == read_cfn(CFN).to_factor_graph()
    unclosed = CFN.rstrip().removesuffix(b"}")
    assert read_cfn(unclosed).to_factor_graph() == read_cfn(CFN).to_factor_graph()


def test_cfn_names_may_be_left_out():
    graph = read_cfn(
        b"{ {test <9} [[a b] 2 3] { {[0 2] [1 2 3 4 5 6]} {[1] 2 [1 0]} {[] [4]} } }"
    ).to_factor_graph()
    assert list(graph.variables.names) == ["x0", "x1", "x2"]
    assert graph.log_table(0).tolist() == [[-1, -2, -3], [-4, -5, -6]]
    assert graph.log_table(1).tolist() == [-2, 0]
    assert float(graph.log_table(2)) == -4


def test_a_cfn_problem_may_maximise():
    graph = read_cfn(
        b'{ problem: {name: m, mustbe: ">-5.0"}, variables: {v1: [a b], v2: [c d]}, functions: {'
        b"c0: {scope: [], costs: [-6.0]}, c1: {scope: [v1], costs: [1.0, 0.5]},"
        b"c2: {scope: [v2], costs: [1.0, 0.5]}, c12: {scope: [v1 v2], costs: [-1.0, 0.5, -2.0, 5.5]}}}"
    ).to_factor_graph()
    best = credo.infer(graph, "enumerate", maximise="all")
    assert best.log_z.value == pytest.approx(0.5)
    assert dict(best.assignment) == {"v1": "b", "v2": "d"}


def test_with_negative_costs_only_hopeless_entries_are_forbidden():
    text = b"{ {t <10} {a:2} { {scope:[a] costs:[10 15]} {scope:[a] costs:[-5 0]} } }"
    assert read_cfn(text).to_factor_graph().log_table(0).tolist() == [-10, -np.inf]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (CFN, b"", "line 1: expected the groups problem, variables and functions, got 0"),
        (CFN, b"]", "line 1: expected an opening bracket before ']'"),
        (b"[1, 2, 3]}\n  }\n}", b"[1, 2", "line 10: expected 4 closing brackets, got the end of the file"),
        (b"<100.5", b"<x", "line 3: mustbe: expected a number after '<', got '<x'"),
        (b'"<100.5"', b"", "line 3: expected a bound such as mustbe: <10.0"),
        (b'"v2": 2', b'"v2": 2.5', "line 4: variable 'v2': expected a number of states, got 2.5"),
        (b'"v2": 2', b'"v2": 1000000000000', "expected at most 268435456 states"),
        (b'"v2": 2', b'"v1": 2', "variable 'v1' is declared twice"),
        (b'"v2": 2', b'"v2": x 2', "line 4: variable 'v2': expected its states, got 'x'"),
        (b'["a", "b", "c"]', b'[["a"], "b", "c"]', "variable 'v1': expected state names, got inner brackets"),
        (b'["a", "b", "c"]', b'["a", "b", "a"]', "state labels must differ"),
        (b"100.5]", b"]", "line 6: function 'f12': expected 6 costs, got 5"),
        (b"100.5]", b"x]", "line 6: function 'f12': expected a number, got 'x'"),
        (b"100.5]", b"1e999]", "line 6: function 'f12': a cost is too large for a double"),
        (b"0.25", b"1e999", "line 7: function 'f21': the default cost is too large"),
        (b"6.2]", b"]", "line 7: function 'f21': expected tuples of 3 words, got 5"),
        (b'"c", 6.2', b'"z", 6.2', "line 7: variable 'v1' has no state 'z'"),
        (
            b'"costs": "f12"',
            b'"costs": "h"',
            "line 8: function 'g': expected costs or another function, got 'h'",
        ),
        (
            b'"costs": "f12"',
            b'"costs": "g"',
            "line 8: function 'g': expected costs or another function, got 'g'",
        ),
        (b'"costs": "f12"', b'"costs": "u"', "line 8: function 'g': the shared table has another shape"),
        (b'[0, "v2"]', b'[7, "v2"]', "line 8: expected a variable in the scope, got '7'"),
        (b'[0, "v2"]', b'["v2", "v2"]', "line 8: function 'g': a variable appears twice in the scope"),
        (b'"scope": ["v1"], ', b"", "line 9: function 'u': expected a scope and costs, got 1 parts"),
        (b'"u": ', b'"g": ', "line 9: the function 'g' is defined twice"),
    ],
)
def test_damaged_cfn_files_are_refused(old, new, message, tmp_path):
    assert old in CFN
    path = tmp_path / "m.cfn"
    path.write_bytes(CFN.replace(old, new))
    with pytest.raises(FormatError, match=message):
        credo.load(path)


def test_cfn_functions_without_a_table_are_refused_by_name():
    text = b"{ {t <9}\n {a:2 b:2}\n { d: {scope:[a b]\n type: salldiff\n params: {metric: var cost: 1}} } }"
    with pytest.raises(UnsupportedError, match="line 3: the function 'd' is of type 'salldiff'; credo reads"):
        read_cfn(text)


def test_cfn_interval_variables_are_refused():
    with pytest.raises(UnsupportedError, match=r"line 1: variable 'i' is an interval \(-100\)"):
        read_cfn(b"{ {t <9} {i: -100} {} }")


def test_very_deep_nesting_is_no_problem():
    with pytest.raises(FormatError, match="expected 100000 closing brackets, got the end of the file"):
        read_cfn(b"[" * 100_000)


def test_a_sparse_function_may_list_no_tuples():
    graph = read_cfn(b"{ {t <9} {a:2} { {scope:[a] defaultcost: 3 costs: []} } }").to_factor_graph()
    assert graph.log_table(0).tolist() == [-3, -3]
