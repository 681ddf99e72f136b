"""Streams against the same data read at once: batches, orders, places, sequences, schemas, refusals."""

from __future__ import annotations

import weakref
from itertools import pairwise

import numpy as np
import pytest

import credo
from credo.core.errors import DataError, FormatError, OptionError
from credo.data import stream
from credo.data import stream_files as files
from credo.data.dataset import Dataset

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

ROWS = 1000


def frame(rows=ROWS):
    """A column of each kind, and sequences of one to forty rows."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 40, rows)
    who = np.repeat(np.arange(rows), lengths)[:rows]
    return pd.DataFrame(
        {
            "who": [f"p{i}" for i in who],
            "row": np.arange(rows) / 2 + 0.25,
            "kind": rng.choice(["red", "green", "blue"], rows),
            "count": rng.integers(0, 5, rows),
            "seen": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
        }
    )


@pytest.fixture
def table():
    return frame()


@pytest.fixture
def parquet(table, tmp_path):
    """Two files whose row groups have different sizes."""
    table[:640].to_parquet(tmp_path / "a.parquet", row_group_size=130, index=False)
    table[640:].to_parquet(tmp_path / "b.parquet", row_group_size=90, index=False)
    return [tmp_path / "a.parquet", tmp_path / "b.parquet"]


def rows_in(batches):
    """Numbers of the rows, in order."""
    return np.concatenate([(batch["row"] - 0.25) * 2 for batch in batches]).astype(int)


def same(one: Dataset, other: Dataset):
    assert one.names == other.names and one.variables == other.variables
    for a, b in zip(one.columns, other.columns, strict=True):
        np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(one.begin, other.begin)


@pytest.mark.parametrize("size", [1000, 999, 131, 64, 7])
def test_batches_in_order_are_the_rows_of_the_whole(parquet, table, size):
    whole = credo.data.read(table.drop(columns=["who"]))
    found = stream(parquet, batch_rows=size, columns=whole.names)
    assert found.variables == whole.variables and found.n_rows == ROWS
    batches = list(found)
    assert [batch.n_rows for batch in batches] == [size] * (ROWS // size) + [ROWS % size] * (ROWS % size > 0)
    for k, batch in enumerate(batches):
        same(batch, whole.take(slice(k * size, (k + 1) * size)))
    same(next(iter(found)), batches[0])


def test_shuffled_epochs_have_every_row_once_in_orders_of_their_own(parquet):
    found = stream(parquet, batch_rows=64, shuffle=True, seed=3)
    orders = [rows_in(found.epoch(k)) for k in (0, 1, 0)]
    for order in orders:
        assert sorted(order) == list(range(ROWS))
    assert (orders[0] == orders[2]).all() and (orders[0] != orders[1]).any()
    assert (rows_in(stream(parquet, batch_rows=64, shuffle=True, seed=4)) != orders[0]).any()
    wider = rows_in(stream(parquet, batch_rows=100, shuffle=True, seed=3))
    assert (wider == orders[0]).all(), "the order does not depend on the size of batches"


@pytest.mark.parametrize("groups", [None, "who"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_pass_goes_on_from_any_place(parquet, shuffle, groups):
    found = stream(parquet, batch_rows=64, shuffle=shuffle, seed=1, groups=groups)
    places, batches = [(2, 0, 0)], []
    for batch, place in found.batches((2,)):
        batches.append(batch)
        places.append(place)
    assert places.pop() == () and all(place > before for before, place in pairwise(places))
    for k, place in enumerate(places):
        again = stream(parquet, batch_rows=64, shuffle=shuffle, seed=1, groups=groups)
        same(next(again.batches(place))[0], batches[k])


def test_sequences_are_whole_also_where_they_span_row_groups(parquet, table):
    whole = credo.data.read(table, groups="who")
    found = stream(parquet, batch_rows=64, groups="who")
    batches = list(found)
    assert np.concatenate([batch.lengths for batch in batches]).tolist() == whole.lengths.tolist()
    assert (rows_in(batches) == np.arange(ROWS)).all()
    assert all(batch.n_rows <= 64 for batch in batches) and "who" not in batches[0].names
    mixed = list(stream(parquet, batch_rows=64, groups="who", shuffle=True))
    rows = rows_in(mixed)
    assert sorted(rows) == list(range(ROWS)) and (rows != np.arange(ROWS)).any()
    firsts = dict(zip(whole.begin[:-1].tolist(), whole.lengths.tolist(), strict=True))
    for batch in mixed:
        for begin, length in zip(batch.begin[:-1], batch.lengths, strict=True):
            first = rows_in([batch])[begin]
            assert firsts.pop(first) == length
            assert (rows_in([batch])[begin : begin + length] == first + np.arange(length)).all()
    assert not firsts


def test_a_sequence_over_several_row_groups_is_one_batch(table, tmp_path):
    table["who"] = ["a"] * 50 + ["b"] * 700 + ["c"] * 250
    table.to_parquet(tmp_path / "a.parquet", row_group_size=100, index=False)
    found = stream(tmp_path / "a.parquet", batch_rows=64, groups="who")
    assert [batch.n_rows for batch in found] == [50, 700, 250]
    mixed = stream(tmp_path / "a.parquet", batch_rows=64, groups="who", shuffle=True)
    assert sorted(batch.n_rows for batch in mixed) == [50, 250, 700]


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_text_files_are_read_in_pieces_as_they_are_at_once(table, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(files, "_TEXT_ROWS", 90)
    table["kind"] = table["kind"].replace("green", 'gre\nen "x", y')
    path = tmp_path / f"a.{kind}"
    table.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    path.write_text(path.read_text() + "\n\n")
    whole = credo.data.read(path, groups="who")
    found = stream(path, batch_rows=64, groups="who")
    assert found.variables == whole.variables and len(found.source.sizes) == 12
    batches = list(found)
    assert np.concatenate([batch.lengths for batch in batches]).tolist() == whole.lengths.tolist()
    for name in whole.names:
        joined = np.concatenate([batch.column(name).values for batch in batches])
        np.testing.assert_array_equal(joined, whole.column(name).values)
    rows = rows_in(stream(path, columns=["row"], shuffle=True, batch_rows=100))
    assert sorted(rows) == list(range(ROWS)) and (rows != np.arange(ROWS)).any()


def test_tables_that_a_function_gives_are_read_in_order(table):
    asked = []

    def tables():
        for first in range(0, ROWS, 170):
            asked.append(first)
            yield table[first : first + 170]

    found = stream(tables, batch_rows=100)
    assert found.n_rows == ROWS and (rows_in(found) == np.arange(ROWS)).all()
    places = [place for _, place in found.batches()]
    asked.clear()
    (batch, _) = next(found.batches(places[5]))
    assert rows_in([batch])[0] == 600 and asked == [0, 170, 340, 510, 680]


def test_tables_of_a_list_may_be_made_when_they_are_read(table):
    parts = [lambda first=first: table[first : first + 170] for first in range(0, ROWS, 170)]
    found = stream([*parts[:3], table[510:]], batch_rows=100, shuffle=True)
    assert sorted(rows_in(found)) == list(range(ROWS))
    cuts = [0, *np.flatnonzero(np.append(table["who"][1:].values != table["who"][:-1].values, True)) + 1]
    cuts = [cut for k, cut in enumerate(cuts) if k % 9 == 0 or cut == ROWS]
    whole = [table[a:b] for a, b in pairwise(cuts)]
    found = stream(whole, batch_rows=64, groups="who")
    lengths = np.concatenate([batch.lengths for batch in found])
    assert lengths.tolist() == credo.data.read(table, groups="who").lengths.tolist()


@pytest.mark.parametrize(
    "column",
    [
        np.arange(300) % 7,
        np.arange(300) % 7 + 3,
        np.where(np.arange(300) == 250, np.nan, np.arange(300) % 4.0),
        np.where(np.arange(300) == 7, np.nan, np.arange(300) % 4.0),
        np.arange(300.0),
        np.arange(300) % 5 + 0.5 * (np.arange(300) == 299),
        np.arange(300) % 2 == 0,
        np.array(["b", "a", None] * 100, dtype=object),
        pd.Categorical(["z", "y"] * 150, categories=["z", "y", "x"]),
        pd.array([1, 2, None] * 100, dtype="Int64"),
    ],
)
def test_the_schema_is_that_of_all_rows_at_once(column, tmp_path):
    table = pd.DataFrame({"a": column})
    table.to_parquet(tmp_path / "a.parquet", row_group_size=70)
    whole = credo.data.read(pd.read_parquet(tmp_path / "a.parquet"))
    found = stream(tmp_path / "a.parquet", batch_rows=64)
    assert found.variables == whole.variables
    values = np.concatenate([batch.column("a").values for batch in found])
    np.testing.assert_array_equal(values, whole.column("a").values)


def test_columns_that_a_schema_does_not_have_are_left_out(parquet):
    found = stream(parquet, schema={"kind": ["red", "green", "blue"], "count": 5})
    (batch,) = found
    assert batch.names == ("kind", "count") and found.variables.names == ("kind", "count")
    assert batch["kind"][0] in ("red", "green", "blue")
    assert not stream(parquet, columns=["row", "seen"]).is_complete
    assert stream(parquet, columns=["row", "kind"]).is_complete


def test_a_stream_is_told_in_a_line(parquet):
    found = stream(parquet, batch_rows=64, shuffle=True, groups="who")
    assert repr(found) == (
        "Stream(1000 rows in 9 row groups, 4 columns, batches of 64 rows, shuffled, sequences by 'who')"
    )


def test_a_fingerprint_tells_files_by_size_and_footer_and_options(parquet, table, tmp_path):
    first = stream(parquet).fingerprint()
    assert stream(parquet).fingerprint() == first
    assert stream(parquet, batch_rows=64).fingerprint() != first
    assert stream(parquet[0]).fingerprint() != first
    table.loc[3, "seen"] = 99.0
    table[:640].to_parquet(tmp_path / "a.parquet", row_group_size=130, index=False)
    assert stream(parquet).fingerprint() != first
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n2\n")
    text = stream(path).fingerprint()
    path.write_text("a\n1\n3\n")
    assert stream(path).fingerprint() != text
    assert stream([{"a": [1]}]).fingerprint() != stream([{"a": [1, 2]}]).fingerprint()
    assert stream(lambda: [{"a": [1]}]).fingerprint() != stream(lambda: [{"b": [1]}]).fingerprint()


def test_what_cannot_be_streamed_is_refused_with_the_way_out(parquet, tmp_path):
    refused = [
        (
            lambda: stream({"a": [1]}),
            DataError,
            "stream: expected a path or paths .* read by credo.data.read",
        ),
        (
            lambda: stream("a.csv.gz"),
            FormatError,
            "a.csv.gz: expected files of one kind, .*; unpack it first",
        ),
        (lambda: stream([*parquet, "a.csv"]), FormatError, "a.csv: expected files of one kind"),
        (lambda: stream("no.parquet"), FormatError, "no.parquet: there is no such file"),
        (
            lambda: stream(lambda: [], shuffle=True),
            OptionError,
            "shuffle: a function .* give a list of functions",
        ),
        (lambda: stream(parquet, batch_rows=0), OptionError, "batch_rows must be at least 1, got 0"),
        (lambda: stream(parquet, columns=["cow"]), DataError, "there is no column 'cow'; it has .*'who'"),
        (lambda: stream(parquet, groups="hwo"), DataError, "there is no column 'hwo'"),
        (
            lambda: stream(parquet, schema={"kind": 3, "cow": 2}),
            DataError,
            "'who' is no variable of the model",
        ),
        (lambda: stream(lambda: []).n_rows, DataError, "gives an iterable of tables, it gave none"),
    ]
    for ask, error, told in refused:
        with pytest.raises(error, match=told):
            ask()


def test_damaged_files_are_told_by_their_place(tmp_path, parquet, table):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"no parquet at all")
    with pytest.raises(FormatError, match=r"bad.parquet: cannot be read as Parquet"):
        stream(bad)
    table[["row"]].to_parquet(tmp_path / "c.parquet")
    with pytest.raises(FormatError, match=r"c.parquet: expected the columns of .*a.parquet, got others"):
        stream([*parquet, tmp_path / "c.parquet"])
    text = tmp_path / "a.csv"
    for content, told in (
        ("a,b\n1,2\n3\n", "a.csv, line 3: expected 2 cells, got 1"),
        ("a,a\n1,2\n", "a.csv, line 1: expected different column names"),
    ):
        text.write_text(content)
        with pytest.raises(FormatError, match=told):
            list(stream(text))
    text.write_bytes(b"a\n\xff\n")
    with pytest.raises(FormatError, match=r"a\.csv: expected text in UTF-8"):
        list(stream(text))


def test_rows_of_sequences_that_lie_apart_are_refused(table, tmp_path):
    table.loc[900:, "who"] = "p0"
    table.to_parquet(tmp_path / "a.parquet", row_group_size=100)
    with pytest.raises(
        DataError, match=r"row group 9: the rows of sequence 'p0' do not follow each other; sort"
    ):
        list(stream(tmp_path / "a.parquet", groups="who"))
    table.loc[900:, "who"] = None
    table.to_parquet(tmp_path / "a.parquet", row_group_size=100)
    with pytest.raises(DataError, match=r"column 'who': expected the name of a sequence in every row"):
        list(stream(tmp_path / "a.parquet", groups="who"))
    with pytest.raises(DataError, match=r"table 1: the rows of sequence 1 do not follow each other"):
        list(stream([{"w": [1, 2], "x": [0, 1]}, {"w": [1], "x": [0]}], groups="w"))


def test_a_function_must_give_the_same_tables_again():
    left = [{"a": [0, 1]}, {"a": [1, 0]}]

    def tables():
        yield from list(left)

    found = stream(tables)
    assert found.n_rows == 4
    left.pop()
    with pytest.raises(
        DataError, match="expected table 1 again, but the function gave 1; it must give the same"
    ):
        list(found)


def test_columns_of_too_many_or_of_odd_values_need_a_schema(tmp_path):
    parts = [{"a": [f"{k}-{i}" for i in range(40000)]} for k in range(2)]
    with pytest.raises(DataError, match="column 'a' has more than 65536 different values; leave it out, or"):
        list(stream(parts))
    with pytest.raises(DataError, match=r"column 'a': expected labels or numbers, got \[1\]; give schema"):
        list(stream([{"a": np.array([[1], [2, 3]], dtype=object)}]))
    with pytest.raises(DataError, match=r"column 'a', row 0: expected one value per cell, got \{1\}; gi"):
        list(stream([{"a": [{1}]}]))
    with pytest.raises(
        DataError, match=r"column 'a': expected one value per row, got shape \(2, 2\); give schema"
    ):
        list(stream([{"a": np.zeros((2, 2))}]))
    with pytest.raises(DataError, match="a table has no column 'a'; it has \\['b'\\]"):
        list(stream([{"a": [1]}, {"b": [1]}]))


def test_a_stream_is_described_as_the_whole_without_counting_different_numbers(parquet, table):
    whole = credo.data.describe(table, groups="who")
    found = credo.data.describe(stream(parquet, batch_rows=64, groups="who"))
    assert found.rows == whole.rows and found.lengths.tolist() == whole.lengths.tolist()
    for one, other in zip(found.columns, whole.columns, strict=True):
        assert (one.name, one.domain, one.missing) == (other.name, other.domain, other.missing)
        assert one.distinct == (other.distinct if one.min is None else None)
        for kind in ("min", "mean", "max") if one.min is not None else ():
            assert getattr(one, kind) == pytest.approx(getattr(other, kind))
    assert "1000 rows in 54 sequences of 1 to 38, 4 columns" in repr(found)
    with pytest.raises(OptionError, match="describe: a stream says itself how it is read; leave out groups"):
        credo.data.describe(stream(parquet), groups="who")


def test_one_table_at_a_time_is_in_memory(parquet, monkeypatch):
    alive, most = weakref.WeakSet(), []
    read = files.ParquetTables.table

    def watched(self, *arguments):
        most.append(len(alive))
        found = read(self, *arguments)
        alive.add(found)
        return found

    monkeypatch.setattr(files.ParquetTables, "table", watched)
    for shuffle in (False, True):
        for _ in stream(parquet, batch_rows=50, columns=["kind", "count"], shuffle=shuffle).epoch(1):
            pass
    assert len(most) > 2 * 9 and set(most) == {0}
