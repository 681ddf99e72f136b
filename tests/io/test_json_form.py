"""The JSON form keeps everything."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.errors import CredoError, FormatError
from credo.core.factor_graph import FactorGraph
from credo.io.inline_arrays import LISTED
from credo.io.json_form import read_json, write_json
from credo.models.bayes_net import BayesNet
from credo.models.mrf import MarkovNet
from random_models import graphs, networks

PAIR = FactorGraph({"a": ["no", "yes"], "b": 3}, {("b", "a"): [[1, 2], [3, 4], [0, 6]]})


def again(model):
    return read_json(write_json(model).encode())


@given(st.one_of(graphs(), graphs(labels=True)))
def test_factor_graphs_come_back_equal(graph):
    assert again(graph) == graph
    found = again(MarkovNet.from_graph(graph))
    assert isinstance(found, MarkovNet)
    assert found.to_factor_graph() == graph


@given(networks())
def test_networks_come_back_equal(model):
    found = again(model)
    assert isinstance(found, BayesNet)
    assert found.variables == model.variables
    assert np.array_equal(found.flat_tables, model.flat_tables)
    assert dict(found.parents) == dict(model.parents)


@given(st.lists(st.floats(allow_nan=False, max_value=1e308), min_size=3, max_size=3))
def test_logarithms_keep_every_bit(logs):
    graph = FactorGraph.from_arrays([3], ([[0]], [x if x < np.inf else 0.0 for x in logs]), log=True)
    assert np.array_equal(again(graph).log_tables.view(np.uint64), graph.log_tables.view(np.uint64))


def test_shared_tables_stay_shared():
    chain = np.stack([np.arange(9), np.arange(1, 10)], axis=1)
    graph = FactorGraph.from_arrays(np.full(10, 2), (chain, [[2.0, 1.0], [1.0, 2.0]]))
    found = again(graph)
    assert len(found.log_tables) == 4
    assert found == graph


def test_large_arrays_are_packed_and_small_ones_readable():
    graph = FactorGraph.from_arrays([LISTED + 1], ([[0]], np.linspace(0, 1, LISTED + 1)))
    text = write_json(graph)
    assert len(text) < 12 * LISTED
    assert read_json(text.encode()) == graph
    parts = json.loads(write_json(PAIR))
    assert (parts["format"], parts["version"], parts["model"]["record"]) == ("credo", 2, "FactorGraph")
    number = parts["model"]["fields"]["log_tables"]["array"]
    assert parts["arrays"][number]["data"][4] == "-inf"


def test_a_million_numbered_variables_take_no_name_each():
    n = 100_000
    graph = FactorGraph.from_arrays(np.full(n, 2), (np.arange(n)[:, None], [1.0, 2.0]))
    text = write_json(graph)
    assert "x77" not in text
    assert again(graph).variables.names[77] == "x77"


def test_the_file_is_standard_json(tmp_path):
    credo.save(PAIR, tmp_path / "m.json")
    json.loads((tmp_path / "m.json").read_text(), parse_constant=pytest.fail)
    assert credo.load(tmp_path / "m.json") == PAIR


FIRST = {  # PAIR as version 1 wrote it
    "format": "credo",
    "version": 1,
    "model": "FactorGraph",
    "variables": {"names": ["a", "b"], "states": [["no", "yes"], 3]},
    "scope_start": [0, 2],
    "scope": [1, 0],
    "log_tables": [0.0, 0.6931471805599453, 1.0986122886681098, 1.3862943611198906, None, 1.791759469228055],
}


def test_files_of_version_1_are_read():
    assert read_json(json.dumps(FIRST).encode()) == PAIR
    found = read_json(damaged(model="MarkovNet"))
    assert isinstance(found, MarkovNet) and found.to_factor_graph() == PAIR
    packed = {"dtype": "<f8", "base64": base64.b64encode(PAIR.log_tables.tobytes()).decode()}
    assert read_json(damaged(log_tables=packed)) == PAIR
    net = {"variables": {"prefix": "x", "sizes": [2]}, "scope_start": [0, 1], "scope": [0]}
    assert read_json(damaged(model="BayesNet", tables=[0.25, 0.75], **net)) == BayesNet(
        {"x0": 2}, {}, {"x0": [0.25, 0.75]}
    )
    design = {"design_rows": [1], "design_columns": [0], "design_values": [2.0]}
    log_linear = read_json(damaged(model="LogLinear", weights=[0.5], fixed=[0, None], **net, **design))
    assert log_linear.to_factor_graph().log_tables.tolist() == [0.0, -np.inf]
    weights = {"node_weights": [1, 2], "edge_weights": [0, 1, 1, 0], "labels": ["a", "b"]}
    crf = read_json(damaged(model="CRF", **weights))
    assert crf.node_weights.tolist() == [[1.0, 2.0]] and crf.edge_weights.shape == (1, 2, 2)


def damaged(**changes):
    parts = FIRST | changes
    return json.dumps({k: v for k, v in parts.items() if v is not ...}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: expected JSON, got an error in column 1"),
        (b'{\n"a" 1}', "line 2: expected JSON, got an error in column 5"),
        (b"{\n\xff}", "line 2: expected text in UTF-8, got the byte 0xff"),
        (b"[" * 100_000, "expected JSON"),
        (b"[1]", "expected a JSON object, got list"),
        (b"{}", "expected the format 'credo', version 2, got format None, version None"),
        (damaged(version=3), "version 2, got format 'credo', version 3"),
        (
            damaged(model="Tree"),
            "expected the model BayesNet, MarkovNet, FactorGraph, LogLinear or CRF, got 'Tree'",
        ),
        (damaged(variables=7), "expected variables with equally many names and states"),
        (damaged(variables={"names": ["a"], "states": []}), "equally many names and states"),
        (damaged(variables={"names": ["a", "b"], "states": [2, 10**30]}), "expected a name and its states"),
        (damaged(variables={"names": ["a", 1], "states": [2, 3]}), "expected a name and its states"),
        (damaged(variables={"names": ["a", "a"], "states": [2, 3]}), "variable 'a' is declared twice"),
        (damaged(variables={"sizes": [2, 10**12]}), "expected at most 268435456 states"),
        (damaged(variables={"sizes": [2, 0]}), "a domain needs at least one state"),
        (damaged(scope=[0, 7]), "scope: expected positions from 0 to 1"),
        (damaged(scope=[0.5, 1]), "scope: expected a list of integers"),
        (damaged(scope=[10**30, 1]), "scope: expected a list of integers"),
        (damaged(scope=[0, 0], log_tables=[0.0] * 4), "variable 'a' appears twice in the scope"),
        (damaged(scope_start=[0, 1]), "scope_start: expected rising positions from 0 to 2"),
        (damaged(scope_start=[]), "scope_start: expected rising positions"),
        (damaged(log_tables=...), "log_tables: expected a list of numbers"),
        (damaged(log_tables=[1, "2"]), "log_tables: expected a list of numbers"),
        (damaged(log_tables=[1, 2]), "factor tables: expected 6 entries, got 2"),
        (damaged(log_tables=[float("inf")] * 6), "log entries must be numbers below inf"),
        (damaged(table_start=[-1]), "expected 1 table starts from 0, got 1"),
        (damaged(table_start=[1]), "factor tables: expected 7 entries, got 6"),
        (damaged(log_tables={"dtype": "<f8", "base64": "!!"}), "log_tables: expected base64 of <f8 numbers"),
        (damaged(model="BayesNet", tables=[1.0] * 6), "every variable|row must sum|child"),
    ],
)
def test_damaged_files_are_refused(content, message, tmp_path):
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        credo.load(path)


_LEAF = st.one_of(st.none(), st.booleans(), st.integers(-3, 10), st.floats(), st.text(max_size=3))
_VALUE = st.recursive(_LEAF, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
_KEYS = ["model", "variables", "scope_start", "scope", "log_tables", "tables", "table_start"]


@given(
    st.dictionaries(st.sampled_from(_KEYS), _VALUE, max_size=3), st.sampled_from(["BayesNet", "MarkovNet"])
)
def test_any_values_in_the_fields_get_a_sentence(changes, kind):
    try:
        read_json(damaged(**({"model": kind, "tables": [0.5] * 6} | changes)))
    except CredoError:
        pass
