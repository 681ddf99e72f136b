"""GeNIe XDSL: features, axis order, noisy-max, refusals."""

import itertools

import numpy as np
import pytest

from credo import BayesNet
from credo.core.errors import FormatError, UnsupportedError
from credo.io.xdsl import read, write

WEATHER = """<?xml version="1.0" encoding="ISO-8859-1"?>
<smile version="1.0" id="weather" numsamples="1000" discsamples="10000">
  <nodes>
    <cpt id="rain" diagtype="observation">
      <state id="no" /> <state id="yes" fault="true" />
      <probabilities>8e-1 0.2</probabilities>
      <property id="p">text</property>
    </cpt>
    <cpt id="wet">
      <state id="dry" /> <state id="damp" /> <state id="soaked" />
      <parents>rain</parents>
      <probabilities>0.7 0.2 0.1 0.1 0.3 0.6</probabilities>
    </cpt>
    <deterministic id="umbrella">
      <state id="closed" /> <state id="open" />
      <parents>rain wet</parents>
      <resultingstates>closed closed open closed open open</resultingstates>
    </deterministic>
  </nodes>
  <extensions><genie version="1.0" app="GeNIe"><node id="rain"><name>Rain</name></node></genie></extensions>
</smile>
"""


def load(text: str) -> BayesNet:
    return read(text.encode("latin-1"), "x.xdsl")


def test_a_small_network_is_read():
    model = load(WEATHER)
    assert model.variables.names == ("rain", "wet", "umbrella")
    np.testing.assert_array_equal(model.tables["rain"], [0.8, 0.2])
    np.testing.assert_array_equal(model.tables["wet"], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    np.testing.assert_array_equal(model.tables["umbrella"][..., 1], [[0, 0, 1], [0, 1, 1]])
    assert model.tables["umbrella"].sum() == 6


def test_the_first_parent_is_slowest_and_the_child_fastest():
    first = np.arange(1, 25) / 100
    text = "<smile><nodes>"
    for name, size in {"A": 2, "B": 3, "C": 4}.items():
        states = "".join(f'<state id="s{k}"/>' for k in range(size))
        text += f'<cpt id="{name}">{states}<probabilities>{" 0" * (size - 1)} 1</probabilities></cpt>'
    numbers = " ".join(f"{p} {1 - p}" for p in first)
    text += f'<cpt id="X"><state id="u"/><state id="v"/><parents>A B C</parents><probabilities>{numbers}'
    text += "</probabilities></cpt></nodes></smile>"
    np.testing.assert_array_equal(load(text).tables["X"][..., 0], first.reshape(2, 3, 4))


NOISY = """<smile><nodes>
<cpt id="A"><state id="high"/><state id="low"/><state id="none"/><probabilities>.2 .3 .5</probabilities></cpt>
<cpt id="B"><state id="off"/><state id="on"/><probabilities>0.5 0.5</probabilities></cpt>
<noisymax id="X"><state id="severe"/><state id="mild"/><state id="absent"/><parents>A B</parents>
<strengths>0 1 2 1 0</strengths>
<parameters>0.5 0.3 0.2 0.25 0.25 0.5 0 0 1 0.125 0.5 0.375 0 0 1 0.0625 0.0625 0.875</parameters></noisymax>
</nodes></smile>
"""


def test_a_noisy_max_is_the_strongest_of_independent_causes():
    table = load(NOISY).tables["X"]
    cause_a = np.array([[0.5, 0.3, 0.2], [0.25, 0.25, 0.5], [0, 0, 1]])
    cause_b = np.array([[0, 0, 1], [0.125, 0.5, 0.375]])  # strengths 1 0: the first column is for "on"
    leak = np.array([0.0625, 0.0625, 0.875])
    expected = np.zeros((3, 2, 3))
    for a, b in itertools.product(range(3), range(2)):
        for i, j, k in itertools.product(range(3), repeat=3):
            expected[a, b, min(i, j, k)] += cause_a[a, i] * cause_b[b, j] * leak[k]
    np.testing.assert_allclose(table, expected, atol=1e-15)
    without = NOISY.replace("<strengths>0 1 2 1 0</strengths>\n", "")
    np.testing.assert_allclose(load(without).tables["X"], expected[:, ::-1], atol=1e-15)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0 1 2 1 0", "1 2 0 1 0", r"line 5: noisymax 'X': cannot expand the strengths \['1', '2', '0'\]"),
        ("0 1 2 1 0", "0 1 1 1 0", "line 5: noisymax 'X': expected strengths that order 3 states, got"),
        ("0 1 2 1 0", "0 1 2 1 0 1", "line 5: noisymax 'X': expected 5 strengths, got 6"),
        (" 0.0625 0.875", "", "line 6: noisymax 'X': expected 18 parameters, got 16"),
        ("0.5 0.3 0.2", "0.5 0.3 0.3", "line 6: noisymax 'X': expected parameters that are distributions"),
        ("0.5 0.3 0.2", "0.5 x 0.3", "line 6: noisymax 'X': expected a number, got 'x'"),
        (
            "0 0 1 0.125",
            "0 0.5 0.5 0.125",
            "line 6: noisymax 'X': expected all weight of a parent's last column",
        ),
    ],
)
def test_a_noisy_max_that_cannot_be_expanded_is_refused(old, new, message):
    assert old in NOISY
    with pytest.raises(FormatError, match=message):
        load(NOISY.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "<parents>rain</parents>",
            "<parents>snow</parents>",
            "x.xdsl, line 9: parent of 'wet': unknown .*'snow'",
        ),
        ("0.3 0.6", "0.9", r"line 12: table of 'wet': expected 6 entries \(2 rows of 3\), got 5"),
        ("0.3 0.6", "0.3 x", "line 12: table of 'wet': expected a number, got 'x'"),
        ("0.3 0.6", "0.3 0.7", "line 9: table of 'wet': every row must sum to 1, got sums from 1 to 1.1"),
        (
            "<probabilities>8e-1 0.2</probabilities>",
            "",
            "line 4: table of 'rain': expected <probabilities>, got none",
        ),
        (
            "closed closed open",
            "closed open",
            "line 17: table of 'umbrella': expected 6 resulting states, got 5",
        ),
        ("closed closed open", "closed ajar open", "line 17: 'umbrella' has no state 'ajar'; its states are"),
        (
            "deterministic",
            "decision",
            "line 14: variable 'umbrella' is a <decision>; only cpt, deterministic, noisymax",
        ),
        (
            "deterministic",
            "utility",
            "line 14: variable 'umbrella' is a <utility>; only cpt, deterministic, noisymax",
        ),
        ('cpt id="wet"', "cpt", "line 9: <cpt>: expected an id for it and all its states, got none"),
        ('state id="dry"', "state", "line 9: <cpt>: expected an id for it and all its states, got none"),
        ('id="wet"', 'id="rain"', "line 9: variable 'rain' is declared twice, first in line 4"),
        ("<extensions>", "<dynamic/><extensions>", "line 20: this is a dynamic network; unroll it in GeNIe"),
        ("<nodes>", "<node>", "expected XML, got: mismatched tag"),
    ],
)
def test_nonsense_is_refused_with_file_line_and_reason(old, new, message):
    assert old in WEATHER
    text = WEATHER.replace(old, new, 1)
    if old == "deterministic":
        text = text.replace("</deterministic>", f"</{new}>")
    with pytest.raises(FormatError, match=message):
        load(text)


def test_other_xml_is_refused():
    with pytest.raises(FormatError, match="line 1: expected <smile> with <nodes> inside, got <html>"):
        load("<html/>")


def test_a_file_cut_anywhere_is_refused():
    for cut in range(WEATHER.rindex(">")):
        with pytest.raises(FormatError, match=r"x\.xdsl, line"):
            load(WEATHER[:cut])


def test_writing_puts_parents_first_and_reads_back_the_same():
    model = BayesNet.random(
        {"c": 2, "b<": ["x&", '"y"', "ü"], "a": 3}, {"c": ["b<", "a"], "b<": ["a"]}, seed=4
    )
    back = read(write(model).encode(), "x.xdsl")
    assert back.variables.names == ("a", "b<", "c")
    for name, table in model.tables.items():
        np.testing.assert_array_equal(back.tables[name], table)
        assert back.parents[name] == model.parents[name]
        assert (
            back.variables[back.variables.position(name)].states
            == model.variables[model.variables.position(name)].states
        )


@pytest.mark.parametrize("name", ["", "a b", "a\n", "a\x07"])
def test_writing_refuses_names_the_format_cannot_hold(name):
    with pytest.raises(UnsupportedError, match="XDSL files want names without blanks and control characters"):
        write(BayesNet.random({name: 2}))
    with pytest.raises(UnsupportedError, match="of variable 'v': XDSL files want"):
        write(BayesNet.random({"v": [name, "other"]}))
