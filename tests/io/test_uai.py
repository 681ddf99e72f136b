"""UAI and Ergo model files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.errors import FormatError, ModelError, UnsupportedError
from credo.io.erg import read_erg, write_erg
from credo.io.scan import SMALL
from credo.io.uai import read_uai, write_uai
from credo.models.bayes_net import BayesNet
from credo.models.mrf import MarkovNet
from random_models import graphs, joint, networks

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

SAMPLE = b"""MARKOV
3
2 2 3
2
2 1 0
2 2 1

4
 1 2
 3 4
6
 .5 5e-1 0 +7 8.25 9.
"""


def test_the_last_variable_of_a_scope_is_the_fastest():
    graph = read_uai(SAMPLE).to_factor_graph()
    assert graph.variables.sizes.tolist() == [2, 2, 3]
    assert [graph.scope_of(a).tolist() for a in range(2)] == [[1, 0], [2, 1]]
    assert np.allclose(np.exp(graph.log_table(0)), [[1, 2], [3, 4]], rtol=1e-15)
    assert np.allclose(np.exp(graph.log_table(1)), [[0.5, 0.5], [0, 7], [8.25, 9]], rtol=1e-15)
    assert graph.log_table(1)[1, 0] == -np.inf
    assert list(graph.variables.names) == ["x0", "x1", "x2"]


def test_line_layout_comments_and_case_do_not_matter():
    squeezed = b" ".join(SAMPLE.lower().split())
    commented = b"c made by hand\n# twice\n" + SAMPLE.replace(b"\n", b" # note\r\n") + b"\nc\n  c end"
    wanted = read_uai(SAMPLE).to_factor_graph()
    assert read_uai(squeezed).to_factor_graph() == wanted
    assert read_uai(commented).to_factor_graph() == wanted


def test_an_empty_scope_is_a_constant():
    graph = read_uai(b"MARKOV 1 2 2  0  1 0  1 5  2 1 1").to_factor_graph()
    assert graph.log_table(0) == pytest.approx(np.log(5))


def test_a_model_without_variables_is_read():
    assert read_uai(b"MARKOV 0 0").to_factor_graph().n_factors == 0


def test_a_bayes_file_becomes_a_bayes_net():
    model = read_uai(b"BAYES 2  2 3  2  2 0 1  1 0   6  .1 .2 .7 .3 .3 .4   2 .25 .75")
    assert isinstance(model, BayesNet)
    assert model.parents["x1"] == ("x0",)
    assert model.tables["x1"].tolist() == [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
    assert model.tables["x0"].tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    "text",
    [
        b"BAYES 1 3 1  1 0  3  .333333 .333333 .333333",  # printed digits
        b"BAYES 2 2 2 2  1 0  2 0 1  2 .5 .5  4 0 0 .5 .5",  # a row of zeros
        b"BAYES 2 2 2 2  1 0  1 0  2 .5 .5  2 .5 .5",  # one child twice, one never
        b"BAYES 1 2 2  1 0  1 0  2 .5 .5  2 .5 .5",  # more factors than variables
        b"BAYES 1 1 1  0  1 1",  # no child
    ],
)
def test_a_bayes_file_without_proper_rows_keeps_its_exact_values(text):
    model = read_uai(text)
    assert isinstance(model, MarkovNet)
    printed = [float(t) for t in text.split()[-2:]]
    with np.errstate(divide="ignore"):
        assert model.to_factor_graph().log_tables[-2:].tolist()[-1] == np.log(printed[-1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "f.uai, line 1: expected MARKOV or BAYES, got nothing"),
        (b"\n\nHELLO 1", "f.uai, line 3: expected MARKOV or BAYES, got HELLO"),
        (b"\xff\xfe\x00\x01", "f.uai, line 1: expected MARKOV or BAYES, got"),
        (b"MARKOV\n", "line 1: expected 1 number of variables, got 0; the file ends too early"),
        (b"MARKOV\n1.5", "line 2: number of variables: expected integers from 0, got 1.5"),
        (b"MARKOV\n-1", "line 2: number of variables: expected integers from 0, got -1"),
        (b"MARKOV\n3\n2 2", "line 3: expected 3 numbers of states, got 2; the file ends too early"),
        (b"MARKOV\n1\n0 0", "line 3: numbers of states: expected integers from 1, got 0"),
        (b"MARKOV\n1000000000000\n2", "line 3: expected 1000000000000 numbers of states, got 1"),
        (b"MARKOV\n1\n1000000000000\n0", "expected at most 268435456 states in all, got 1e\\+12"),
        (b"MARKOV\n1\n2\n1000000000000\n", "line 4: expected 1000000000000 factor scopes, got 0"),
        (b"MARKOV\n1\n2\n2\n1 0", "line 5: expected 2 factor scopes, got 1; the file ends too early"),
        (
            b"MARKOV\n1\n2\n1\n5 0 0",
            "line 5: factor scopes: expected 5 entries, got 2; the file ends too early",
        ),
        (b"MARKOV\n1\n2\n1\n-5 0 0", "line 5: factor scopes: expected a number of entries, got -5"),
        (
            b"MARKOV\n1\n2\n1\n1 1\n2 1 1",
            "line 5: variables of a scope: expected integers from 0 to 0, got 1",
        ),
        (b"MARKOV\n1\n2\n1\n1 0\n\n3\n1 1 1", "line 7: factor 0: expected 2 table entries, got 3"),
        (b"MARKOV\n1\n2\n1\n1 0\n\n2\n1\n-1", "line 9: expected non-negative table entries, got -1"),
        (b"MARKOV\n1\n2\n1\n1 0\n\n2\n1 1\n7 8", "line 9: expected the end of the file, got 2 more numbers"),
        (b"MARKOV\n1\n2\n1\n1 0\n\n2\n1 nan", "line 8: expected a number, got 'nan'"),
        (b"MARKOV\n1\n2\n1\n1 0\n\n2\n1\n1e999", "line 9: the number is too large for a double"),
        (b"MARKOV\n2\n2 2\n1\n2 1 1\n4 1 1 1 1", "f.uai: factor 0: variable 'x1' appears twice in the scope"),
        (b"BAYES 2 2 2 2  2 1 0  2 0 1  4 .5 .5 .5 .5  4 .5 .5 .5 .5", "f.uai: .*cycle"),
    ],
)
def test_damaged_files_are_refused_with_file_and_line(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("f.uai").write_bytes(text)
    with pytest.raises(FormatError, match=message):
        credo.load("f.uai")


def test_large_files_name_the_line_too():
    lines = [b"MARKOV", b"20000", b"2 " * 20000, b"0"]
    content = b"\n".join([*lines, b"", b"oops"])
    assert len(content) < SMALL < len(content) * 10
    padded = content.replace(b"2 ", b"2    ")
    assert len(padded) > SMALL
    for text in (content, padded):
        with pytest.raises(FormatError, match="<bytes>, line 6: expected a number, got 'oops'"):
            read_uai(text)


def test_small_and_large_files_are_read_alike():
    rng = np.random.default_rng(0)
    n = 4000
    tables = rng.random((n - 1, 2, 2)) * 10.0 ** rng.integers(-300, 300, (n - 1, 1, 1))
    scopes = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    head = f"MARKOV {n} " + "2 " * n + f"{n - 1} " + " ".join(f"2 {i} {j}" for i, j in scopes)
    text = head + " " + " ".join(f"4 {' '.join(map(repr, t.ravel().tolist()))}" for t in tables)
    assert len(text) > SMALL
    graph = read_uai(text.encode()).to_factor_graph()
    assert np.array_equal(graph.log_tables, np.log(tables.ravel()))
    assert np.array_equal(graph.scope, scopes.ravel())


@given(graphs())
def test_markov_files_round_trip(graph):
    again = read_uai(write_uai(graph).encode()).to_factor_graph()
    assert np.array_equal(again.scope, graph.scope)
    assert np.array_equal(again.scope_start, graph.scope_start)
    finite = np.isfinite(graph.log_tables)
    assert np.array_equal(finite, np.isfinite(again.log_tables))
    assert np.allclose(again.log_tables[finite], graph.log_tables[finite], rtol=3e-16, atol=3e-16)


@given(networks())
def test_bayes_files_keep_every_bit_of_a_network(model):
    again = read_uai(write_uai(model).encode())
    assert isinstance(again, BayesNet)
    assert np.array_equal(again.flat_tables, model.flat_tables)
    assert np.array_equal(again.to_factor_graph().scope, model.to_factor_graph().scope)


@given(st.lists(st.floats(1e-300, 1e300), min_size=2, max_size=2))
def test_what_was_read_from_a_file_is_written_with_the_same_logarithms(weights):
    text = f"MARKOV 1 2 1 1 0 2 {weights[0]!r} {weights[1]!r}".encode()
    first = read_uai(text)
    again = read_uai(write_uai(first).encode())
    assert np.allclose(
        first.to_factor_graph().log_tables, again.to_factor_graph().log_tables, rtol=0, atol=1e-16
    )


def test_plain_numbers_are_written_as_they_were_read():
    text = write_uai(read_uai(SAMPLE))
    assert "\n 1.0 2.0 3.0 4.0\n" in text
    assert "\n 0.5 0.5 0.0 7.0 8.25 9.0\n" in text


@pytest.mark.parametrize("log_weight", [800.0, -800.0, -740.0])
def test_weights_beyond_doubles_are_not_written(log_weight):
    graph = credo.FactorGraph.from_arrays([2], ([[0]], [0.0, log_weight]), log=True)
    with pytest.raises(FormatError, match=r"is beyond the range of decimal tables; use \.json"):
        write_uai(graph)


def test_only_models_are_written():
    with pytest.raises(ModelError, match="save: expected a model, got 7"):
        write_uai(7)


ERGO = b"""3
2 2 3
0
1 0
2 1 0

/* Probabilities */
2
 0.25 0.75
4
 0.125 0.875
 0.5 0.5
12
 0.5 0.25 0.25
 0.25 0.5 0.25
 0.25 0.25 0.5
 0.125 0.125 0.75

/* Names */
a b
c
/* Labels */
no yes
lo hi
l m h
"""


def test_an_ergo_file_has_names_labels_and_parents_in_order():
    model = read_erg(ERGO)
    assert isinstance(model, BayesNet)
    assert model.parents["c"] == ("b", "a")
    assert model.tables["c"][1, 0].tolist() == [0.25, 0.25, 0.5]
    assert model.variables[2].states == ("l", "m", "h")


def test_ergo_positions_may_count_from_one():
    from_one = ERGO.replace(b"\n1 0\n2 1 0\n", b"\n1 1\n2 2 1\n")
    assert read_erg(from_one).to_factor_graph() == read_erg(ERGO).to_factor_graph()


def test_an_ergo_file_may_lack_names_and_labels():
    bare = ERGO[: ERGO.index(b"/* Names")]
    assert list(read_erg(bare).variables.names) == ["x0", "x1", "x2"]
    unlabelled = ERGO[: ERGO.index(b"/* Labels")]
    assert read_erg(unlabelled).variables[0].states == ("0", "1")


def test_a_uai_file_under_the_ergo_extension_is_recognised():
    assert read_erg(SAMPLE).to_factor_graph() == read_uai(SAMPLE).to_factor_graph()


@given(networks())
def test_ergo_files_round_trip(model):
    again = read_erg(write_erg(model).encode())
    assert again.variables == model.variables
    assert np.array_equal(again.flat_tables, model.flat_tables)
    assert dict(again.parents) == dict(model.parents)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"/* Probabilities */", b"", "line 8: expected the end of the file"),
        (b"/* Probabilities */", b"/* Tables */", r"expected a section /\* Probabilities \*/"),
        (b"a b\n", b"a\n", "line 19: expected 3 names, got 2"),
        (b"a b\n", b"a a\n", "variable 'a' is declared twice"),
        (b"l m h", b"l m", "line 22: expected 7 state labels, got 6"),
        (b"l m h", b"l m m", "state labels must differ"),
        (b"\n2 1 0\n", b"\n2 1 5\n", "line 5: parents: expected integers from 0 to 3, got 5"),
        (b"\n0\n1 0\n", b"\n1 1\n1 0\n", "expected a directed graph without cycles"),
        (b"12\n", b"13\n", "line 13: factor tables: expected 13 entries, got 12"),
    ],
)
def test_damaged_ergo_files_are_refused(old, new, message, tmp_path):
    path = tmp_path / "f.erg"
    path.write_bytes(ERGO.replace(old, new))
    with pytest.raises(FormatError, match=message):
        credo.load(path)


def test_only_networks_with_distinct_words_are_written_to_ergo_files():
    with pytest.raises(UnsupportedError, match="Ergo files hold Bayesian networks, got a FactorGraph"):
        write_erg(credo.FactorGraph({"a": 2}))
    model = BayesNet({"a b": 2, "a_b": 2}, tables={"a b": [0.5, 0.5], "a_b": [0.5, 0.5]})
    with pytest.raises(ModelError, match="the names of the variables are equal without blanks"):
        write_erg(model)


@pytest.mark.skipif(not DATA.exists(), reason="the shared models are absent")
def test_every_shared_model_loads():
    paths = [*DATA.glob("uai14/*/*.uai.gz"), *DATA.glob("uai08/*/*.erg.gz")]
    assert len(paths) > 100
    seen = set()
    for path in sorted(paths):
        if path.name not in seen:
            seen.add(path.name)
            graph = credo.load(path).to_factor_graph()
            assert graph.n_factors > 0
            assert np.array_equal(
                graph.table_start + graph.table_size, np.append(graph.table_start[1:], len(graph.log_tables))
            )


@pytest.mark.skipif(not DATA.exists(), reason="the shared models are absent")
def test_a_shared_grid_has_the_published_partition_function_by_elimination_of_rows():
    """An independent sum over a 10x10 binary grid, row by row, against the printed log10."""
    graph = credo.load(DATA / "uai14" / "PR" / "Grids_12.uai.gz").to_factor_graph()
    states = (np.arange(1 << 10)[:, None] >> np.arange(10)) & 1
    inside = np.zeros((10, 1 << 10))
    between = np.zeros((10, 1 << 10, 1 << 10))
    for a in range(graph.n_factors):
        scope, table = graph.scope_of(a), graph.log_table(a)
        rows, columns = scope // 10, scope % 10
        if len(set(rows.tolist())) == 1:
            inside[rows[0]] += table[tuple(states[:, k] for k in columns)]
        else:
            low, high = np.argsort(rows)
            index = [None, None]
            index[low], index[high] = states[:, columns[low], None], states[None, :, columns[high]]
            between[rows[low]] += table[tuple(index)]
    message = inside[0]
    for row in range(1, 10):
        total = message[:, None] + between[row - 1]
        top = total.max(axis=0)
        message = top + np.log(np.exp(total - top).sum(axis=0)) + inside[row]
    log_z = message.max() + np.log(np.exp(message - message.max()).sum())
    assert log_z / np.log(10) == pytest.approx(303.086, abs=5e-4)


def test_joint_tables_survive_a_trip_through_both_formats():
    model = read_erg(ERGO)
    assert np.allclose(joint(read_uai(write_uai(model).encode())), joint(model), rtol=1e-14)
