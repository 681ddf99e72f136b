"""Marginals with the names of their states."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.belief import PointMass
from credo.core.display import LIMIT
from credo.core.errors import QueryError
from credo.core.marginals import Marginal, Marginals
from credo.core.variable import Variable, Variables
from markup import cells, read

CVP = Variable("CVP", ["LOW", "NORMAL", "HIGH"])
LABELS = st.lists(st.text("abcxyz<&\"' ", min_size=1, max_size=6), min_size=1, max_size=12, unique=True)


def marginal() -> Marginal:
    return Marginal(CVP, [0.05121, 0.87312, 0.07567])


@given(LABELS, st.data())
def test_labels_lead_to_the_numbers_of_the_array(labels, data):
    values = data.draw(st.lists(st.floats(0, 1), min_size=len(labels), max_size=len(labels)))
    found = Marginals(Variables.of({"v": labels, "w": 2}), np.array([*values, 0.5, 0.5]))["v"]
    assert found.name == "v" and found.states == tuple(labels)
    assert found.tolist() == values == [found[label] for label in labels] == [float(p) for p in found]
    assert found.to_dict() == dict(zip(labels, values, strict=True))
    shown = cells(found._repr_html_())
    assert all(any(text == label or text.startswith(f"{label}: ") for text in shown) for label in labels)


def test_a_short_marginal_is_one_line_and_a_long_one_a_table():
    assert repr(marginal()) == str(marginal()) == "CVP   LOW: 0.0512   NORMAL: 0.8731   HIGH: 0.0757"
    assert f"{marginal().round(2)}" == "CVP   LOW: 0.05   NORMAL: 0.87   HIGH: 0.08"
    assert repr(np.round(marginal(), 6)) == "CVP   LOW: 0.05121   NORMAL: 0.87312   HIGH: 0.07567"
    long = repr(Marginal(Variable("pixel", 256), np.full(256, 1 / 256))).splitlines()
    assert long[:2] == ["pixel  probability", "0           0.0039"]
    assert long[-1] == f"... and {256 - LIMIT} more rows" and len(long) == LIMIT + 2


def test_true_and_false_find_a_state_as_they_do_in_evidence():
    rain = Marginal(Variable("rain", ["yes", "no"]), [0.2, 0.8])
    assert rain[True] == rain["yes"] == 0.2 and rain[np.bool_(False)] == 0.8
    assert type(rain["yes"]) is float


def test_a_wrong_label_is_answered_with_the_near_ones():
    known = "its states are ['LOW', 'NORMAL', 'HIGH']"
    message = f"variable 'CVP' has no state 'norml'; {known}; did you mean 'NORMAL'?"
    with pytest.raises(QueryError, match=re.escape(message)):
        marginal()["norml"]
    with pytest.raises(QueryError, match=re.escape(known) + "$"):
        marginal()["zzz"]


@pytest.mark.parametrize(
    "compute",
    [
        lambda m: m * 2,
        lambda m: 1 - m,
        np.log,
        lambda m: m[::-1],
        lambda m: m[[0, 2]],
        lambda m: m > 0.1,
        np.cumsum,
        lambda m: m.astype(np.float32),
        lambda m: m.copy(),
        lambda m: m[:, None],
        np.sort,
        lambda m: np.roll(m, 1),
        lambda m: np.stack([m, m]),
        lambda m: m.reshape(3, 1),
        np.zeros_like,
    ],
)
def test_what_is_computed_has_no_labels_and_the_numbers_of_a_plain_array(compute):
    found, plain = compute(marginal()), compute(np.asarray(marginal()))
    np.testing.assert_array_equal(found, plain)
    assert repr(found) == repr(plain) and str(found) == str(plain)
    assert not hasattr(found, "states") and not hasattr(found, "name")


def test_an_array_computed_from_a_marginal_says_that_it_has_no_labels():
    message = "this array was computed from a marginal and has no labels; ask the marginal itself"
    with pytest.raises(AttributeError, match=message):
        _ = marginal().copy().variable


def test_numbers_read_off_a_marginal_are_numbers():
    m = marginal()
    assert isinstance(m[1], np.float64) and isinstance(m.sum(), np.float64) and m.argmax() == 1
    assert m.sum() == pytest.approx(1) and float(m.max()) == 0.87312
    changed = m.copy()
    changed /= 2
    assert changed.tolist() == (np.asarray(m) / 2).tolist()


def test_a_marginal_survives_pickling():
    again = pickle.loads(pickle.dumps(marginal().round(2)))
    assert repr(again) == repr(marginal().round(2)) and again.tolist() == marginal().round(2).tolist()
    plain = pickle.loads(pickle.dumps(marginal().copy()))
    assert plain.tolist() == marginal().tolist() and not hasattr(plain, "name")


def test_frames_hold_the_numbers_of_the_arrays():
    pytest.importorskip("pandas")
    found = credo.infer(credo.datasets.sprinkler(), evidence={"wet": "yes"}).marginals
    frame = found.to_frame()
    assert list(frame.columns) == ["variable", "state", "probability"]
    np.testing.assert_array_equal(frame["probability"], found.flat)
    for name, rows in frame.groupby("variable"):
        assert dict(zip(rows["state"], rows["probability"], strict=True)) == found[name].to_dict()
    one = found["rain"].to_frame()
    assert list(one.columns) == ["rain", "probability"] and one["rain"].tolist() == ["no", "yes"]
    np.testing.assert_array_equal(one["probability"], found["rain"])


def mixed() -> Marginals:
    variables = Variables.of({"s": ["off", "on"], "x": credo.Real(), "t": credo.Simplex(2)})
    densities = {"x": PointMass(2.5), "t": PointMass(np.array([0.25, 0.75]))}
    return Marginals(variables, np.array([0.125, 0.875]), densities)


def test_continuous_variables_show_mean_and_sd():
    assert repr(mixed()).splitlines() == [
        "s   off: 0.125          on: 0.875",
        "x   mean: 2.5           sd: 0",
        "t   mean: [0.25 0.75]   sd: [0. 0.]",
    ]
    pytest.importorskip("pandas")
    frame = mixed().to_frame()
    assert frame["mean"].iloc[2] == 2.5 and frame["sd"].iloc[2] == 0 and frame["state"].iloc[1] == "on"
    assert frame["probability"].isna().tolist() == [False, False, True, True]


def test_marginals_are_lines_with_equal_decimals_and_bars_in_notebooks():
    found = Marginals(Variables.of({"a": ["p", "q"], "long": 3}), np.array([0.25, 0.75, 1 / 3, 1 / 3, 1 / 3]))
    assert repr(found).splitlines() == [
        "a      p: 0.2500   q: 0.7500",
        "long   0: 0.3333   1: 0.3333   2: 0.3333",
    ]
    bars = {text: style for _, style, text in read(found._repr_html_())}
    assert "25.0%" in bars["p: 0.2500"] and "75.0%" in bars["q: 0.7500"]
    assert found._ipython_key_completions_() == ["a", "long"]


def test_many_variables_and_many_states_are_cut():
    many = Marginals(Variables.numbered(np.full(10**6, 2)), np.full(2 * 10**6, 0.5))
    lines = repr(many).splitlines()
    assert len(lines) == LIMIT + 1 and lines[-1] == f"... and {10**6 - LIMIT} more variables"
    assert len(cells(many._repr_html_())) == 3 * LIMIT
    wide = repr(Marginals(Variables.numbered([500]), np.full(500, 0.002)))
    assert wide.endswith("...") and len(wide) < 120
    assert repr(Marginals(Variables.numbered([]), np.empty(0))) == "Marginals(0 variables)"
