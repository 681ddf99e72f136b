"""BIF: every feature of the format, axis order, refusals, and the well-known networks."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from credo import BayesNet
from credo.core.errors import FormatError, UnsupportedError
from credo.io.bif import read, write

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "bif"
FILES = sorted(SHARED.glob("*.bif.gz"))

WEATHER = """network weather { property author somebody; }
variable rain { type discrete [ 2 ] { no, yes }; property position = (1, 2); }
variable wet { type discrete [ 3 ] { dry, damp, soaked }; }
probability ( rain ) { table 0.8, 0.2; }
probability ( wet | rain ) {
  (yes) 0.1, 0.3, 0.6;
  (no) 0.7, 0.2, 0.1;
}
"""


def load(text: str) -> BayesNet:
    return read(text.encode(), "x.bif")


def refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load(text)


def test_a_small_network_is_read_with_names_states_and_rows_in_any_order():
    model = load(WEATHER)
    assert model.variables.names == ("rain", "wet")
    assert model.variables[1].states == ("dry", "damp", "soaked")
    assert model.parents["wet"] == ("rain",)
    np.testing.assert_array_equal(model.tables["rain"], [0.8, 0.2])
    np.testing.assert_array_equal(model.tables["wet"], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


def test_axes_are_parents_in_order_then_child_for_three_parents_of_different_sizes():
    sizes = {"A": 2, "B": 3, "C": 4}
    first = np.arange(1, 25).reshape(2, 3, 4) / 100
    rows = "".join(
        f"(a{i}, b{j}, c{k}) {first[i, j, k]}, {1 - first[i, j, k]};\n"
        for k in range(4)
        for i in (1, 0)
        for j in range(3)
    )
    text = "".join(
        f"variable {n} {{ type discrete [ {s} ] {{ {', '.join(f'{n.lower()}{i}' for i in range(s))} }}; }}"
        f"probability ( {n} ) {{ table {', '.join([str(1 / s)] * s)}; }}"
        for n, s in sizes.items()
    )
    text += "variable X { type discrete [ 2 ] { x, y }; } probability ( X | A, B, C ) {" + rows + "}"
    table = load(text).tables["X"]
    assert table.shape == (2, 3, 4, 2)
    np.testing.assert_array_equal(table[..., 0], first)


def test_a_table_with_parents_runs_over_the_last_parent_fastest_and_the_child_slowest():
    text = WEATHER[: WEATHER.index("probability ( wet")]
    table = load(text + "probability ( wet | rain ) { table 0.7, 0.1, 0.2, 0.3, 0.1, 0.6; }").tables["wet"]
    np.testing.assert_array_equal(table, [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


def test_default_fills_the_rows_that_are_not_listed():
    text = WEATHER.replace("(no) 0.7, 0.2, 0.1;", "default 0.5, 0.25, 0.25;")
    np.testing.assert_array_equal(load(text).tables["wet"], [[0.5, 0.25, 0.25], [0.1, 0.3, 0.6]])


def test_blocks_may_come_in_any_order():
    blocks = WEATHER.split("\n", 1)[1]
    at = blocks.index("probability ( rain")
    assert load(blocks[at:] + blocks[:at]) == load(WEATHER)


def test_comments_quotes_addresses_and_missing_commas_are_understood():
    text = """// a comment with variable { in it
network "my \\ net; {" { property url = http://example.org/x ; /* more
  { lines */ property "quoted; {text}" ; }
variable "light on" { type discrete[2] { "very low" "x//y" }; }
variable "b-1" { // comment
  type discrete [ 3 ] { <3, 3-4, >=5 }; }
probability ( "b-1" ) { table 0.25 0.25 5e-1 ; }
probability ( "light on" "b-1" ) { (<3) .1 .9; ("3-4") 1 0; (>=5) 1E-3, 0.999; }
"""
    model = load(text)
    assert model.variables.names == ("light on", "b-1")
    assert model.variables[0].states == ("very low", "x//y")
    assert model.variables[1].states == ("<3", "3-4", ">=5")
    np.testing.assert_array_equal(model.tables["light on"], [[0.1, 0.9], [1, 0], [0.001, 0.999]])


def test_labels_with_blanks_need_no_quotes_where_the_count_is_clear():
    text = WEATHER.replace("{ no, yes }", "{ not now, yes }").replace("(no)", "(not now)")
    model = load(text)
    assert model.variables[0].states == ("not now", "yes")
    np.testing.assert_array_equal(model.tables["wet"][0], [0.7, 0.2, 0.1])


def test_words_next_to_a_quoted_name_are_no_part_of_it():
    refused(
        WEATHER.replace("{ no, yes }", '{ "n o"x, yes }'), "line 2: variable 'rain': expected 2 states, got 3"
    )
    quoted = WEATHER.replace("{ no, yes }", '{ "n o", yes }')
    assert load(quoted.replace("(no)", '("n o")')).variables[0].states == ("n o", "yes")
    refused(
        quoted.replace("(no)", '("n o"x)'), "line 7: table of 'wet': expected 1 states in brackets, got 2"
    )


def test_text_may_be_latin_1_and_have_a_byte_order_mark_or_windows_line_ends():
    text = WEATHER.replace("damp", "feucht_ä").replace("\n", "\r\n")
    for content in (text.encode("latin-1"), text.encode("utf-8"), text.encode("utf-8-sig")):
        assert read(content, "x.bif").variables[1].states[1] == "feucht_ä"


def test_every_digit_of_a_number_counts():
    tiny = "1.2345678901234567e-17"
    text = f"variable a {{ type discrete [2] {{ u, v }}; }} probability ( a ) {{ table {tiny}, 1.0; }}"
    assert load(text).tables["a"][0] == float(tiny)


def test_rows_that_miss_one_by_rounding_are_divided_by_their_sum_and_others_kept():
    text = WEATHER.replace("0.7, 0.2, 0.1", "0.333, 0.333, 0.333")
    table = load(text).tables["wet"]
    np.testing.assert_allclose(table[0], [1 / 3] * 3, rtol=1e-15)
    np.testing.assert_array_equal(table[1], [0.1, 0.3, 0.6])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("| rain", "| snow", r"x.bif, line 5: parent of 'wet': unknown variable 'snow'"),
        ("( rain )", "( snow )", r"line 4: probability of unknown variable 'snow'"),
        ("(yes)", "(maybe)", r"line 6: table of 'wet': 'rain' has no state 'maybe'; its states are"),
        ("(yes)", "(no)", r"line 7: table of 'wet': row \(no\) is given twice"),
        ("(yes)", "(yes, no)", r"line 6: table of 'wet': expected 1 states in brackets, got 2"),
        ("(yes)", "x (yes)", r"line 6: table of 'wet': expected a row '\(states\) values', got 'x \(yes'"),
        ("  (yes) 0.1, 0.3, 0.6;\n", "", r"line 5: table of 'wet': expected 2 rows, got 1 and no default"),
        ("0.1, 0.3, 0.6", "0.1, 0.9", r"line 6: table of 'wet': expected 3 entries in a row, got 2"),
        ("0.1, 0.3, 0.6", "0.1, x, 0.6", r"line 6: table of 'wet': expected a number, got 'x'"),
        ("0.1, 0.3, 0.6", "0.1, 0_3, 0.6", r"line 6: table of 'wet': expected a number, got '0_3'"),
        (
            "0.1, 0.3, 0.6",
            "0.1, 0.3, 0.5",
            r"line 5: .*'wet': every row must sum to 1, got sums from 0.9 to 1",
        ),
        ("0.1, 0.3, 0.6", "-0.1, 0.5, 0.6", r"line 5: table of 'wet': expected finite, non-negative .*-0.1"),
        ("0.1, 0.3, 0.6", "nan, 0.5, 0.6", r"line 5: table of 'wet': expected finite, non-negative .*nan"),
        ("table 0.8, 0.2", "table 0.8", r"line 4: table of 'rain': expected 2 entries, got 1"),
        (
            "table 0.8, 0.2",
            "value 0.8, 0.2",
            r"line 4: .*expected a row, one table or one default, got 'value",
        ),
        (
            "table 0.8, 0.2;",
            "table 1, 0; default 1, 0;",
            r"line 4: .*expected either a table or rows, got both",
        ),
        (
            "table 0.8, 0.2;",
            "table 0.8, 0.2",
            r"line 4: table of 'rain': expected ';' after 'table 0.8, 0.2'",
        ),
        ("probability ( rain ) { table 0.8, 0.2; }", "", r"line 2: variable 'rain' has no table"),
        ("( rain )", "( )", r"line 4: probability block: expected \( child \| parents \), got none"),
        ("( wet | rain )", "( rain | wet )", r"line 5: 'rain' has two tables, the first in line 4"),
        ("( wet | rain )", "( wet | wet )", r"line 5: table of 'wet': a variable appears twice in"),
        ("variable wet", "variable rain", r"line 3: variable 'rain' is declared twice, first in line 2"),
        ("{ no, yes }", "{ no, no }", r"line 2: variable 'rain': state 'no' appears twice"),
        ("[ 2 ] { no, yes }", "[ 0 ] { }", r"line 2: variable 'rain': expected at least one state, got none"),
        ("[ 2 ]", "[ 3 ]", r"line 2: variable 'rain': expected 3 states, got 2"),
        (
            "[ 2 ]",
            "[ two ]",
            r"line 2: variable 'rain': expected 'type discrete \[ n \] .*got 'type discrete",
        ),
        (
            "discrete [ 2 ]",
            "continuous [ 2 ]",
            r"line 2: variable 'rain' is continuous; only discrete ones can be read",
        ),
        (
            "type discrete [ 2 ] { no, yes };",
            "",
            r"line 2: variable 'rain': expected 'type discrete .*got none",
        ),
        ("property position", "place position", r"line 2: variable 'rain': expected one type, or a property"),
        (
            "variable wet",
            "variables wet",
            r"line 3: expected a network, variable or probability block, got 'v",
        ),
        ("{ property author", '{ property "author', r"line 1: expected a closing quote"),
        ("somebody", "some\x00body", r"line 1: expected text, got the control character"),
    ],
)
def test_nonsense_is_refused_with_file_line_and_reason(old, new, message):
    assert old in WEATHER
    refused(WEATHER.replace(old, new, 1), message)


def test_a_cycle_is_refused_with_its_line():
    text = "".join(f"variable {n} {{ type discrete [ 1 ] {{ s }}; }}\n" for n in "abc")
    text += "".join(f"probability ( {x} | {y} ) {{ (s) 1; }}\n" for x, y in ("ab", "bc", "ca"))
    refused(text, r"x.bif, line [456]: parents: expected no cycle, got ")


@pytest.mark.parametrize("text", ["", " \n", "network x {\n}\n"])
def test_a_file_without_variables_is_refused(text):
    refused(text, "x.bif, line 1: expected at least one variable, got none")


def test_a_file_cut_anywhere_is_refused():
    end = WEATHER.rindex("}")
    for cut in range(end):
        with pytest.raises(FormatError, match=r"x\.bif, line"):
            load(WEATHER[:cut])
    refused(WEATHER[:end], "line 5: block 'probability .*' is not closed; is the file cut off")
    refused(WEATHER[: WEATHER.index("{ type")], "line 2: block 'variable rain' is not closed")
    refused(WEATHER[: WEATHER.index("no, yes")], "line 2: block 'variable rain { type .* is not closed")


def test_a_default_cannot_ask_for_more_memory_than_there_is():
    names = [f"v{i}" for i in range(80)]
    text = "".join(
        f"variable {n} {{ type discrete [ 2 ] {{ a, b }}; }} probability ( {n} ) {{ table 0.5, 0.5; }}\n"
        for n in names
    )
    text += "variable x { type discrete [ 2 ] { a, b }; }"
    text += f"probability ( x | {', '.join(names)} ) {{ default 0.5, 0.5; }}"
    refused(text, "line 81: table of 'x': expected at most 268435456 entries, got 2417851639229258349412352")


def test_writing_quotes_what_needs_it_and_reads_back_the_same():
    labels = ["a b", "<3", "x/y", "x//y", "", "ü", "a,b", "}", "%;"]
    model = BayesNet.random(
        {"odd name|": labels, "b": 2, "c": ["x", "y z"]}, {"b": ["odd name|", "c"]}, seed=1
    )
    back = load(write(model))
    assert back.variables[0].states == tuple(labels)
    assert back.variables.names == model.variables.names
    np.testing.assert_array_equal(back.flat_tables, model.flat_tables)


def test_writing_lists_rows_with_the_first_parent_fastest():
    model = BayesNet.random({"a": 2, "b": 2, "c": 2}, {"c": ["a", "b"]}, seed=0)
    rows = [line.split(")")[0].strip() for line in write(model).splitlines() if line.startswith("  (")]
    assert rows == ["(0, 0", "(1, 0", "(0, 1", "(1, 1"]


def test_writing_refuses_what_the_format_cannot_hold():
    with pytest.raises(UnsupportedError, match="variable 'a\"': BIF files want names without double quotes"):
        write(BayesNet.random({'a"': 2}))
    with pytest.raises(UnsupportedError, match=r"state 'x\\n' of variable 'a': BIF files want names"):
        write(BayesNet.random({"a": ["x\n", "y"]}))
    with pytest.raises(UnsupportedError, match="BIF files hold Bayesian networks, got a FactorGraph"):
        write(model=BayesNet.random({"a": 2}).to_factor_graph())


COUNTS = {
    "alarm": (37, 46),
    "asia": (8, 8),
    "munin": (1041, 1397),
    "link": (724, 1125),
    "pigs": (441, 592),
    "diabetes": (413, 602),
}


@pytest.mark.skipif(not FILES, reason="the shared networks are not here")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name.split(".")[0])
def test_well_known_networks_load(path):
    content = gzip.decompress(path.read_bytes())
    model = read(content, path.name)
    assert len(model.variables) == content.count(b"\nvariable ")
    counts = (len(model.variables), len(model.edges))
    assert COUNTS.get(path.name.split(".")[0], counts) == counts
    # The same numbers, found line by line; dividing rows by their sum changes them by rounding only.
    lines = content.decode().splitlines()
    rows = [s.split(")")[-1].replace("table", "") for s in lines if s.startswith(("  (", "  table"))]
    values = [float(t) for row in rows for t in row.strip(" ;").split(",")]
    assert len(values) == len(model.flat_tables)
    np.testing.assert_allclose(sorted(values), np.sort(model.flat_tables), rtol=1e-6, atol=0)


@pytest.mark.skipif(not FILES, reason="the shared networks are not here")
def test_asia_has_the_published_numbers():
    model = read(gzip.decompress((SHARED / "asia.bif.gz").read_bytes()), "asia.bif")
    assert model.parents["dysp"] == ("bronc", "either")
    np.testing.assert_array_equal(model.tables["dysp"][..., 0], [[0.9, 0.8], [0.7, 0.1]])
