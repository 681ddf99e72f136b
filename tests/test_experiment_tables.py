"""The harness of published tables: resuming, printing side by side, and the command that starts it."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from credo.cli.main import app

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("_tables")


@pytest.fixture
def toy(tables):
    """Two cells; method A gives n + seed, method B its double; B's published number is doubted."""
    calls = []

    def measure(cell, seeds):
        calls.append(list(seeds))
        value = cell.settings["n"]
        return [{"A": {"error": value + s}, "B": {"error": 2.0 * (value + s)}} for s in seeds]

    said = {("A", "error"): tables.Published(1.5, 0.5), ("B", "error"): tables.Published(9, 1, "it is wrong")}
    cells = [tables.Cell({"n": 1}, said), tables.Cell({"n": 5})]
    return tables.Table("toy", "A toy", cells, measure, repeats=3, quick=(0,), quick_repeats=2), calls


def test_numbers_are_printed_beside_the_published_ones(toy, tmp_path, capsys):
    table, _ = toy
    table.main(["--quick", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert "1.500 | 1.500 ± 0.500" in said
    assert "9.000* | 3.000 ± 1.000" in said
    assert "* published: it is wrong" in said
    assert "A: 1 of 1 means within two published standard deviations" in said
    assert "B:" not in said  # a doubted number is no measure of success
    records = json.loads((tmp_path / "toy.json").read_text())
    assert [(r["method"], r["mean"], r["published"]) for r in records] == [("A", 1.5, 1.5), ("B", 3.0, 9)]
    assert (tmp_path / "toy.csv").is_file()
    assert (tmp_path / "toy.png").read_bytes()[:4] == b"\x89PNG"


def test_a_second_run_measures_only_what_is_missing(toy, tmp_path):
    table, calls = toy
    table.main(["--quick", "--out", str(tmp_path)])
    table.main(["--out", str(tmp_path)])
    table.main(["--out", str(tmp_path)])
    assert calls == [[0, 1], [2], [0, 1, 2]]
    table.main(["--fresh", "--quick", "--out", str(tmp_path)])
    assert calls[-1] == [0, 1]


def test_a_line_cut_in_two_is_measured_again(toy, tmp_path):
    table, calls = toy
    table.main(["--quick", "--out", str(tmp_path)])
    file = tmp_path / "toy.jsonl"
    file.write_text(file.read_text()[:-20])
    table.main(["--quick", "--out", str(tmp_path)])
    assert calls == [[0, 1], [1]]
    table.main(["--quick", "--out", str(tmp_path)])  # the line after the cut one is whole
    assert calls == [[0, 1], [1]]


def test_a_full_disk_leaves_the_old_results(toy, tmp_path, monkeypatch):
    table, _ = toy
    table.main(["--quick", "--out", str(tmp_path)])
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {"toy.json", "toy.csv", "toy.png"} <= set(old)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        table.main(["--quick", "--out", str(tmp_path)])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


def test_parts_of_the_methods_and_some_rows_are_measured_apart(toy, tables, tmp_path):
    table, calls = toy
    other = lambda cell, seeds: [{"C": {"error": 7.0}} for _ in seeds]
    both = tables.Table("both", "Both", table.cells, {"first": table.measure, "second": other}, repeats=2)
    both.main(["--only", "second", "--rows", "n=5", "--out", str(tmp_path)])
    assert calls == [] and [r["method"] for r in json.loads((tmp_path / "both.json").read_text())] == ["C"]
    both.main(["--rows", "n=5", "--out", str(tmp_path)])
    both.main(["--rows", "n=5", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "both.json").read_text())
    assert calls == [[0, 1]] and {r["method"]: r["mean"] for r in records} == {"A": 5.5, "B": 11, "C": 7}


def test_rows_have_other_sizes_if_they_are_told_to(toy, tmp_path):
    table, _ = toy
    table.main(["--set", "n=9", "other=3", "--repeats", "1", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "toy.json").read_text())
    assert {r["n"] for r in records} == {9} and {r["mean"] for r in records} == {9.0, 18.0}


def test_more_repeats_than_a_chunk_are_split(toy, tables, tmp_path):
    table, calls = toy
    table.main(["--quick", "--repeats", "30", "--out", str(tmp_path)])
    assert [len(c) for c in calls] == [tables.CHUNK, 30 - tables.CHUNK]


def test_the_command_lists_and_runs_experiments(tmp_path):
    runner = CliRunner()
    listed = runner.invoke(app, ["reproduce"]).output
    assert "convergence" in listed and "Figures 3.3 and 3.4" in listed
    wrong = runner.invoke(app, ["reproduce", "convergenc"])
    words = " ".join(wrong.output.replace("│", "").split())
    assert wrong.exit_code == 1 and "did you mean 'convergence'?" in words
    done = runner.invoke(app, ["reproduce", "mimo", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "mimo.json").is_file()
