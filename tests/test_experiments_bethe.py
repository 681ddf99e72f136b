"""Small versions of the experiments on Bethe variational inference, and their models against other roads."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.families.densities import GridDensity, MixtureDensity

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)
POINTS = np.linspace(-25.0, 25.0, 501)


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def written(folder, name):
    """Records of a run, which has also made a picture."""
    assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    return json.loads((folder / f"{name}.json").read_text())


# ---------------------------------------------------------------------------------------------
# Models and measures
# ---------------------------------------------------------------------------------------------


def test_the_cycle_has_the_published_log_z(load):
    log_z, density = load("_bethe").cycle_truth(np.linspace(-30, 30, 1201))
    assert log_z == pytest.approx(-16.1737, abs=1e-4)
    assert np.trapezoid(density, np.linspace(-30, 30, 1201)) == pytest.approx(1)
    graph = load("_bethe").cycle().to_factor_graph()
    assert graph.log_score({"x0": 10.0, "x1": -10.0, "x2": 0.0}) == pytest.approx(
        -2.0 + np.log(1 + np.exp(-80)) + 2 * np.log(np.exp(-10.0) + np.exp(-50.0))
    )


def test_exact_answers_on_a_grid_are_those_of_enumeration(load):
    """A tree of three variables, summed in full."""
    bethe = load("_bethe")
    x = [credo.Variable(f"x{i}", credo.Real()) for i in range(3)]
    model = credo.HybridNet(
        x,
        [
            credo.potentials.gaussian(x[0], 1.0, 2.0),
            credo.potentials.laplace(x[0], x[1]),
            credo.potentials.laplace(x[1], x[2], scale=0.7),
            credo.potentials.gaussian(x[2]),
        ],
    )
    points = np.linspace(-8, 8, 81)
    log_z, densities = bethe.grid_truth(model, points)
    mesh = dict(zip(("x0", "x1", "x2"), np.meshgrid(*[points] * 3, indexing="ij"), strict=True))
    weight = np.exp(model.to_factor_graph().log_scores(mesh))
    assert log_z == pytest.approx(np.log(weight.sum() * 0.2**3))
    np.testing.assert_allclose(densities["x1"], weight.sum(axis=(0, 2)) / (weight.sum() * 0.2))


def test_the_trees_are_trees_and_the_second_one_needs_a_wide_grid(load):
    bethe = load("_bethe")
    for model in (bethe.smooth_tree(1), bethe.bimodal_tree()):
        graph = model.to_factor_graph()
        assert graph.is_forest and sum(len(scope) for scope in graph.scopes if len(scope) > 1) == 14
    _, wide = bethe.grid_truth(bethe.bimodal_tree(), POINTS)
    narrow_points = np.linspace(-10, 10, 200)
    _, narrow = bethe.grid_truth(bethe.bimodal_tree(), narrow_points)
    assert wide["x0"].max() == pytest.approx(0.089, abs=2e-3)  # a leaf
    assert narrow["x0"].max() > 1.5 * wide["x0"].max()


def test_divergences_of_gaussians_and_of_beliefs_with_gaps(load):
    bethe = load("_bethe")
    normal = MixtureDensity(np.ones(1), np.zeros(1), np.ones(1))
    other = MixtureDensity(np.ones(1), np.ones(1), np.full(1, 2.0))
    found = bethe.kullback_leibler(POINTS, normal.density(POINTS), other)
    assert found == pytest.approx(np.log(2) + 2 / 8 - 0.5, abs=1e-9)
    narrow = GridDensity(np.array([-1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]))
    assert 1 < bethe.kullback_leibler(POINTS, normal.density(POINTS), narrow) < 30


def test_the_noisy_picture_and_its_grid(load):
    denoising = load("bethe_denoising")
    clean = denoising.scene(50)
    assert clean.shape == (50, 50) and clean.min() == 0.1 and clean.max() == 0.9
    graph = denoising.model_of(clean[:4, :5]).to_factor_graph()
    assert len(graph.variables) == 20 and graph.n_factors == 20 + 31
    flat = {name: 0.5 for name in graph.variables.names}
    jump = {**flat, "x0,0": 1.5}
    # Four terms change: the pixel's own, and two edges that are clamped at 0.2 / 0.03.
    own = -((1.5 - clean[0, 0]) ** 2 - (0.5 - clean[0, 0]) ** 2) / 0.02
    assert graph.log_score(jump) - graph.log_score(flat) == pytest.approx(own - 2 * 0.2 / 0.03)


# ---------------------------------------------------------------------------------------------
# Marginal MAP
# ---------------------------------------------------------------------------------------------


def test_final_boards_of_tic_tac_toe(load):
    boards = load("_mmap").tic_tac_toe()
    assert len(boards["class"]) == 958 and boards["class"].sum() == 626
    squares = np.stack([boards[f"square{i}"] for i in range(9)])
    more = (squares == 1).sum(axis=0) - (squares == 2).sum(axis=0)
    assert set(more.tolist()) == {0, 1}


def test_bins_have_about_equally_many_rows(load):
    rng = np.random.default_rng(0)
    table = np.stack([rng.normal(size=300), np.round(rng.random(300))], axis=1)
    found = load("_mmap").discretise(table, np.zeros(300, dtype=int))
    assert np.bincount(found["x0"]).tolist() == [100, 100, 100]
    assert set(found["x1"].tolist()) <= {0, 1, 2} and "class" in found


def test_exact_triples_are_those_of_the_junction_tree(load):
    mmap = load("_mmap")
    model = mmap.random_tree(3, 0.7, 1)
    truth = mmap.Truth(model)
    assert len(list(truth.splits)) == 56
    for split in ((0, 3, 6), (1, 2, 7)):
        expected = credo.query(model, [truth.names[i] for i in split]).table
        np.testing.assert_allclose(truth.table(split), expected, atol=1e-12)
    best = {s: np.unravel_index(truth.table(s).argmax(), (3, 3, 3)) for s in truth.splits}
    assert not mmap.relative_errors(truth, best).any()


def test_both_methods_answer_every_split_of_a_nearly_independent_tree(load):
    mmap = load("_mmap")
    names = [f"x{i}" for i in range(4)]
    factors = {(n,): [0.2, 0.8] if i % 2 else [0.7, 0.3] for i, n in enumerate(names)}
    factors |= {(a, b): np.exp(0.05 * np.eye(2)) for a, b in itertools.pairwise(names)}
    model = credo.MarkovNet(dict.fromkeys(names, 2), factors)
    truth = mmap.Truth(model)
    for answers in (mmap.mixed_product(model, truth, 0), mmap.ask(truth, mmap.chosen_mixture(model, 2, 0))):
        assert len(answers) == 4
        assert not mmap.relative_errors(truth, answers).any()


def test_masks_take_half_of_a_grid(load):
    grids = load("bethe_mmap_grids")
    model = grids.model_of("Ising")
    for mask in ("checkerboard", "rows", "blocks"):
        assert len(grids.maximised(model, mask)) in (200, 208)
    small = grids.model_of(grids.QUICK.settings["model"])
    names = grids.maximised(small, "rows")
    best = credo.infer(small, "junction-tree", maximise=names)
    assert grids.value(small, names, best.assignment) == pytest.approx(best.log_z.value)


# ---------------------------------------------------------------------------------------------
# Quick versions
# ---------------------------------------------------------------------------------------------


def test_quick_grids(load, tmp_path, capsys):
    load("bethe_mmap_grids").TABLE.main(["--quick", "--out", str(tmp_path)])
    records = written(tmp_path, "bethe-mmap-grids")
    values = {r["method"]: r["mean"] for r in records}
    assert set(values) == {"mixed-BP", "mixture-5", "damped BP, ours", "local search, ours"}
    model = load("bethe_mmap_grids").model_of("Ising 6 x 6")
    names = load("bethe_mmap_grids").maximised(model, "checkerboard")
    exact = credo.infer(model, "junction-tree", maximise=names).log_z.value
    assert max(values.values()) <= exact + 1e-9
    assert "Table 8.6" in capsys.readouterr().out


@pytest.mark.slow
def test_quick_cycle(load, tmp_path, capsys):
    load("bethe_cycle").TABLE.main(["--quick", "--repeats", "1", "--out", str(tmp_path)])
    records = written(tmp_path, "bethe-cycle")
    assert {r["method"] for r in records} == {"QBethe", "QBethe, ours", "PBP", "PBP, ours"}
    published = {r["method"]: r["published"] for r in records}
    assert published["QBethe"] == -17.56 and published["PBP"] == -47.34
    assert "exact log Z -16.1737" in capsys.readouterr().out


@pytest.mark.slow
def test_quick_denoising(load, tmp_path, capsys):
    load("bethe_denoising").main(["--quick", "--sweeps", "2", "--out", str(tmp_path)])
    records = written(tmp_path, "bethe-denoising")
    assert {r["method"] for r in records} == {"QBethe", "QBethe, ours", "PBP", "PBP, ours", "EPBP", "EP"}
    last = {r["method"]: r["mse"] for r in records}
    assert last["QBethe"] < 0.01
    assert "305 |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bethe-trees", "bethe-chow-liu", "bethe-mmap-trees", "bethe-mmap-data"])
def test_the_other_quick_versions(load, tmp_path, name):
    pytest.importorskip("sklearn")
    load(name.replace("-", "_")).TABLE.main(["--quick", "--out", str(tmp_path)])
    assert written(tmp_path, name)


def test_the_learned_trees_have_published_rows_and_exact_marginals(load):
    pytest.importorskip("sklearn")
    chow_liu = load("bethe_chow_liu")
    cells = {tuple(c.settings.values()): c for c in chow_liu.CELLS}
    said = cells["iris", "tree"].published
    assert said["QBethe", "Z"].mean == 0.97 and said["PBP", "KL"] == (0.35, 0.33, "")
    assert not cells["wine", "chain"].published
    log_z, densities = load("_bethe").grid_truth(chow_liu.learned("iris", "tree"), np.linspace(-6, 6, 121))
    points, exact = chow_liu.exact("iris")
    assert log_z == pytest.approx(0.0, abs=1e-6)
    for name, density in densities.items():
        np.testing.assert_allclose(
            np.interp(np.linspace(-6, 6, 121), points, exact[name]), density, atol=2e-3
        )


def test_the_data_of_table_5(load):
    pytest.importorskip("sklearn")
    data = load("bethe_mmap_data")
    assert [len(data.columns(c.settings["data"])) for c in data.CELLS] == [5, 10, 11, 14]
    model, truth = data.learned("iris")
    assert truth.joint.sum() == pytest.approx(1) and model.to_factor_graph().n_factors == 5 + 4
    assert data.CELLS[0].published["mixture-10", "RE"].mean == -0.1188
