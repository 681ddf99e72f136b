"""libDAI factor graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import credo
from credo.core.errors import FormatError
from credo.io.fg import read_fg, write_fg
from random_models import graphs, joint

SAMPLE = b"""# a comment
2

3
4 8 7
3 2 2
11
0 0.1
1 3.5
2 2.8
3 6.3
4 8.4
6 7.4
7 2.4
8 8.9
9 1.3
11 2.6
10 1.6

1
8   # again
2
2
0 1
1 2
"""


def test_the_first_variable_is_the_fastest():
    graph = read_fg(SAMPLE).to_factor_graph()
    assert list(graph.variables.names) == ["x4", "x7", "x8"]
    assert graph.scope_of(0).tolist() == [0, 2, 1]
    table = np.exp(graph.log_table(0))
    flat = [0.1, 3.5, 2.8, 6.3, 8.4, 0, 7.4, 2.4, 8.9, 1.3, 1.6, 2.6]
    for i in range(3):
        for j in range(2):
            for k in range(2):
                assert table[i, j, k] == pytest.approx(flat[i + 3 * j + 6 * k], rel=1e-15)
    assert graph.log_table(0)[2, 1, 0] == -np.inf


@given(graphs())
def test_files_round_trip(graph):
    again = read_fg(write_fg(graph).encode())
    assert list(again.variables.names) == list(graph.variables.names)
    assert np.array_equal(again.variables.sizes, graph.variables.sizes)
    assert np.allclose(joint(again), joint(graph), rtol=1e-14, atol=1e-14)
    m = graph.n_factors
    assert np.array_equal(again.to_factor_graph().scope[: len(graph.scope)], graph.scope)
    assert again.to_factor_graph().n_factors >= m


@given(graphs(labels=True))
def test_other_names_are_numbered(graph):
    again = read_fg(write_fg(graph).encode())
    assert list(again.variables.names) == [f"x{i}" for i in range(len(graph.variables))]
    assert np.allclose(joint(again), joint(graph), rtol=1e-14, atol=1e-14)


def test_labels_with_gaps_are_kept():
    text = write_fg(read_fg(SAMPLE))
    assert "\n4 8 7\n3 2 2\n11\n" in text
    assert read_fg(text.encode()).to_factor_graph() == read_fg(SAMPLE).to_factor_graph()


def test_constants_and_empty_files_are_read():
    graph = read_fg(b"1\n\n0\n\n\n1\n0 5\n").to_factor_graph()
    assert graph.log_tables.tolist() == [pytest.approx(np.log(5))]
    assert read_fg(b"0\n").to_factor_graph().n_factors == 0


def test_small_and_large_files_are_read_alike():
    n = 6000
    rng = np.random.default_rng(0)
    tables = rng.random((n, 3, 2))
    blocks = [
        f"2 {i} {i + n} 3 2 6 " + " ".join(f"{k} {x!r}" for k, x in enumerate(t.T.ravel().tolist()))
        for i, t in enumerate(tables)
    ]
    graph = read_fg(f"{n}\n{chr(10).join(blocks)}".encode()).to_factor_graph()
    assert np.array_equal(graph.log_tables, np.log(tables.ravel()))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\n2\n\n3", b"\n3\n\n3", "line 25: factor 2: expected the number of variables"),
        (b"\n2\n\n3", b"\n1\n\n3", "line 20: expected the end of the file, got 8 more numbers"),
        (b"4 8 7", b"4 8 -7", "line 5: labels: expected integers from 0, got -7"),
        (b"3 2 2", b"3 2 0", "line 6: numbers of states: expected integers from 1, got 0"),
        (b"\n2\n2\n0 1", b"\n3\n2\n0 1", "line 4: factor 0: variable 8 has 2 states here and 3 elsewhere"),
        (b"11 2.6", b"12 2.6", "line 17: factor 0: expected table positions below 12, got 12"),
        (b"11 2.6", b"10 2.6", "line 18: factor 0: table position 10 is given twice"),
        (b"11 2.6", b"11 -2.6", "line 17: expected non-negative weights, got -2.6"),
        (b"11 2.6", b"1.5 2.6", "line 17: table positions: expected integers from 0, got 1.5"),
        (b"\n11\n0 0.1", b"\n1100\n0 0.1", "line 4: factor 0: expected the number of variables"),
        (b"4 8 7", b"4 8 8", "variable 'x8' appears twice"),
        (b"# a comment\n2", b"1e12", "expected 1000000000000 factors, got"),
        (b"3 2 2", b"1000000000000 2 2", "expected at most 268435456 states in all, got 1e\\+12"),
        (b"3 2 2", b"1e7 2 2e7", "expected at most 268435456 table entries in all, got 4e\\+14"),
    ],
)
def test_damaged_files_are_refused(old, new, message, tmp_path):
    assert old in SAMPLE
    path = tmp_path / "m.fg"
    path.write_bytes(SAMPLE.replace(old, new, 1))
    with pytest.raises(FormatError, match=message):
        credo.load(path)
