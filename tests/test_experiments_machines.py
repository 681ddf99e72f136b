"""Small versions of the experiments on Boltzmann machines, and what they share."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def test_corruptions_change_what_they_say(load):
    machines = load("_machines")
    v = (np.random.default_rng(0).random((200, 784)) < 0.3).astype(np.float32)
    flipped = machines.corrupted(v, "flip 20", np.random.default_rng(1))
    assert (flipped != v).mean() == pytest.approx(0.2, abs=0.01)
    for task, side, value in (("patch 8 to 0", 8, 0), ("patch 12 to 1", 12, 1)):
        x = machines.corrupted(v, task, np.random.default_rng(1)).reshape(-1, 28, 28)
        for one, other in zip(x, v.reshape(-1, 28, 28), strict=True):
            rows, columns = np.nonzero(one != other)
            assert rows.size and np.ptp(rows) < side and np.ptp(columns) < side
            assert (one[rows, columns] == value).all()
    assert (v == (np.random.default_rng(0).random((200, 784)) < 0.3)).all()


def test_errors_are_those_of_all_pixels_and_of_changed_ones(load):
    errors = load("_machines").errors
    v = np.array([[0.0, 0, 1, 1]])
    x = np.array([[0.0, 1, 0, 1]])
    assert errors(v, v, x) == (0, 0) and errors(x, v, x) == (50, 100)
    assert errors(np.array([[1.0, 0, 0, 1]]), v, x) == (50, 50)
    assert np.isnan(errors(x, v, v).changed)


def test_images_are_binary_and_drawn_once(load):
    if not (DATA / "mnist").is_dir() or not (DATA / "caltech101_silhouettes").is_dir():
        pytest.skip("the data sets mnist and caltech101_silhouettes are not here")
    silhouettes = load("_machines").silhouettes
    caltech = silhouettes("caltech")
    assert [len(part) for part in caltech[:3]] == [4100, 2264, 2307]
    assert caltech.x.mean() > 0.5 and set(np.unique(caltech.test)) == {0, 1}  # the background is 1
    few = silhouettes("mnist threshold").first(10, 5, 4)
    assert [part.shape for part in few] == [(10, 784), (5, 784), (4, 784), (10,), (5,), (4,)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rbm-mnist", "crbm-mnist", "crbm-caltech", "irbm", "rbm-scale"])
def test_small_versions_run(load, tmp_path, name):
    pytest.importorskip("matplotlib")
    if not (DATA / "mnist").is_dir() or not (DATA / "caltech101_silhouettes").is_dir():
        pytest.skip("the data sets mnist and caltech101_silhouettes are not here")
    load(name.replace("-", "_")).TABLE.main(["--quick", "--out", str(tmp_path)])
    records = json.loads((tmp_path / f"{name}.json").read_text())
    assert records and all(np.isfinite(r["mean"]) for r in records)


@pytest.mark.slow
def test_pictures_of_restored_digits_are_drawn(load, tmp_path):
    pytest.importorskip("matplotlib")
    if not (DATA / "mnist").is_dir():
        pytest.skip("the data set mnist is not here")
    load("crbm_pictures").main(["--quick", "--out", str(tmp_path)])
    assert len(json.loads((tmp_path / "crbm-pictures.json").read_text())) == 2
    assert (tmp_path / "crbm-pictures.png").read_bytes()[:4] == b"\x89PNG"
