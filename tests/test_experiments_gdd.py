"""A small version of the experiment on bounds, and its pieces."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.core.errors import UnsupportedError

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


@pytest.fixture
def gdd(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("gdd")


def test_the_quick_version_writes_numbers_and_pictures(gdd, tmp_path, capsys):
    gdd.main(["--quick", "--repeats", "1", "--iterations", "3", "--out", str(tmp_path)])
    said = capsys.readouterr()
    assert "GDD and WMB never below the exact value: yes" in said.out
    assert "Figure 3.3" in said.out and "Figure 3.4" in said.out
    assert said.err == ""  # no progress bar where nobody looks
    for name in ("gdd-ising", "gdd-networks", "gdd-shares"):
        assert json.loads((tmp_path / f"{name}.json").read_text())
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


def test_iterative_bounds_are_never_below_the_exact_value(gdd):
    records = gdd.ising(2, 6, first=5)
    assert gdd.report_ising(records) == []
    for r in records:
        if r["method"].startswith("gdd"):
            assert r["value"] >= r["exact"] - 1e-9 * abs(r["exact"])
    for task in "ab":
        shown = {r["method"] for r in records if r["task"] == task}
        assert {"gdd", "gdd blocks", "wmb"} < shown and any(m.startswith("trw") for m in shown)


def test_a_bound_that_failed_would_be_named(gdd, capsys):
    one = {"reading": "variance 2", "task": "a", "seed": 0, "exact": 1.0, "iteration": 1}
    broken = [{**one, "method": "gdd", "value": 0.5}, {**one, "method": "trw flooding", "value": 0.5}]
    assert gdd.report_ising(broken) == ["variance 2, a, gdd"]
    assert "no: ['variance 2, a, gdd']" in capsys.readouterr().out


def test_the_reweighted_free_energy_settles_above_the_exact_value(gdd):
    model = credo.datasets.ising_grid(3, coupling=0.5, field=0.3)
    values = gdd.reweighted(model, "sequential", 60)
    assert values[-1] >= credo.infer(model, "junction-tree").log_z.value
    assert values[-1] == pytest.approx(credo.infer(model, "trw(damping=0)").log_z.value, abs=1e-6)


def test_a_curve_has_a_value_per_iteration_and_a_refusal_none(gdd, monkeypatch):
    model = credo.datasets.ising_grid(3, seed=1)
    assert gdd.curve(model, "wmb(ibound=1)", (), 4).shape == (4,)
    flat = gdd.curve(model, "mini-bucket(ibound=1)", (), 4)
    assert len(set(flat)) == 1
    assert set(gdd.scores(model, "gdd(ibound=0)", ["x0", "x4"], 5)) == {1, 2, 5}
    assert gdd.scores(model, "gdd(ibound=0)", (), 2) == {}

    def refuse(*_, **__):
        raise UnsupportedError("not this")

    monkeypatch.setattr(credo, "infer", refuse)
    assert len(gdd.curve(model, "wmb(ibound=1)", (), 4)) == 0


def test_the_maximised_nodes_are_a_seeded_share(gdd):
    names = [f"x{i}" for i in range(11)]
    assert gdd.half(names, 0.0, 1) == [] and gdd.half(names, 1.0, 1) == names
    assert gdd.half(names, 0.5, 1) == gdd.half(names, 0.5, 1)
    assert len(gdd.half(names, 0.5, 2)) == 6


def test_missing_models_are_named(gdd, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gdd, "DATA", tmp_path)
    assert gdd.load("linkage", ("pedigree1",)) == {}
    assert "left out" in capsys.readouterr().out


def test_the_picture_of_a_diverging_curve_shows_the_others(gdd):
    rows = [
        {"model": "m", "method": m, "iteration": n + 1, "bound": b, "score": s}
        for m, b, s in (("gdd", -1.0, -2.0), ("wmb 0.5", 1e9, None), ("mbe", 3.0, -4.0))
        for n in range(2)
    ]
    low, high = gdd.picture_curves(rows).axes[0].get_ylim()
    assert low < -4 and 3 < high < 100 and np.isfinite(high)


def test_mixed_messages_are_the_tree_reweighted_ones_where_nothing_is_mixed(gdd):
    draw = credo.datasets.Normal(1.0)
    model = credo.datasets.ising_grid(4, coupling=draw, field=draw, seed=1)
    sums = gdd.mixed_reweighted(model, (), 400)[-1]
    assert sums == pytest.approx(credo.infer(model, "trw", tol=1e-12, max_iter=3000).log_z.value, abs=1e-6)
    best = gdd.mixed_reweighted(model, model.variables.names, 400)[-1]
    assert best >= credo.infer(model, "junction-tree", maximise="all").log_z.value - 1e-9
