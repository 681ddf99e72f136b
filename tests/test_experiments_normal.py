"""Small versions of the experiments with normal-form graphs."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
FOLDER = Path(__file__).resolve().parents[1] / "experiments"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def test_a_single_block_is_measured_beside_the_reference(load, tmp_path, capsys, monkeypatch):
    module = load("normal_single_block")
    kept = dict(list(module.REFERENCE.items())[:2])
    monkeypatch.setattr(module, "REFERENCE", kept)
    monkeypatch.setattr(module, "ITERATIONS", 30)
    shown = [s for s in kept if s[3] != 5]
    assert len(shown) == 2
    records = module.measure(4, 0)
    module.report(records)
    assert "-135.56 | -1" in capsys.readouterr().out
    mine = {r["rule"]: r["mean"] for r in records if r["setting"][3] == 1 and r["samples"] == "all"}
    assert mine["ML"] > mine["KL"] > mine["VAR"]
    module.picture_curves(0, shown).savefig(tmp_path / "curves.png")


def test_coefficients_of_a_single_block_converge_smoothly(load, tmp_path):
    module = load("normal_single_block")
    found = module.learn(*module.draw((3, 4, 100, 1, 1), np.random.default_rng(0)))
    assert found["ML"].shape == (101, 3, 4)
    for rule in ("ML", "KL"):
        np.testing.assert_allclose(found[rule].sum(axis=2), 1.0)
        assert np.abs(np.diff(found[rule], axis=0))[-1].max() < 0.01
    # ML spans a wider range of coefficients, and KL is done sooner.
    assert np.ptp(found["ML"][-1]) > np.ptp(found["KL"][-1])
    late = {rule: np.abs(found[rule][30] - found[rule][-1]).max() for rule in ("ML", "KL")}
    assert late["KL"] < late["ML"]
    module.picture_coefficients(0, [(3, 4, 100, 1, 1)]).savefig(tmp_path / "coefficients.png")


def test_the_embedding_runs_all_three_experiments(load, tmp_path, capsys, monkeypatch):
    module = load("normal_embedding")
    cells = [c for c in module.cells() if c[1] in (4, 2) and c[3] in (3, 20)]
    monkeypatch.setattr(module, "cells", lambda: cells)
    module.main(["--quick", "--restarts", "1", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "levels: generator -780.4, saturated -770.0, independent -923.9" in printed
    for name in ("normal-embedding", "normal-embedding-coefficients-3", "normal-embedding-coefficients-20"):
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
    records = json.loads((tmp_path / "normal-embedding.json").read_text())
    first = {r["rule"]: r["metric"] for r in records if r["experiment"] == "1" and r["inner"] == 3}
    assert min(first["ML"], first["KL"]) > first["VIT"] - 1e-9 > -960
    assert first["VAR"] == pytest.approx(-923.9, abs=0.1)
    small = [
        r["metric"] for r in records if r["experiment"] == "2" and r["rule"] == "ML" and r["states"] == 2
    ]
    assert small[0] < first["ML"] - 20


def test_every_cell_of_the_figures_is_run(load):
    module = load("normal_embedding")
    assert {(e, s) for e, s, _, _ in module.cells()} == {("1", 4), ("2", 2), ("2", 7), ("3", 4), ("3", 9)}
    assert {inner for e, _, rule, inner in module.cells() if (e, rule) == ("1", "ML")} == set(module.INNER)
    assert set(module.REFERENCE) <= set(module.cells())


def test_the_deep_graph_ranks_the_rules(load, tmp_path, capsys):
    module = load("normal_deep")
    module.main(["--quick", "--out", str(tmp_path)])
    assert "set 1 saturated, independent" in capsys.readouterr().out
    records = json.loads((tmp_path / "normal-deep.json").read_text())
    found = {r["rule"]: r["metric"] for r in records}
    low, high = records[0]["independent"], records[0]["saturated"]
    assert high + 1e-6 > min(found["ML"], found["KL"]) > max(found["VIT"], found["VAR"]) - 1e-6
    assert found["VAR"] == pytest.approx(low, abs=0.5)
    for name in ("normal-deep", "normal-deep-coefficients", "normal-deep-graph"):
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


def test_coefficients_of_all_blocks_of_the_deep_graph_are_kept(load):
    module = load("normal_deep")
    _, first = module.measure(1, 1, 3, 0)
    assert set(first["ML"].trajectories) == {
        "p(S1)",
        "p(S2)",
        "p(S3)",
        "p(Y1|S1)",
        "p(Y2|S1,S2)",
        "p(X1|Y1)",
        "p(X2|Y1)",
        "p(X3|Y2,S3)",
    }
    assert first["ML"].trajectories["p(X3|Y2,S3)"].shape == (4, 12, 3)
