"""`credo convert`, `credo sample`, `credo draw`."""

import csv
import io
import os

import numpy as np
import pytest

import credo


def test_convert_keeps_the_model(run, asia, tmp_path):
    answer = run("convert", asia, tmp_path / "asia.json.gz")
    assert (answer.status, answer.out) == (0, "")
    back = credo.load(tmp_path / "asia.json.gz")
    assert back.to_factor_graph() == credo.load(asia).to_factor_graph()


def test_convert_takes_the_format_by_name(run, square, tmp_path):
    assert run("convert", square, tmp_path / "square.txt", "--to", "json").status == 0
    assert (tmp_path / "square.txt").read_text().startswith("{")


def test_samples_are_csv_with_labels_and_repeat_with_the_seed(run, asia):
    first = run("sample", asia, "-n", "50", "--evidence", "smoke=yes", "--method", "enumerate", "--seed", "3")
    assert first.status == 0
    rows = list(csv.DictReader(io.StringIO(first.out)))
    assert len(rows) == 50
    assert list(rows[0]) == list(credo.datasets.asia().variables.names)
    assert {row["smoke"] for row in rows} == {"yes"}
    assert {row["bronc"] for row in rows} == {"no", "yes"}
    again = run("sample", asia, "-n", "50", "--evidence", "smoke=yes", "--method", "enumerate", "--seed", "3")
    assert again.out == first.out


def test_samples_go_to_a_file_and_have_the_right_frequencies(run, square, tmp_path):
    out = tmp_path / "data.csv"
    assert run("sample", square, "-n", "4000", "--out", out).status == 0
    rows = np.loadtxt(out, delimiter=",", skiprows=1, dtype=int)
    # Four standard errors of a share near 0.7 in 4000 samples.
    assert rows[:, 0].mean() == pytest.approx(0.7, abs=4 * np.sqrt(0.21 / 4000))


@pytest.mark.parametrize("command", [["sample", "{asia}"], ["draw", "{asia}"], ["solve", "{asia}", "PR"]])
def test_a_full_disk_leaves_the_old_file(run, asia, tmp_path, monkeypatch, command):
    out = tmp_path / ("old.csv" if command[0] == "sample" else "old.png")
    out.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = run(*(word.format(asia=asia) for word in command), "--out", out)
    assert answer.status and "No space left on device" in answer.err
    assert out.read_bytes() == b"old" and "part" not in str(list(tmp_path.iterdir()))


def test_draw_writes_a_picture(run, asia, tmp_path):
    pytest.importorskip("matplotlib")
    answer = run("draw", asia, "--out", tmp_path / "asia.png", "-e", "dysp=yes")
    assert answer.status == 0
    assert (tmp_path / "asia.png").read_bytes().startswith(b"\x89PNG")
    assert run("draw", asia, "--out", tmp_path / "asia.svg", "--style", "factors").status == 0
    assert "<svg" in (tmp_path / "asia.svg").read_text()


def test_draw_shows_beliefs_when_asked(run, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "sprinkler.svg"
    rain = "<!-- 70.8 -->"  # per cent given wet grass; an SVG keeps its texts as comments beside the outlines
    assert run("draw", "sprinkler", "-o", out, "-e", "wet=yes").status == 0
    assert rain not in out.read_text()
    assert run("draw", "sprinkler", "-o", out, "-e", "wet=yes", "--beliefs").status == 0
    assert rain in out.read_text()
