"""`on_step` in the public calls."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning
from credo.core.result import Status
from credo.inference.messages.bp import BP
from credo.models.normal_form_build import embedding


def test_observers_see_answers_about_the_model_that_was_asked_about():
    seen = []

    def watch(iteration, view):
        found = view.result()
        seen.append((iteration, len(found.marginals.flat), found.marginals["x0"][1]))
        view.stop()

    grid = credo.datasets.ising_grid(6, coupling="normal(scale=2)", seed=0)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(
            grid, "bp(damping=0.5)", evidence={"x0": 1}, tol=0.0, max_iter=10**8, on_step=watch
        )
    assert found.status is Status.INTERRUPTED
    assert seen == [(seen[0][0], 72, 1.0)]


def test_observers_of_fit_see_the_learner_not_the_inference_inside():
    seen = []
    asia = credo.datasets.asia()
    data = credo.sample(asia, 50, seed=0).to_frame().drop(columns=["either"])
    credo.fit(asia, data, "em", inference="bp", max_iter=3, on_step=lambda step, view: seen.append(step))
    assert seen and max(seen) <= 4


GRID = credo.datasets.ising_grid(5, coupling="normal(scale=1)", seed=0)


def views(call, *arguments, **options):
    """What an observer of a call sees, looked at while it runs."""
    seen = []

    def watch(iteration, view):
        names = ("residual", "beliefs", "log_z", "bound", "energy", "messages", "parameters")
        seen.append({name: getattr(view, name) for name in names})

    return call(*arguments, on_step=watch, **options), seen


def test_observers_of_messages_see_beliefs_messages_and_the_free_energy():
    _, seen = views(credo.infer, GRID, "bp(damping=0.3)", evidence={"x3": 1})
    last = seen[-1]
    assert last["residual"] is not None and last["bound"] is None and last["parameters"] is None
    assert last["energy"] == -last["log_z"].value
    assert len(last["beliefs"].flat) == 50
    graph = GRID.to_factor_graph()
    edges = [(a, graph.variables.names[i]) for a in range(graph.n_factors) for i in graph.scope_of(a)]
    assert list(last["messages"]) == edges
    assert all(np.exp(m).sum() == pytest.approx(1) for m in last["messages"].values())
    # Beliefs are products of the messages that arrive.
    arriving = sum(m for (_, name), m in last["messages"].items() if name == "x7")
    weights = np.exp(arriving - arriving.max())
    np.testing.assert_allclose(weights / weights.sum(), last["beliefs"]["x7"], atol=1e-12)


def test_observers_of_bounds_see_the_bound():
    wide = credo.datasets.ising_grid(8, coupling="normal(scale=1)", seed=0)
    found, seen = views(credo.infer, wide, "gdd(ibound=2)", max_iter=500, tol=1e-6)
    assert seen[0]["bound"] == seen[0]["log_z"].value >= found.log_z.value - 1e-9
    assert seen[0]["log_z"].kind == "upper" and seen[0]["messages"] is None


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_observers_of_searches_see_the_energy_of_the_states():
    _, seen = views(credo.infer, GRID, "local-search(patience=2,block=0)", maximise="all", seed=0)
    assert seen[-1]["energy"] == pytest.approx(-seen[-1]["log_z"].value) and seen[-1]["beliefs"] is None


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_observers_of_chains_see_marginals():
    _, seen = views(credo.infer, GRID, "gibbs", seed=0, max_iter=300)
    assert seen and all(s["beliefs"] is None or np.isfinite(s["beliefs"].flat).all() for s in seen)
    assert seen[-1]["beliefs"] is not None


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("learner", ["em", "vb", "likelihood", "blocks"])
def test_observers_of_learners_see_parameters(learner):
    bits = np.random.default_rng(0).integers(2, size=(50, 2))
    model = credo.BayesNet.random(dict.fromkeys("hab", 2), {"a": ["h"], "b": ["h"]}, seed=0)
    if learner == "blocks":
        model = embedding({"a": 2, "b": 2}, 2)
    if learner == "likelihood":
        model = credo.MarkovNet(
            dict.fromkeys("hab", 2), {("a", "h"): [[1, 2], [3, 1]], ("b", "h"): [[2, 1], [1, 3]]}
        )
    data = {"a": bits[:, 0], "b": bits[:, 1]}
    _, seen = views(credo.fit, model, data, learner, max_iter=20, seed=0)
    assert seen and seen[-1]["parameters"] is not None and seen[-1]["beliefs"] is None


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_an_observer_of_a_fit_sees_the_model_so_far_and_stops_it():
    asia = credo.datasets.asia()
    data = credo.sample(asia, 50, seed=0).to_frame().drop(columns=["either"])
    models = []

    def watch(iteration, view):
        models.append(view.result().model)
        view.stop()

    found = credo.fit(asia, data, "em", tol=0.0, max_iter=10**6, on_step=watch)
    assert found.status is Status.INTERRUPTED and len(models) == 1
    assert models[0].tables["tub"] == pytest.approx(found.model.tables["tub"])


def test_an_observer_who_asks_for_nothing_makes_nobody_read(monkeypatch):
    read, whole = [], BP.read
    monkeypatch.setattr(BP, "read", lambda *given: read.append(1) or whole(*given))
    credo.infer(GRID, "bp(damping=0.3)", on_step=lambda iteration, view: view.residual)
    assert len(read) == 1  # the answer


@pytest.mark.parametrize(
    "method",
    ["bp(damping=0.3)", "trw", "fractional-bp", "alpha-bp(alpha=0.8)", "gbp", "trp"],
)
def test_the_value_of_every_step_is_traced_where_asked(method):
    plain = credo.infer(GRID, method)
    found = credo.infer(GRID, method, trace=True)
    assert "log_z" not in plain.trace
    curve, change = found.trace["log_z"], found.trace["change"]
    assert len(curve) == len(change) > 5 and np.isfinite(curve).all()
    assert curve[-1] == pytest.approx(found.log_z.value, abs=1e-9)
    assert found.status is plain.status is Status.CONVERGED
    np.testing.assert_allclose(found.marginals.flat, plain.marginals.flat, atol=1e-6)
    assert abs(curve[0] - curve[-1]) > 1e-3, "the curve shows something"


def test_methods_that_record_their_value_by_themselves_do_not_do_it_twice():
    found = credo.infer(GRID, "gdd", max_iter=300, trace=True)
    assert set(found.trace) == {"bound", "raw", "change"}
    assert len(found.trace["bound"]) == len(found.trace["change"])


@pytest.mark.parametrize("seed", range(4))
def test_tracing_ends_where_a_plain_run_ends_among_nearly_certain_messages(seed):
    grid = credo.datasets.ising_grid(4, coupling="normal(scale=8)", field="normal(scale=2)", seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain, traced = (credo.infer(grid, "bp", trace=trace) for trace in (False, True))
    assert traced.status is plain.status
    if plain.converged:
        np.testing.assert_allclose(traced.marginals.flat, plain.marginals.flat, atol=1e-6)
