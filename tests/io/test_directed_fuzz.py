"""Formats for Bayesian networks on generated input: round trips, and damage that must stay polite."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credo import BayesNet
from credo.core.errors import CredoError
from credo.io import bif, net, xdsl, xmlbif

FORMATS = [bif, net, xdsl, xmlbif]
IDS = ["bif", "net", "xdsl", "xmlbif"]

word = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
label = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters='"'), min_size=1
)


@st.composite
def networks(draw) -> BayesNet:
    names = draw(st.lists(word, min_size=1, max_size=5, unique=True))
    states = {n: draw(st.lists(label, min_size=1, max_size=4, unique=True)) for n in names}
    parents = {
        n: draw(st.lists(st.sampled_from(names[:i]), max_size=3, unique=True)) if i else []
        for i, n in enumerate(names)
    }
    seed = draw(st.integers(0, 2**31))
    return BayesNet.random(
        states, parents, seed=seed, concentration=draw(st.sampled_from([0.01, 1.0, 100.0]))
    )


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
@given(model=networks())
@settings(max_examples=60, deadline=None)
def test_writing_and_reading_gives_the_same_network_to_the_last_bit(form, model):
    back = form.read(form.write(model).encode("utf-8"), "x")
    assert back.variables == model.variables
    assert dict(back.parents) == dict(model.parents)
    np.testing.assert_array_equal(back.flat_tables, model.flat_tables)


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
def test_one_format_can_be_turned_into_another(form):
    model = BayesNet.random({"a": 2, "b": 3, "c": 4}, {"c": ["b", "a"]}, seed=5)
    for other in FORMATS:
        back = other.read(other.write(form.read(form.write(model).encode(), "x")).encode(), "y")
        np.testing.assert_array_equal(back.tables["c"], model.tables["c"])


def _sample(form) -> bytes:
    states = {"a": ["no", "yes"], "b": ["x y", "z", "w"], "c": 2}
    if form is xdsl:
        states["b"] = ["x_y", "z", "w"]
    return form.write(BayesNet.random(states, {"b": ["a"], "c": ["a", "b"]}, seed=6)).encode()


def _try(form, content: bytes) -> None:
    try:
        model = form.read(content, "damaged")
    except CredoError as error:
        assert "damaged, line " in str(error)
    else:
        assert np.isfinite(model.flat_tables).all()


SYMBOLS = '{ } ( ) ; , | " // /* */ % = [ ] < > & <!-- --> \\ \x00 \x01 \x010'.split(" ")
WORDS = "nan inf 1e999 -1 0x1 1_0 table default property type node states data potential network".split()
BLOCKS = ["variable", "probability", "class x {", "<cpt>", "</cpt>", "9" * 5000, " ", "\n"]
PIECES = st.sampled_from([*(piece.encode() for piece in SYMBOLS + WORDS + BLOCKS), b"\xff", b"\xc3"])


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
@given(data=st.data())
@settings(max_examples=250, deadline=None)
def test_damaged_files_only_ever_raise_errors_of_our_own(form, data):
    content = _sample(form)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.sampled_from([0, 0, 1, 2, 5, 30]))
        content = content[:start] + data.draw(PIECES | st.just(b"")) + content[start + length :]
    _try(form, content)


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(lambda s: s.encode("utf-8", "replace")))
@settings(max_examples=150, deadline=None)
def test_garbage_only_ever_raises_errors_of_our_own(form, content):
    _try(form, content)


@pytest.mark.parametrize("form", FORMATS, ids=IDS)
def test_cut_files_are_never_taken_for_whole_ones(form):
    content = _sample(form).rstrip()
    for cut in range(len(content)):
        with pytest.raises(CredoError, match="damaged, line "):
            form.read(content[:cut], "damaged")
