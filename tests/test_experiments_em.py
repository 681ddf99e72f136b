"""The experiment on hidden variables in a large network, in its small version."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


def test_em_comes_near_the_complete_data_and_far_from_its_start(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(FOLDER))
    script = FOLDER / "em_alarm.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--quick", "--out", str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    assert "test log-likelihood per row" in capsys.readouterr().out
    records = json.loads((tmp_path / "em-alarm.json").read_text())
    assert [(r["case"], r["rows"]) for r in records] == [
        ("hidden", 300), ("hidden", 1000), ("missing", 300), ("missing", 1000),
    ]  # fmt: skip
    for record in records:
        assert record["start"] < record["best"] - 5 < record["truth"]
        assert record["complete"] < record["truth"]
        assert record["truth"] - record["best"] < 0.25 * (record["truth"] - record["start"])
        curve = record["curve"]
        assert curve[-1] > curve[0]
        assert len(record["restarts"]) == 2
    assert (tmp_path / "em-alarm.png").is_file()
