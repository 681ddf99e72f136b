"""Hugin NET: features, axis order, refusals."""

import numpy as np
import pytest

from credo import BayesNet
from credo.core.errors import FormatError, UnsupportedError
from credo.io.net import read, write

WEATHER = r"""% comment with { and "
net
{
    node_size = (80 40);
    name = "a; {name}";
}
node rain
{
    label = "Rain; % or not }";
    position = (10 20);
    states = ("no \"rain\"" "yes");
}
discrete node wet { states = (dry damp "soaked % {"); HR_Group = "0"; }
potential (rain) { data = (8e-1 0.2); }
potential (wet | rain)
{
    data = (( 0.7 0.2 0.1 )   % rain = no
            ( 0.1 0.3 0.6 )); % rain = yes
}
"""


def load(text: str) -> BayesNet:
    return read(text.encode(), "x.net")


def test_a_small_network_is_read():
    model = load(WEATHER)
    assert model.variables.names == ("rain", "wet")
    assert model.variables[0].states == ('no "rain"', "yes")
    assert model.variables[1].states == ("dry", "damp", "soaked % {")
    np.testing.assert_array_equal(model.tables["rain"], [0.8, 0.2])
    np.testing.assert_array_equal(model.tables["wet"], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


@pytest.mark.parametrize("style", ["nested", "rows", "flat"])
def test_the_first_parent_is_slowest_and_the_child_fastest(style):
    first = np.arange(1, 25).reshape(2, 3, 4) / 100
    text = "net {}"
    for name, size in {"A": 2, "B": 3, "C": 4, "X": 2}.items():
        text += f"node {name} {{ states = ({' '.join(f's{k}' for k in range(size))}); }}"
        if name != "X":
            text += f"potential ({name} | ) {{ data = ({' 0' * (size - 1)} 1); }}"
    pair, outer, level = {"nested": "()", "rows": "()", "flat": "  "}[style], "()", "()"
    if style != "nested":
        level = "  "
    rows = [
        level[0]
        + "".join(
            level[0] + "".join(f"{pair[0]}{p} {1 - p}{pair[1]}" for p in row) + level[1] for row in plane
        )
        + level[1]
        for plane in first
    ]
    text += f"potential (X | A B C) {{ data = {outer[0]}{''.join(rows)}{outer[1]}; }}"
    np.testing.assert_array_equal(load(text).tables["X"][..., 0], first)


def test_a_network_wrapped_in_a_class_is_read():
    inner = WEATHER.split("}\n", 1)[1]
    wrapped = "class Weather\n{ inputs = (); outputs = (rain);\n node_size = (80 40);\n" + inner + "}\n"
    assert load(wrapped) == load(WEATHER)
    with pytest.raises(FormatError, match="the class is not closed; is the file cut off"):
        load(wrapped.rstrip()[:-1])
    with pytest.raises(FormatError, match=r"line 4: 'instance i : Other .*: instances of other classes"):
        load(wrapped.replace("net\n", "", 1).replace(inner, "instance i : Other (a = b);" + inner))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("| rain", "| snow", "x.net, line 15: parent of 'wet': unknown variable 'snow'"),
        ("potential (rain)", "potential (snow)", "line 14: probability of unknown variable 'snow'"),
        (
            "(wet | rain)",
            "(wet rain)",
            r"line 15: potential \(wet rain\): expected one child before the bar, got 2",
        ),
        ("(wet | rain)", "", r"line 15: potential \(\): expected one child before the bar, got 0"),
        ("0.7 0.2 0.1", "0.7 0.3", "line 17: table of 'wet': expected 3 entries in a row, got 2"),
        ("0.7 0.2 0.1", "0.7 x 0.1", "line 17: table of 'wet': expected a number, got 'x'"),
        (
            "0.7 0.2 0.1",
            "0.7 0.2 0.2",
            "line 15: table of 'wet': every row must sum to 1, got sums from 1 to 1.1",
        ),
        ("0.6 )); %", "0.6 ); %", "line 17: table of 'wet': expected matching brackets around numbers, got"),
        ("0.6 )); %", "0.6 )()); %", "line 17: table of 'wet': expected 2 rows, got 3"),
        ("0.6 )); %", "0.6 )(())); %", "line 17: table of 'wet': expected matching brackets around numbers"),
        ("(8e-1 0.2)", "(0.8)", "line 14: table of 'rain': expected 2 entries, got 1"),
        ("(8e-1 0.2)", "0.8 0.2", "line 14: table of 'rain': expected matching brackets around numbers"),
        ("data = (8e-1 0.2);", "", r"line 14: table of 'rain': expected data = \(...\), got none"),
        (
            "data = (8e-1 0.2);",
            "model_data = (Beta(1, 2));",
            "line 14: table of 'rain': .*, got an expression",
        ),
        ("data = (8e-1 0.2);", "data (1 0);", "line 14: table of 'rain': expected 'key = value;', got 'data"),
        ("(8e-1 0.2);", "(1 0); data = (1 0);", "line 14: table of 'rain': data is given twice"),
        ("(8e-1 0.2);", "(8e-1 0.2)", "line 14: table of 'rain': expected ';' after 'data = "),
        ('states = ("no', 'names = ("no', r"line 7: node 'rain': expected states = \(...\), got none"),
        ('(dry damp "soaked % {")', "dry", "line 13: node 'wet': expected states in brackets, got 'dry'"),
        (
            "discrete node",
            "continuous node",
            "line 13: 'wet' is a continuous node; only discrete chance nodes",
        ),
        ("discrete node", "decision", "line 13: 'wet' is a decision node; only discrete chance nodes"),
        ("discrete node", "utility", "line 13: 'wet' is a utility node; only discrete chance nodes"),
        (
            "discrete node",
            "strange node",
            "line 13: expected a net, node or potential block, got 'strange node",
        ),
        (
            "discrete node wet",
            "node wet (a)",
            "line 13: expected a net, node or potential block, got 'node wet",
        ),
        ("node wet", "node rain", "line 13: variable 'rain' is declared twice, first in line 7"),
        ("dry damp", "dry dry", "line 13: variable 'wet': state 'dry' appears twice"),
        ("potential (rain) { data = (8e-1 0.2); }", "", "line 7: variable 'rain' has no table"),
        (
            "potential (rain) {",
            "a = 3; potential (rain) {",
            "line 14: expected a net, node or potential block",
        ),
        ("potential (rain)", '" potential (rain)', "line 14: expected a closing quote"),
    ],
)
def test_nonsense_is_refused_with_file_line_and_reason(old, new, message):
    assert old in WEATHER
    with pytest.raises(FormatError, match=message):
        load(WEATHER.replace(old, new, 1))


def test_a_file_cut_anywhere_is_refused():
    for cut in range(WEATHER.rindex("}")):
        with pytest.raises(FormatError, match=r"x\.net, line"):
            load(WEATHER[:cut])
    for cut, block in (
        ("0.3 0.6", "potential "),
        ("(wet | rain)", "potential"),
        ("{ states = (dry", "discrete node"),
    ):
        with pytest.raises(FormatError, match=f"block '{block}.* is not closed; is the file cut off"):
            load(WEATHER[: WEATHER.index(cut)])


def test_writing_quotes_states_and_reads_back_the_same():
    labels = ['"q"', "a\\b", "% {", "", "x y", "7"]
    model = BayesNet.random({"a_1": labels, "B": 3, "c": 2}, {"c": ["a_1", "B"], "B": ["a_1"]}, seed=3)
    back = load(write(model))
    assert back.variables[0] == model.variables[0]
    np.testing.assert_array_equal(back.flat_tables, model.flat_tables)


def test_writing_refuses_what_the_format_cannot_hold():
    with pytest.raises(UnsupportedError, match="variable 'a-b': NET files want variable names of letters"):
        write(BayesNet.random({"a-b": 2}))
    with pytest.raises(UnsupportedError, match=r"state 'x\\n' of variable 'a': NET files want"):
        write(BayesNet.random({"a": ["x\n", "y"]}))
