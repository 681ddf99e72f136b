"""XMLBIF: features, axis order, refusals."""

import numpy as np
import pytest

from credo import BayesNet
from credo.core.errors import FormatError, UnsupportedError
from credo.io.xmlbif import read, write

WEATHER = """<?xml version="1.0" encoding="US-ASCII"?>
<!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> <!ATTLIST BIF VERSION CDATA #REQUIRED> ]>
<BIF VERSION="0.3">
<NETWORK>
<NAME>weather</NAME>
<PROPERTY>author = somebody</PROPERTY>
<VARIABLE TYPE="nature"><NAME> rain &amp; fog </NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature">
  <NAME>wet</NAME> <OUTCOME>dry</OUTCOME> <OUTCOME>&lt; 3 mm</OUTCOME> <OUTCOME>soaked</OUTCOME>
  <PROPERTY>position = (1, 2)</PROPERTY>
</VARIABLE>
<DEFINITION><FOR>rain &amp; fog</FOR><TABLE>8e-1<!-- a comment -->0.2</TABLE></DEFINITION>
<DEFINITION>
  <FOR>wet</FOR>
  <GIVEN>rain &amp; fog</GIVEN>
  <TABLE>0.7 0.2 0.1 <!-- no -->
         0.1 0.3 0.6 <!-- yes --></TABLE>
</DEFINITION>
</NETWORK>
</BIF>
"""


def load(text: str) -> BayesNet:
    return read(text.encode(), "x.xml")


def test_a_small_network_is_read():
    model = load(WEATHER)
    assert model.variables.names == ("rain & fog", "wet")
    assert model.variables[1].states == ("dry", "< 3 mm", "soaked")
    np.testing.assert_array_equal(model.tables["rain & fog"], [0.8, 0.2])
    np.testing.assert_array_equal(model.tables["wet"], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


def test_the_first_given_is_slowest_and_the_child_fastest():
    first = np.arange(1, 25) / 100
    sizes = {"A": 2, "B": 3, "C": 4, "X": 2}
    text = "<BIF><NETWORK>"
    for name, size in sizes.items():
        outcomes = "".join(f"<OUTCOME>s{k}</OUTCOME>" for k in range(size))
        text += f"<VARIABLE><NAME>{name}</NAME>{outcomes}</VARIABLE>"
        if name != "X":
            text += f"<DEFINITION><FOR>{name}</FOR><TABLE>{' 0' * (size - 1)} 1</TABLE></DEFINITION>"
    numbers = " ".join(f"{p} {1 - p}" for p in first)
    given = "<GIVEN>A</GIVEN><GIVEN>B</GIVEN><GIVEN>C</GIVEN>"
    text += f"<DEFINITION><FOR>X</FOR>{given}<TABLE>{numbers}</TABLE></DEFINITION></NETWORK></BIF>"
    np.testing.assert_array_equal(load(text).tables["X"][..., 0], first.reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<GIVEN>rain", "<GIVEN>snow", "x.xml, line 13: parent of 'wet': unknown variable 'snow & fog'"),
        ("<FOR>wet", "<FOR>dew", "line 13: probability of unknown variable 'dew'"),
        ("0.3 0.6", "0.9", r"line 16: table of 'wet': expected 6 entries \(2 rows of 3\), got 5"),
        ("0.3 0.6", "x 0.6", "line 16: table of 'wet': expected a number, got 'x'"),
        ("0.3 0.6", "0.3 0.7", "line 13: table of 'wet': every row must sum to 1, got sums from 1 to 1.1"),
        ("0.3 0.6", "<B>1</B>", "line 17: table of 'wet': expected numbers, got <B>"),
        ("<TABLE>8e-1<!-- a comment -->0.2</TABLE>", "", "line 12: definition of .*: expected a <TABLE>"),
        ("<FOR>wet</FOR>", "", "line 13: <DEFINITION>: expected one <FOR>, got 0"),
        ("<FOR>wet</FOR>", "<FOR>wet</FOR><FOR>x</FOR>", "line 13: <DEFINITION>: expected one <FOR>, got 2"),
        ("<NAME>wet</NAME>", "", "line 8: <VARIABLE>: expected one <NAME>, got 0"),
        (
            "<NAME>wet",
            "<NAME>rain &amp; fog",
            "line 8: variable 'rain & fog' is declared twice, first in line 7",
        ),
        (
            'TYPE="nature"',
            'TYPE="decision"',
            "line 7: variable 'rain & fog' is of type decision; only nature",
        ),
        ("<OUTCOME>soaked", "<OUTCOME>dry", "line 8: variable 'wet': state 'dry' appears twice"),
        ("</BIF>", "", "line 21: expected XML, got: no element found"),
        ("</NETWORK>", "</NET>", "line 19: expected XML, got: mismatched tag"),
        ("US-ASCII", "nonsense", "line 1: expected XML, got: unknown encoding"),
        (
            "<!ELEMENT BIF ( NETWORK )*>",
            '<!ENTITY a "aa">',
            "line 2: expected no entities of its own, got 'a'",
        ),
        ("[ <!ELEM", 'SYSTEM "b.dtd" [ <!ELEM', None),
    ],
)
def test_nonsense_is_refused_with_file_line_and_reason(old, new, message):
    assert old in WEATHER
    text = WEATHER.replace(old, new, 1)
    if message is None:
        text, message = (
            text.replace("&lt;", "&unknown;"),
            "line 9: expected no entities of its own, got 'unknown'",
        )
    with pytest.raises(FormatError, match=message):
        load(text)


def test_other_xml_is_refused():
    with pytest.raises(FormatError, match="line 1: expected <BIF> with a <NETWORK> inside, got <html>"):
        load("<html></html>")
    with pytest.raises(FormatError, match="line 1: expected <BIF> with a <NETWORK> inside, got <BIF>"):
        load("<BIF></BIF>")
    with pytest.raises(FormatError, match="line 1: expected at least one variable"):
        load("<BIF><NETWORK/></BIF>")


def test_a_file_cut_anywhere_is_refused():
    for cut in range(WEATHER.rindex(">")):
        with pytest.raises(FormatError, match=r"x\.xml, line"):
            load(WEATHER[:cut])


def test_writing_escapes_and_reads_back_the_same():
    model = BayesNet.random({"a&b <c>": ['"q"', "ü x", "'"], "d": 2}, {"d": ["a&b <c>"]}, seed=2)
    back = load(write(model))
    assert back.variables[0] == model.variables[0]
    np.testing.assert_array_equal(back.flat_tables, model.flat_tables)


@pytest.mark.parametrize("name", ["", " a", "a\n", "a\x07", "\ud800"])
def test_writing_refuses_names_xml_cannot_hold(name):
    with pytest.raises(UnsupportedError, match="XMLBIF files want names without control characters"):
        write(BayesNet.random({name: 2}))
    with pytest.raises(UnsupportedError, match="of variable 'v': XMLBIF files want"):
        write(BayesNet.random({"v": [name, "other"]}))
