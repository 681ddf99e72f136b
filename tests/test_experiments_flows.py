"""Small versions of the experiments on mixtures of flows."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.estimators import MaximumLikelihoodClassifier
from credo.families import DiagonalGaussian

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def needs(*names):
    for name in names:
        if not (DATA / name).is_dir():
            pytest.skip(f"the data set {name} is not here")


def test_small_images_are_means_over_squares(load):
    flat = np.arange(32.0)[None, :].reshape(1, 32).repeat(2, axis=0)
    found = load("genmm_classify")._shrunk(flat[:, :16], 4, 2)
    assert found.tolist() == [[2.0, 4.0, 10.0, 12.0]] * 2  # 2.5 and 4.5 are rounded to even


def test_parts_of_a_set_have_their_sizes(load):
    needs("letter", "coil20")
    found = load("genmm_classify").set_of("letter", "300/100")
    assert found.x.shape == (300, 16) and found.test_x.shape == (100, 16)
    coil = load("genmm_classify").set_of("COIL-20 8x8", "360/1080")
    assert coil.x.shape == (360, 64) and coil.test_x.shape == (1080, 64)
    assert np.bincount(coil.y)[1:].tolist() == [18] * 20  # every fourth view


def test_the_epoch_is_chosen_by_rows_held_out(load):
    rng = np.random.default_rng(0)
    x, y = np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal(3, 1, (40, 2))]), np.repeat([0, 1], 40)
    mask = load("_per_class").held_out(y, 0.25, 0)
    assert mask.sum() == 20 and mask[:40].sum() == 10
    member = DiagonalGaussian([[0.0, 0.0]], [[1.0, 1.0]])
    made = MaximumLikelihoodClassifier(credo.Mixture.blank(2, "diagonal"), learner="em(floor=0.1)",
                                       warm_start=True, random_state=0)  # fmt: skip
    found = load("_per_class").train(made, x, y, [1, 2, 3], 0, {"test": (x, y)}, mask=mask)
    assert found.epoch in (1, 3, 6) and len(found.curves["held out"]) == len(found.curves["test"]) == 3
    place = [1, 3, 6].index(found.epoch)
    assert found.curves["held out"][place] == max(found.curves["held out"])
    assert found.classifier.score(x, y) == found.curves["test"][place]
    assert MaximumLikelihoodClassifier(member).fit(x, y).score(x, y) > 0.9


def test_the_small_version_of_classification_runs(load, tmp_path):
    needs("letter")
    pytest.importorskip("matplotlib")
    load("genmm_classify").TABLE.main(["--quick", "--only", "others", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "genmm-classify.json").read_text())
    told = {(r["method"], r["metric"]): r["mean"] for r in records}
    assert told["GMM", "accuracy"] > 0.5 and told["GMM", "components"] == 1 and told["SVM", "accuracy"] > 0.5
