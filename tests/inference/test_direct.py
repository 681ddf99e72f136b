from __future__ import annotations

import signal
import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError
from credo.core.result import Status
from credo.inference.neural.direct import BetheDirect, RegionDirect
from credo.inference.problem import free_energy
from credo.nn.optimise import CompiledAdam


def quietly(model, method, **question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, **question)


def chain():
    rng = np.random.default_rng(0)
    pairs = {(f"v{i}", f"v{i + 1}"): rng.gamma(1.0, size=(3, 3)) + 0.2 for i in range(4)}
    return credo.FactorGraph({f"v{i}": 3 for i in range(5)}, pairs)


def test_the_bethe_minimum_of_a_tree_is_exact():
    exact = credo.infer(chain(), "junction-tree")
    found = quietly(chain(), "bethe-direct", seed=0)
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-6)
    np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-4)


def test_the_bethe_minimum_of_a_weak_loop_is_the_fixed_point_of_bp():
    grid = credo.datasets.ising_grid(3, coupling="uniform(low=-0.5, high=0.5)", seed=1)
    bp, found = credo.infer(grid, "bp"), quietly(grid, "bethe-direct", seed=0)
    assert found.log_z.value == pytest.approx(bp.log_z.value, abs=1e-6)
    np.testing.assert_allclose(found.marginals.flat, bp.marginals.flat, atol=1e-4)
    graph = grid.to_factor_graph()
    energy = free_energy.bethe(graph, found.marginals.flat, found.factor_marginals.flat)
    assert -energy == pytest.approx(found.log_z.value, abs=1e-6)


def test_the_region_minimum_is_the_fixed_point_of_gbp():
    grid = credo.datasets.ising_grid(3, coupling="uniform(low=-0.5, high=0.5)", seed=1)
    gbp, found = credo.infer(grid, "gbp"), quietly(grid, "region-direct", seed=0)
    assert found.log_z.value == pytest.approx(gbp.log_z.value, abs=1e-6)
    np.testing.assert_allclose(found.marginals.flat, gbp.marginals.flat, atol=1e-4)


@pytest.mark.parametrize("method", ["bethe-direct", "region-direct"])
def test_converged_means_that_gradient_and_disagreement_vanish(method):
    for seed in (0, 1):
        found = quietly(credo.datasets.ising_grid(4, seed=seed), method, seed=0)
        assert found.converged == (found.trace["residual"][-1] < 1e-8)
        assert not found.converged or found.trace["penalty"][-1] < 1e-6
        np.testing.assert_array_equal(found.trace["log_z"], -found.trace["free_energy"])


def test_zeros_stay_zeros():
    tables = {("a", "b"): [[1, 0], [2, 3]], ("b", "c"): [[0, 1], [1, 1]], ("c", "a"): [[1, 2], [3, 4]]}
    graph = credo.FactorGraph({"a": 2, "b": 2, "c": 2}, tables)
    for method in ("bethe-direct", "region-direct"):
        found = quietly(graph, method, seed=0, max_iter=100)
        assert found.factor_marginals[0][0, 1] == 0
        assert found.factor_marginals[1][0, 0] == 0
        assert np.isfinite(found.marginals.flat).all()


def test_a_batch_gives_what_single_runs_give():
    grids = [credo.datasets.ising_grid(3, seed=s) for s in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        batch = credo.infer_models(grids, "bethe-direct(rounds=2, stop=0)", seed=0, tol=0, max_iter=100)
    for k, grid in enumerate(grids):
        alone = quietly(grid, "bethe-direct(rounds=2, stop=0)", seed=0, tol=0, max_iter=100)
        np.testing.assert_allclose(batch[k].marginals.flat, alone.marginals.flat, atol=1e-7)
        assert len(alone.trace["objective"]) == 100


@pytest.mark.parametrize("cls", [BetheDirect, RegionDirect])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"rounds": 1}, "rounds must be at least 2"),
        ({"rate": -1.0}, "rate must be at least 0"),
        ({"penalty": -1.0}, "penalty must be at least 0"),
        ({"stop": -1.0}, "stop must be at least 0"),
    ],
)
def test_bad_options_are_refused(cls, option, message):
    with pytest.raises(OptionError, match=message):
        cls(**option)


@pytest.mark.parametrize(
    ("method", "budget", "taken"),
    [("rounds=50", 10, 10), ("rounds=50", 60, 60), ("rounds=50", 1, 1), ("rounds=2", 0, 0)],
)
def test_as_many_steps_are_taken_as_allowed(method, budget, taken):
    found = quietly(
        credo.datasets.ising_grid(3, seed=0),
        f"bethe-direct(stop=0, {method})",
        max_iter=budget,
        tol=0,
        seed=0,
    )
    assert len(found.trace.get("objective", ())) == taken
    assert np.isfinite(found.marginals.flat).all()


def test_steps_that_the_rounds_leave_over_are_taken():
    found = quietly(
        credo.datasets.ising_grid(4, seed=1), "bethe-direct(rounds=2, stop=1e-8)", max_iter=300, seed=0
    )
    assert found.converged or len(found.trace["objective"]) == 300


def test_rounds_share_the_time():
    grid = credo.datasets.ising_grid(3, seed=0)
    found = quietly(grid, "bethe-direct(stop=0, rounds=4)", seconds=0.0, tol=0, seed=0, max_iter=100)
    assert found.status is Status.OUT_OF_TIME
    assert len(found.trace["objective"]) == 1


def test_ctrl_c_between_two_rounds_keeps_what_was_found(monkeypatch):
    grid, real, steps = credo.datasets.ising_grid(3, seed=0), CompiledAdam.advance, []

    def pressed(*arguments):
        found = real(*arguments)
        steps.append(len(found[1]["change"]))
        if sum(steps) == 50:  # the end of the second round
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(CompiledAdam, "advance", pressed)
    found = quietly(grid, "bethe-direct(stop=0, rounds=4)", tol=0, seed=0, max_iter=100)
    assert found.status is Status.INTERRUPTED
    assert len(found.trace["objective"]) == 50 and np.isfinite(found.marginals.flat).all()


def test_bad_regions_are_refused():
    with pytest.raises(OptionError, match="regions must be one of"):
        RegionDirect(regions="provinces")
    with pytest.raises(OptionError, match="max_entries must be at least 8"):
        RegionDirect(max_entries=2)
