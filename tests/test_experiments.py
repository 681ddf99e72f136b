"""Small versions of the experiments, and their own kernels against the library."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.inference.problem.base import algorithms

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


@pytest.fixture
def mimo(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("mimo")


@pytest.fixture
def convergence(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("convergence")


def _graph(couplings: np.ndarray, fields: np.ndarray) -> credo.FactorGraph:
    """All draws as one model with disconnected parts; state 0 is -1."""
    draws, n = fields.shape
    i, j = np.triu_indices(n, 1)
    spins = np.array([-1.0, 1.0])
    pairs = np.stack([i, j], axis=1)[None] + n * np.arange(draws)[:, None, None]
    tables = couplings[:, i, j].reshape(-1, 1, 1) * np.outer(spins, spins)
    return credo.FactorGraph.from_arrays(
        np.full(draws * n, 2),
        (pairs.reshape(-1, 2), tables),
        (np.arange(draws * n)[:, None], fields.reshape(-1, 1) * spins),
        log=True,
    )


def _draws(mimo, ratio: float, count: int = 20):
    channel, received, sent = mimo.draw(count, ratio, np.random.default_rng(0))
    return channel, received, sent, *mimo.model(channel, received, ratio)


def test_the_channel_is_a_complex_one_of_unit_gain(mimo):
    channel, _, sent = mimo.draw(4000, 4.0, np.random.default_rng(1))
    half = mimo.N // 2
    np.testing.assert_array_equal(channel[:, :half, :half], channel[:, half:, half:])
    np.testing.assert_array_equal(channel[:, :half, half:], -channel[:, half:, :half])
    assert (channel**2).sum(axis=1).mean() == pytest.approx(1, rel=0.02)
    assert set(np.unique(sent)) == {-1, 1}


def test_couplings_and_fields_make_the_posterior(mimo):
    ratio = 3.0
    channel, received, _, couplings, fields = _draws(mimo, ratio, 3)
    rng = np.random.default_rng(2)
    for d in range(3):
        x, y = rng.choice([-1.0, 1.0], size=(2, mimo.N))
        score = [fields[d] @ v + 0.5 * v @ couplings[d] @ v for v in (x, y)]
        square = [-0.5 * ratio * ((channel[d] @ v - received[d]) ** 2).sum() for v in (x, y)]
        assert score[0] - score[1] == pytest.approx(square[0] - square[1], rel=1e-10)


def test_enumeration_is_the_junction_tree(mimo):
    *_, couplings, fields = _draws(mimo, 4.0, 3)
    best, means = mimo.exact(couplings, fields)
    graph = _graph(couplings, fields)
    p = credo.infer(graph, "junction-tree").marginals.flat.reshape(3, mimo.N, 2)
    np.testing.assert_allclose(means, p[:, :, 1] - p[:, :, 0], atol=1e-10)
    states = credo.infer(graph, "junction-tree", maximise="all").assignment.indices.reshape(3, mimo.N)
    np.testing.assert_array_equal(best, 2 * states - 1)


@pytest.mark.parametrize(
    ("alpha", "eta", "spec"),
    [
        (1.0, 1.0, "bp"),
        (1.0, 0.5, "bp(damping=0.5)"),
        (0.5, 0.5, "alpha-bp(alpha=0.5)"),
        (0.3, 0.3, "alpha-bp(alpha=0.3)"),
        (4.0, 1.0, "fractional-bp(power=4, damping=0)"),
        (4.0, 1.0, "trw"),
    ],
)
def test_the_kernel_finds_the_fixed_points_of_the_library(mimo, alpha: float, eta: float, spec: str):
    *_, couplings, fields = _draws(mimo, 0.3)
    odds = mimo.message_passing(couplings, fields, alpha, eta, 2000)
    p = credo.infer(_graph(couplings, fields), spec, tol=1e-13, max_iter=5000).marginals.flat.reshape(-1, 2)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds.ravel())), p[:, 1], atol=1e-8)


def test_the_mean_field_kernel_finds_the_fixed_points_of_the_library(mimo):
    *_, couplings, fields = _draws(mimo, 0.3)
    means = mimo.mean_field(couplings, fields, 500).ravel()
    p = credo.infer(_graph(couplings, fields), "mean-field", tol=1e-12).marginals.flat.reshape(-1, 2)
    np.testing.assert_allclose(means, p[:, 1] - p[:, 0], atol=1e-6)


def test_the_mmse_prior_is_the_prior_of_alpha_bp(mimo):
    ratio = 0.3
    channel, received, _, couplings, fields = _draws(mimo, ratio, 1)
    mean, variance = mimo.mmse(channel, received, ratio)
    prior = {
        f"x{i}": np.exp(-((np.array([-1.0, 1.0]) - mean[0, i]) ** 2) / (2 * variance[0, i]))
        for i in range(mimo.N)
    }
    method = algorithms.get("alpha-bp")(alpha=0.5, prior=prior)
    p = credo.infer(_graph(couplings, fields), method, tol=1e-12).marginals.flat.reshape(-1, 2)
    odds = mimo.message_passing(couplings, fields + mean / variance, 0.5, 0.5, 500)[0]
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), p[:, 1], atol=1e-9)


def test_a_complex_symbol_is_wrong_if_either_part_is(mimo):
    sent = np.ones((1, 8))
    decisions = np.array([[-1, 1, 1, 1, -1, -1, 1, 1.0]])
    found = mimo.rates(decisions, sent)
    assert found["symbol_error"] == 0.5
    assert found["bit_error"] == 3 / 8


def test_the_order_of_the_detectors(mimo):
    records = {r["method"]: r for r in mimo.run(800, np.array([14.0]), 0)}
    rate = {method: record["symbol_error"] for method, record in records.items()}
    assert rate["MAP"] < rate["alpha 0.5 + MMSE"] < rate["alpha 0.5"] < rate["MMSE"] < rate["BP"]
    for record in records.values():
        assert record["z"] is None or abs(record["z"]) < 4.5


def test_mimo_writes_numbers_and_a_picture(mimo, tmp_path, capsys):
    mimo.main(["--draws", "10", "--quick", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "mimo.json").read_text())
    assert len(records) == 5 * len(mimo.METHODS)
    assert (tmp_path / "mimo.csv").read_text().startswith("ratio,method,draws,symbol_error")
    assert (tmp_path / "mimo.png").read_bytes()[:4] == b"\x89PNG"
    said = capsys.readouterr()
    assert "reference | measured" in said.out
    assert said.err == ""  # no progress bar where nobody looks


def test_stopping_by_hand_keeps_what_was_found(mimo, monkeypatch, capsys):
    real, calls = mimo.decide, []

    def decide(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(mimo, "decide", decide)
    assert len(mimo.run(5, np.array([1.0]), 0)) == 2
    assert "what was found so far is kept" in capsys.readouterr().err


def test_singular_values_are_those_of_the_reference(convergence):
    for record in convergence.singular_values(6, (0.05, 0.2), seed=1):
        assert abs(record["z"]) < 4
    weak, strong = convergence.singular_values(2, (0.01, 0.3), seed=0)[:2]
    assert weak["mean"] < 1 < strong["mean"]


def test_certified_graphs_converge_and_others_need_not(convergence):
    certified, _ = convergence.error_curves("b", 4, seed=0)
    assert certified.shape == (4, 200)
    assert (certified[:, 100] < 1e-9).all()
    free, refused = convergence.error_curves("a", 4, seed=0)
    assert refused == 0
    assert free[:, 100].max() > 1e-3


def test_a_graph_without_edges_is_no_problem(convergence):
    graph = convergence.random_graph(0.0, 0.1, 0)
    assert convergence.largest_singular_value(graph, 0.5) == 0
    assert not convergence.message_errors(graph, 0.5, 5).any()


def test_convergence_writes_numbers_and_pictures(convergence, tmp_path, capsys):
    convergence.main(["--quick", "--graphs", "2", "--out", str(tmp_path)])
    assert len(json.loads((tmp_path / "singular-values.json").read_text())) == 12
    assert len(json.loads((tmp_path / "message-errors.json").read_text())) == 400
    for name in ("singular-values", "message-errors"):
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / f"{name}.csv").is_file()
    assert "Figure 3.4b" in capsys.readouterr().out
