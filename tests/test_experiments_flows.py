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


def test_images_of_another_side_are_means_over_areas(load):
    resized = load("_glow").resized
    assert (resized(np.full((2, 28, 28), 200)) == 200).all()
    grid = np.zeros((1, 4, 4))
    grid[0, :2, :2] = 100
    assert resized(grid, 2).tolist() == [[[100, 0], [0, 0]]]
    assert resized(grid, 3)[0, 0].tolist() == [100, 50, 0]  # half of the second column's area is bright
    picture = np.random.default_rng(0).integers(0, 256, (1, 28, 28))
    assert resized(picture).mean() == pytest.approx(picture.mean(), abs=0.1)


def test_images_between_images_begin_and_end_there(load):
    glow = load("_glow")
    bijection = "actnorm + coupling(layers=2, width=4, zero=false)"
    rng = np.random.default_rng(0)
    first, last = rng.normal(0, 1, (6, 4)), rng.normal(0, 1, (6, 4))
    flows = credo.Flow.started(bijection, 4, 2, seed=1)
    model = credo.Mixture([[0.5, 0.5]], flows)
    rows = glow.between(model, first, last, np.array([0.0, 0.4, 0.6, 1.0]))
    np.testing.assert_allclose(rows[[0, 3]], [first, last], atol=1e-4)
    (z, one), (w, other) = glow.codes(model, first), glow.codes(model, last)
    np.testing.assert_allclose(rows[1], flows.decode(0.6 * z + 0.4 * w, one), atol=1e-5)
    np.testing.assert_allclose(rows[2], flows.decode(0.4 * z + 0.6 * w, other), atol=1e-5)
    drawn = glow.between(model, first, last, np.array([0.0]), np.random.default_rng(0))
    assert np.abs(drawn[0] - first).max() > 0.01  # the other component makes another image of the code


def test_sentences_about_orders_are_made_of_the_numbers(load):
    orders = load("_orders")

    def record(method, k, mean, published=None, **more):
        about = {"cell": f"K {k}", "K": k, "data": "letter", "metric": "accuracy"}
        return {**about, "method": method, "mean": mean, "published": published, **more}

    mine = [record("GenMM", 1, 0.5, 0.4), record("GenMM", 3, 0.3, 0.6), record("GenMM", 5, 0.2)]
    assert list(orders.at_published("GenMM", "accuracy")(mine)) == [
        "GenMM: accuracy at or above the published one in 1 of 2 rows",
        "  not in: K 3 (0.3, published 0.6)",
    ]
    assert list(orders.falling("GenMM", "accuracy", "K", "data")(mine[::-1])) == [
        "GenMM, letter: accuracy 0.500, 0.300, 0.200 for K = 1, 3, 5; falling in 2 of 2 steps between rows"
    ]
    both = [*mine, record("GMM", 1, 0.5), record("GMM", 3, 0.4, noise="white")]
    both[1]["noise"] = "white"
    (clean,) = orders.not_below("GenMM", "GMM", "accuracy", "clean ", noise=None)(both)
    assert clean == "GenMM: accuracy not below that of GMM in 1 of 1 clean rows"
    (noisy,) = orders.not_below("GenMM", "GMM", "accuracy", noise="white")(both)
    assert noisy == "GenMM: accuracy not below that of GMM in 0 of 1 rows"
    assert list(orders.not_below("GenMM", "SVM", "accuracy")(both)) == []


@pytest.mark.slow
def test_the_small_versions_on_images_run(load, tmp_path):
    needs("mnist")
    pytest.importorskip("matplotlib")
    load("genmm_nll").TABLE.main(["--quick", "--only", "uniform", "--out", str(tmp_path)])
    told = {r["metric"]: r["mean"] for r in json.loads((tmp_path / "genmm-nll.json").read_text())}
    assert (
        told["training bits"] == pytest.approx(told["training nats"] / np.log(2)) and told["components"] > 1
    )
    load("genmm_scores").TABLE.main(["--quick", "--only", "gaussian", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "genmm-scores.json").read_text())
    by_method = {r["method"]: r["mean"] for r in records if r["metric"] == "1-NN accuracy"}
    assert abs(by_method["images"] - 0.5) < 0.2 < by_method["GenMM"] - 0.5
    load("genmm_pictures").TABLE.main(["--quick", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "genmm-pictures.json").read_text())
    assert next(r["mean"] for r in records if r["metric"] == "ends") < 0.05
