"""Small versions of the experiments of structured prediction, and their simulator."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


@pytest.fixture
def structured(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("_structured")


@pytest.fixture(params=["mssvm_chain", "mssvm_uncertainty", "mssvm_size"])
def experiment(request, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module(request.param)


def test_small_versions_write_what_they_measured(experiment, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    experiment.TABLE.main(["--quick", "--repeats", "1", "--out", str(tmp_path)])
    records = json.loads((tmp_path / f"{experiment.TABLE.name}.json").read_text())
    shown = {r["method"]: r["mean"] for r in records if r["metric"] == "accuracy"}
    assert set(shown) == {"MSSVM", "LSSVM", "HCRF", "MSSVM - LSSVM", "MSSVM - HCRF"}
    assert shown["MSSVM - HCRF"] == pytest.approx(shown["MSSVM"] - shown["HCRF"])
    assert all(0 <= shown[m] <= 100 for m in ("MSSVM", "LSSVM", "HCRF"))
    assert "accuracy" in capsys.readouterr().out


def test_the_small_segmentation_compares_all_methods(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("segmentation")
    assert set(np.unique(module.picture(20, 40))) == set(range(5))
    module.TABLE.main(["--quick", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "segmentation.json").read_text())
    assert {r["method"] for r in records} == {"MSSVM", "LSSVM", "HCRF", "MSSVM - LSSVM", "MSSVM - HCRF"}
    assert "accuracy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "metric", "rows"), [("ocr-letters", "letters wrong %", 2), ("scene", "labels wrong %", 1)]
)
def test_small_versions_on_real_data_are_better_than_chance(name, metric, rows, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module(name.replace("-", "_"))
    if not (module.DATA / name.replace("-", "_")).is_dir():
        pytest.skip("the data are not here")
    module.TABLE.main(["--quick", "--out", str(tmp_path)])
    records = json.loads((tmp_path / f"{name}.json").read_text())
    shown = [r["mean"] for r in records if r["metric"] == metric]
    assert len(shown) == rows and all(0 <= mean < 40 for mean in shown)


def test_no_two_sites_of_a_kind_touch(structured):
    for wiring in (structured.chain(7, "all"), structured.grid(4, "hidden")):
        assert (wiring.hidden[wiring.pairs[:, 0]] != wiring.hidden[wiring.pairs[:, 1]]).all()
    assert (structured.grid(4, "hidden").seen == structured.grid(4, "hidden").hidden).all()


def test_draws_have_the_moments_of_the_truth(structured):
    import credo

    key = ("chain", 4, "all")
    sample = structured.draw(key, 0.1, 4000, 0, 0)
    exact = credo.infer(structured.truth(key, 0.1, 0)).marginals.flat.reshape(-1, structured.STATES)
    for site in range(4):
        share = np.bincount(sample.y[:, site], minlength=structured.STATES) / 4000
        np.testing.assert_allclose(share, exact[site], atol=0.04)


def test_grids_decode_by_the_inference_that_is_named(structured):
    trial = structured.Trial.of(("grid", 2, "all"), 0.1, 0, train=3, test=5)
    for method in structured.METHODS:
        exact, _ = trial.scores(method, "subgradient(rate={rate})", 3)
        by_bp, _ = trial.scores(method, "subgradient(rate={rate})", 3, "bp")
        assert 0 <= exact["accuracy"] <= 100 and 0 <= by_bp["accuracy"] <= 100
