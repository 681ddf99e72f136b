"""Tables of probabilities with names."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.errors import QueryError
from credo.core.joint import Joint
from credo.core.variable import Variable
from markup import cells

A, B = Variable("a", ["p", "q"]), Variable("b", 3)
TABLE = np.arange(6.0).reshape(2, 3) / 15


def test_a_joint_is_read_by_labels_indices_or_a_mapping():
    joint = Joint((A, B), TABLE)
    assert joint["q", 2] == joint[{"a": "q", "b": "2"}] == pytest.approx(5 / 15)
    assert joint.names == ("a", "b")


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ("q", "joint over ['a', 'b']: expected 2 states, got ('q',)"),
        ({"b": 0}, "joint over ['a', 'b']: expected a state of each, got none of ['a']"),
        (("r", 0), "variable 'a' has no state 'r'; its states are ['p', 'q']"),
    ],
)
def test_a_wrong_joint_state_is_answered_with_a_sentence(states, message):
    with pytest.raises(QueryError, match=re.escape(message)):
        Joint((A, B), TABLE)[states]


def test_a_joint_is_a_grid_with_names():
    assert repr(Joint((A, B), TABLE)).splitlines() == [
        "p(a, b)",
        "a     b=0     b=1     b=2",
        "p  0.0000  0.0667  0.1333",
        "q  0.2000  0.2667  0.3333",
    ]
    assert repr(Joint((A,), np.array([0.25, 0.75]))).splitlines() == [
        "p(a)",
        "a  probability",
        "p         0.25",
        "q         0.75",
    ]


def test_a_conditional_has_a_row_per_condition():
    conditional = Joint((A, B), np.array([[0.5, 0.25, 0.0], [0.5, 0.75, 1.0]]), given=1)
    assert repr(conditional).splitlines() == [
        "p(a | b)",
        "b   a=p   a=q",
        "0  0.50  0.50",
        "1  0.25  0.75",
        "2  0.00  1.00",
    ]
    assert cells(conditional._repr_html_())[:6] == ["b", "a=p", "a=q", "0", "0.50", "0.50"]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_the_frame_of_a_joint_holds_every_entry_under_its_labels(sizes, data):
    pytest.importorskip("pandas")
    given_axes = data.draw(st.integers(0, len(sizes) - 1))
    variables = tuple(Variable(f"v{k}", [f"s{k}{i}" for i in range(size)]) for k, size in enumerate(sizes))
    joint = Joint(variables, np.random.default_rng(0).random(sizes), given_axes)
    frame = joint.to_frame()
    assert len(frame) == joint.table.size and set(frame.columns) == {*joint.names, "probability"}
    for row in frame.to_dict("records"):
        probability = row.pop("probability")
        assert joint[row] == probability


def test_a_network_is_made_again_from_the_frames_of_its_tables():
    pytest.importorskip("pandas")
    net = credo.datasets.asia()
    assert credo.BayesNet.from_pandas({name: net.cpt(name).to_frame() for name in net.states}) == net
