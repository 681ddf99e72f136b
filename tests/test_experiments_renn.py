"""The tables about region-based energy networks and about learning: numbers, metrics, and small versions."""

from __future__ import annotations

import importlib
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import credo

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)
TINY = {"graph": "grid", "N": 9, "gamma": 0.1, "width": 8, "steps": 5}
# experiment -> (cells, methods, metrics) of the published table
SHAPES = {
    "renn_grid": (8, 6, 3),
    "renn_infinite_face": (2, 2, 3),
    "renn_complete": (10, 6, 3),
    "renn_range": (8, 6, 3),
    "renn_time": (4, 6, 1),
    "renn_penalty": (8, 1, 3),
    "renn_layers": (6, 4, 3),
}


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture
def shared(load):
    return load("_renn")


@pytest.mark.parametrize("name", SHAPES)
def test_every_published_number_has_its_place(load, name: str):
    cells, methods, metrics = SHAPES[name]
    table = load(name).TABLE
    assert len(table.cells) == len({c.key for c in table.cells}) == cells
    assert all(len(c.published) == methods * metrics for c in table.cells)
    assert table.name == name.replace("_", "-")


def test_some_numbers_are_those_of_the_source(load):
    grid = {(c.settings["N"], c.settings["gamma"]): c.published for c in load("renn_grid").TABLE.cells}
    assert grid[225, 0.1]["RENN", "correlation"][:2] == (0.949, 0.022)
    assert grid[400, 1.0]["inference net", "log Z error"][:2] == (46.61, 3.094)
    complete = {(c.settings["N"], c.settings["gamma"]): c.published for c in load("renn_complete").CELLS}
    assert complete[16, 3.0]["RENN", "l1 error"][:2] == (0.138, 0.106)
    wide = {(c.settings["graph"], c.settings["u"]): c.published for c in load("renn_range").CELLS}
    assert wide["grid", 10.0]["GBP", "log Z error"][:2] == (16.18, 10.32)
    layers = [c for c in load("renn_layers").CELLS if c.settings["graph"] == "complete"]
    assert layers[2].published["6 residual", "correlation"] == (0.040, None, "")


def test_only_columns_of_wrong_baselines_are_doubted(load):
    for cell in load("renn_grid").CELLS:
        assert {m for (m, _), p in cell.published.items() if p.doubt} == {"GBP"}
    for cell in load("renn_complete").CELLS:
        assert {m for (m, _), p in cell.published.items() if not p.doubt} == {"RENN"}
    doubted = [
        c.settings for c in load("renn_penalty").TABLE.cells if any(p.doubt for p in c.published.values())
    ]
    assert doubted == [{"graph": "grid", "gamma": 0.1, "N": 100}]


def test_a_line_with_a_missing_number_is_refused(shared):
    with pytest.raises(ValueError, match="expected 1 pairs of numbers, got 1 numbers"):
        shared.published("l1 25 0.3", ("RENN",))


def test_models_have_the_couplings_they_should(shared):
    uniform = shared.model_of({"graph": "grid", "N": 100, "u": 5.0}, 0).to_factor_graph()
    pairs = [uniform.log_table(a)[1, 1] for a in range(uniform.n_factors) if len(uniform.scope_of(a)) == 2]
    assert len(pairs) == 180 and 4 < np.abs(pairs).max() < 5
    normal = shared.model_of({"graph": "complete", "N": 16, "gamma": 2.0}, 0).to_factor_graph()
    fields = [normal.log_table(a)[1] for a in range(normal.n_factors) if len(normal.scope_of(a)) == 1]
    assert len(fields) == 16 and 1 < np.std(fields) < 3


def test_metrics_are_those_of_the_joint_table(shared):
    model = shared.model_of({"graph": "grid", "N": 4, "gamma": 1.0}, 3)
    graph = model.to_factor_graph()
    states = np.array(list(itertools.product((0, 1), repeat=4)))
    factors = [(graph.scope_of(a), graph.log_table(a)) for a in range(graph.n_factors)]
    scores = np.array([sum(table[tuple(s[scope])] for scope, table in factors) for s in states])
    p = np.exp(scores - scores.max())
    p /= p.sum()
    edges = [scope for scope, _ in factors if len(scope) == 2]
    vector = [p @ states[:, i] for i in range(4)] + [p @ (states[:, i] * states[:, j]) for i, j in edges]
    exact = credo.infer(model, "junction-tree")
    np.testing.assert_allclose(shared.beliefs(exact), vector, atol=1e-12)
    same = shared.errors(exact, exact)
    assert same["l1 error"] == 0 and same["log Z error"] == 0 and same["correlation"] == pytest.approx(1)
    found = credo.infer(model, "mean-field")
    off = shared.errors(found, exact)
    assert off["l1 error"] == pytest.approx(np.abs(shared.beliefs(found) - vector).mean())
    assert off["log Z error"] == pytest.approx(exact.log_z.value - found.log_z.value)


def test_a_constant_vector_has_no_correlation(shared):
    flat = credo.infer(credo.datasets.ising_grid(2, coupling=0.0, field=0.0), "junction-tree")
    # Variables believe 1/2 and pairs 1/4, so only a model without edges is constant.
    alone = credo.infer(credo.MarkovNet({"a": 2, "b": 2}, {("a",): [1, 1], ("b",): [1, 1]}), "junction-tree")
    assert "correlation" in shared.errors(flat, flat)
    assert "correlation" not in shared.errors(alone, alone)


def test_hub_regions_hold_every_pair_and_a_hub_of_one_is_a_star(shared):
    regions = shared.hub_regions(9, 3)
    assert len(regions) == 15 and {len(r) for r in regions} == {5}
    pairs = {pair for r in regions for pair in itertools.combinations(r, 2)}
    assert len(pairs) == 36
    assert len(shared.hub_regions(16, 1)) == 105
    model = shared.model_of({"graph": "complete", "N": 6, "gamma": 1.0}, 0)
    named = credo.infer(model, credo.inference.algorithms.get("gbp")(regions=shared.hub_regions(6, 1)))
    star = credo.infer(model, "gbp(regions=star)")
    assert named.log_z.value == pytest.approx(star.log_z.value, abs=1e-6)


def test_rows_where_the_better_setting_is_worse_are_named(load, shared, capsys):
    tables = load("_tables")
    said = {("RENN", "l1 error"): tables.Published(0.1, 0.01)}
    cells = [tables.Cell({"N": n}, said) for n in (1, 2)]
    table = shared.Rows("toy", "Toy", cells, lambda cell, seeds: [], metrics=shared.METRICS)
    found = {
        cell.key: {0: {"RENN": {"l1 error": 0.1}, shared.OURS: {"l1 error": value}}}
        for cell, value in zip(cells, (0.05, 0.2), strict=True)
    }
    table.report(table.records(cells, found))
    out = capsys.readouterr().out
    assert "below the published RENN in 1 of 2 rows" in out
    assert "not in: N 2 (0.200, published 0.100)" in out


def test_the_page_shows_what_was_measured_and_what_was_not(load, tmp_path):
    page, cells = load("_page"), load("renn_penalty").TABLE.cells
    values = {"RENN, no penalty": {"l1 error": 0.0751, "correlation": 0.9, "log Z error": 0.5}}
    lines = [json.dumps({"cell": cells[0].key, "seed": s, "values": values}) for s in range(2)]
    (tmp_path / "renn-penalty.jsonl").write_text("\n".join(lines) + "\n")
    blocks = [f"<!-- table {name} -->\nold\n<!-- end -->\n" for name in ("renn-penalty", "renn-grid")]
    (tmp_path / "page.md").write_text("before\n" + "".join(blocks) + "after\n")
    page.main(["--out", str(tmp_path), "--page", str(tmp_path / "page.md")])
    shown = (tmp_path / "page.md").read_text()
    assert "| grid, gamma = 0.1, N = 25 | 2 | 0.075 / 0.075 ± 0.000 |" in shown
    assert "Not measured yet: grid, gamma = 1, N = 25;" in shown and "old" not in shown
    assert "- RENN, no penalty: 3 of 3 means within two published standard deviations" in shown
    assert "<!-- table renn-grid -->\n\nNot measured yet.\n\n<!-- end -->\nafter" in shown


def test_rows_of_the_page_stay_where_the_folder_knows_nothing(load, tmp_path):
    page, cells = load("_page"), load("renn_penalty").TABLE.cells
    file, text = tmp_path / "renn-penalty.jsonl", tmp_path / "page.md"
    text.write_text("<!-- table renn-penalty -->\n<!-- end -->\n")
    for cell, error in ((cells[1], 0.125), (cells[0], 0.25)):
        values = {"RENN, no penalty": {"l1 error": error, "log Z error": 2 * error}}
        file.write_text(json.dumps({"cell": cell.key, "seed": 0, "values": values}) + "\n")
        page.main(["--out", str(tmp_path), "--page", str(text)])
    rows = [line for line in text.read_text().split("\n") if "± 0.000" in line]
    assert [row.split(" | ")[0] for row in rows] == 2 * [
        "| grid, gamma = 0.1, N = 25",
        "| grid, gamma = 1, N = 25",
    ]
    assert rows[1].endswith("/ 0.125 ± 0.000 |") and rows[3].endswith("/ 0.250 ± 0.000 |")
    assert "RENN, no penalty: 3 of 4 means" in text.read_text()


@pytest.mark.parametrize(
    ("name", "extra", "methods"),
    [
        (
            "renn_grid",
            {},
            {"mean field", "loopy BP", "damped BP", "GBP", "inference net", "RENN", "RENN, ours"},
        ),
        pytest.param("renn_infinite_face", {}, {"GBP", "RENN", "RENN, ours"}, marks=pytest.mark.slow),
        ("renn_penalty", {}, {"RENN, no penalty"}),
        pytest.param("renn_layers", {"attention": 0}, {"0 residual", "2 residual"}, marks=pytest.mark.slow),
        (
            "renn_time",
            {},
            {"mean field", "loopy BP", "damped BP", "GBP", "inference net", "RENN", "RENN, ours"},
        ),
    ],
)
def test_a_small_version_writes_numbers_and_a_picture(
    load, name, extra, methods, tmp_path, capsys, monkeypatch
):
    module, tables = load(name), load("_tables")
    if name == "renn_layers":
        monkeypatch.setattr(module, "RESIDUAL", (0, 2))
    small = replace(module.TABLE, quick=(tables.Cell({**TINY, **extra}),))
    small.main(["--quick", "--out", str(tmp_path)])
    records = json.loads((tmp_path / f"{small.name}.json").read_text())
    assert {r["method"] for r in records} == methods
    assert all(r["repeats"] == 2 for r in records)
    assert (tmp_path / f"{small.name}.png").read_bytes()[:4] == b"\x89PNG"
    assert "published | measured" in capsys.readouterr().out
    if name == "renn_grid":
        error = {r["method"]: r["mean"] for r in records if r["metric"] == "l1 error"}
        assert error["RENN, ours"] == pytest.approx(error["GBP"], abs=1e-4)
        assert error["GBP"] < error["loopy BP"] < error["mean field"]


@pytest.mark.slow
def test_larger_regions_help_on_a_complete_graph(shared):
    settings = {"graph": "complete", "N": 6, "gamma": 1.0, "width": 8, "steps": 5}
    chosen = {k: m for k, m in shared.methods(settings).items() if k in ("GBP", shared.OURS)}
    found = shared.compare(settings, [1000, 1001], chosen)
    error = {k: np.mean([f[k]["l1 error"] for f in found]) for k in chosen}
    assert error[shared.OURS] < error["GBP"]


def test_features_of_an_ising_model_are_the_model(load, shared):
    model = shared.model_of({"graph": "grid", "N": 9, "gamma": 0.5}, 1)
    same = load("mrf_learning").as_features(model)
    assert credo.infer(same, "junction-tree").log_z.value == pytest.approx(
        credo.infer(model, "junction-tree").log_z.value
    )


def test_learning_with_exact_inference_reaches_the_generating_model(load):
    learning = load("mrf_learning")
    found = learning.one(
        {"graph": "complete", "N": 4, "gamma": 1.0, "steps": 300}, 0, ["exact", "mean field"]
    )
    assert abs(found["exact"]["excess"]) < 0.02  # 10 weights from 2000 rows cost 10 / 4000
    assert found["mean field"]["excess"] > found["exact"]["excess"]


def test_the_small_version_of_learning_runs_all_methods(load, tmp_path):
    learning = load("mrf_learning")
    tables = load("_tables")
    small = replace(learning.TABLE, quick=(tables.Cell({**TINY, "steps": 3}),))
    small.main(["--quick", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "mrf-learning.json").read_text())
    assert {r["method"] for r in records} == {"true", *learning.METHODS}
    assert {r["metric"] for r in records} == {"test NLL", "excess", "seconds"}
