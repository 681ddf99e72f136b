"""Variables, domains and ordered sets of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from credo.core.domain import Discrete
from credo.core.errors import EvidenceError, ModelError, QueryError
from credo.core.variable import Variable, Variables


def test_a_count_gives_numbered_states():
    v = Variable("x", 3)
    assert (v.size, v.states, v.label(2)) == (3, ("0", "1", "2"), "2")
    assert repr(v) == "Variable('x', 3)"


def test_labels_are_kept_in_order():
    v = Variable("rain", ["no", "yes"])
    assert v.states == ("no", "yes")
    assert repr(v) == "Variable('rain', ['no', 'yes'])"


def test_a_variable_has_two_states_unless_told_otherwise():
    assert Variable("x").size == 2


def test_a_domain_can_be_shared():
    d = Discrete.of(["a", "b"])
    assert Variable("x", d).domain is d


def test_labels_become_text():
    assert Variable("x", [1, 2.5, None]).states == ("1", "2.5", "None")


@pytest.mark.parametrize(
    ("states", "state", "index"),
    [
        (["lo", "hi"], "hi", 1),
        (["lo", "hi"], 1, 1),
        (["lo", "hi"], np.int8(1), 1),
        (["lo", "hi"], 1.0, 1),
        (["lo", "hi"], np.float32(0), 0),
        (3, "2", 2),
        (["no", "yes"], True, 1),
        (["yes", "no"], True, 0),
        (["yes", "no"], False, 1),
        (["True", "False"], True, 0),
        (["lo", "hi"], True, 1),
        (["lo", "hi"], np.bool_(False), 0),
        (2, True, 1),
        (["1", "0"], "0", 1),
        (["1", "0"], 0, 0),
        (["a", None], None, 1),
    ],
)
def test_a_state_is_found_by_label_or_index(states, state, index):
    assert Variable("x", states).index(state) == index


@pytest.mark.parametrize(
    ("states", "state", "message"),
    [
        (["lo", "hi"], "mid", "variable 'x' has no state 'mid'; its states are ['lo', 'hi']"),
        (["lo", "hi"], 2, "variable 'x' has no state '2'; its states are ['lo', 'hi']"),
        (["lo", "hi"], -1, "variable 'x' has no state '-1'"),
        (["lo", "hi"], 0.5, "variable 'x' has no state '0.5'"),
        (["lo", "hi"], float("inf"), "variable 'x' has no state 'inf'"),
        (1, True, "variable 'x' has no state '1'"),
        (20, 20, "'11', ...] (20 in all)"),
    ],
)
def test_an_unknown_state_lists_the_known_ones(states, state, message):
    with pytest.raises(EvidenceError, match=re.escape(message)):
        Variable("x", states).index(state)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (0, "variable 'x': a domain needs at least one state, got 0"),
        (-3, "variable 'x': a domain needs at least one state, got -3"),
        ([], "variable 'x': a domain needs at least one state, got an empty list"),
        ("ab", "variable 'x': states: expected a count or a list of labels, got 'ab'"),
        (2.5, "variable 'x': states: expected a count or a list of labels, got 2.5"),
        (True, "variable 'x': states: expected a count or a list of labels, got True"),
        (["a", "a"], "variable 'x': state labels must differ, got ['a', 'a']"),
        ([1, "1"], "variable 'x': state labels must differ, got ['1', '1']"),
    ],
)
def test_a_bad_domain_is_refused(states, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        Variable("x", states)


def test_variables_are_equal_when_name_and_domain_are():
    assert Variable("x", 2) == Variable("x", 2)
    assert hash(Variable("x", 2)) == hash(Variable("x", 2))
    assert Variable("x", 2) != Variable("y", 2)
    assert Variable("x", 2) != Variable("x", 3)
    assert Variable("x", 2) != "x"


@pytest.mark.parametrize(
    "given",
    [
        {"a": 2, "b": ["lo", "hi"]},
        [Variable("a", 2), Variable("b", ["lo", "hi"])],
        (v for v in (Variable("a", 2), Variable("b", ["lo", "hi"]))),
    ],
    ids=["mapping", "list", "generator"],
)
def test_an_ordered_set_can_be_made_in_several_ways(given):
    variables = Variables.of(given)
    assert list(variables.names) == ["a", "b"]
    assert variables.sizes.tolist() == [2, 2]
    assert variables.state_start.tolist() == [0, 2, 4]
    assert variables.position("b") == variables.position(Variable("b", 2)) == 1
    assert variables[1] == Variable("b", ["lo", "hi"])
    assert variables[0:2] == (variables[0], variables[1])
    assert Variables.of(variables) is variables


def test_numbered_variables_behave_like_written_out_ones():
    numbered = Variables.numbered([2, 3, 4])
    written = Variables.of({"x0": 2, "x1": 3, "x2": 4})
    assert numbered == written
    assert numbered.positions(["x2", "x0"]).tolist() == [2, 0]
    assert numbered.names[-1] == "x2" and numbered.names[:2] == ("x0", "x1")
    assert "x1" in numbered and "x3" not in numbered and "x01" not in numbered
    assert Variable("x1", 3) in numbered and Variable("x1", 2) not in numbered
    assert Variables.of(np.array([2, 3, 4])) == numbered


def test_a_million_numbered_variables_hold_no_objects():
    many = Variables.numbered(np.full(10**6, 2), prefix="pixel")
    assert len(many) == 10**6
    assert many.position("pixel999999") == 999999
    assert "_position" not in vars(many)


@pytest.mark.parametrize("name", ["x3", "x01", "x-1", "x", "y0", "x1.0", 0, None, ("x0",)])
def test_an_unknown_variable_is_refused(name):
    with pytest.raises(QueryError, match="no variable named"):
        Variables.numbered([2, 2, 2]).position(name)


def test_a_misspelt_variable_gets_a_hint():
    variables = Variables.of({"alarm": 2, "burglary": 2})
    with pytest.raises(QueryError, match=re.escape("no variable named 'alarn'; did you mean 'alarm'?")):
        variables.position("alarn")
    with pytest.raises(
        QueryError, match=re.escape("no variable named 'zz'; there are ['alarm', 'burglary']")
    ):
        variables.position("zz")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Variables.of(["a"]), "expected a Variable, got 'a'; make it with Variable(name, states)"),
        (lambda: Variables.of([Variable("a"), Variable("a", 3)]), "variable 'a' is declared twice"),
        (lambda: Variables.numbered([[2, 2]]), "sizes: expected one number per variable, got shape (1, 2)"),
        (lambda: Variables.numbered([2, 0]), "variable 'x1': a domain needs at least one state, got 0"),
    ],
)
def test_bad_sets_are_refused(make, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        make()


def test_restricted_variables_keep_the_labels_of_the_kept_states():
    variables = Variables.of({"a": ["p", "q", "r"], "b": 2})
    keep = np.array([True, False, True, True, True])
    small = variables.restrict(keep, np.array([2, 2]))
    assert small[0] == Variable("a", ["p", "r"])
    assert small[1] == variables[1]
    assert repr(small) == "Variables(['a', 'b'])"


def test_sets_differ_when_a_domain_does():
    assert Variables.of({"a": 2}) != Variables.of({"a": 3})
    assert Variables.of({"a": 2}) != Variables.of({"a": ["x", "y"]})
    assert Variables.of({"a": 2}) != ["a"]
