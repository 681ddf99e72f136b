"""Random models: structure, energies by hand, distributions, seeds and every refusal."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import credo
from credo import datasets
from credo.core.errors import CredoError, OptionError
from credo.datasets.distributions import distribution

GENERATORS = {
    "ising_grid": lambda seed: datasets.ising_grid(3, 4, seed=seed),
    "potts_grid": lambda seed: datasets.potts_grid(3, 4, states=4, coupling="normal", seed=seed),
    "complete_ising": lambda seed: datasets.complete_ising(6, seed=seed),
    "erdos_renyi_ising": lambda seed: datasets.erdos_renyi_ising(12, 0.4, seed=seed),
    "random_tree": lambda seed: datasets.random_tree(15, states=3, seed=seed),
    "random_factor_graph": lambda seed: datasets.random_factor_graph(9, 7, 3, 2, seed, zeros=0.3),
    "random_bayes_net": lambda seed: datasets.random_bayes_net(20, seed=seed),
}


def scopes(model, arity: int = 2) -> list[tuple[int, ...]]:
    graph = model.to_factor_graph()
    found = (tuple(map(int, graph.scope_of(a))) for a in range(graph.n_factors))
    return [s for s in found if len(s) == arity]


def couplings(model) -> np.ndarray:
    """J of every edge: the log weight of two spins up."""
    graph = model.to_factor_graph()
    return np.array([graph.log_table(a)[1, 1] for a in range(graph.n_factors) if len(graph.scope_of(a)) == 2])


def fields(model) -> np.ndarray:
    graph = model.to_factor_graph()
    return np.array([graph.log_table(a)[1] for a in range(graph.n_factors) if len(graph.scope_of(a)) == 1])


def test_every_generator_is_tested_here():
    functions = [name.replace("-", "_") for name in datasets.names()]
    random = [f for f in functions if "seed" in inspect.signature(getattr(datasets, f)).parameters]
    assert sorted(GENERATORS) == sorted(random)


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_seed_gives_the_same_model_and_another_seed_another(name):
    make = GENERATORS[name]
    assert make(3) == make(3)
    assert make(3) != make(4)


# Ising and Potts -----------------------------------------------------------------------------


def test_a_grid_has_its_horizontal_edges_row_by_row_then_its_vertical_ones():
    model = datasets.ising_grid(2, 3)
    assert scopes(model) == [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    assert scopes(model, 1) == [(i,) for i in range(6)]
    assert len(datasets.ising_grid(4).variables) == 16


def test_the_energy_of_a_two_by_two_grid_is_the_one_by_hand():
    graph = datasets.ising_grid(2, coupling=0.5, field=0.25).to_factor_graph()
    up, one_down = (
        dict.fromkeys(["x0", "x1", "x2", "x3"], "+1"),
        {"x0": "-1", "x1": "+1", "x2": "+1", "x3": "+1"},
    )
    assert graph.log_score(up) == pytest.approx(4 * 0.5 + 4 * 0.25)
    assert graph.log_score(one_down) == pytest.approx(2 * 0.5 - 2 * 0.5 + 2 * 0.25)
    checkerboard = {"x0": "-1", "x1": "+1", "x2": "+1", "x3": "-1"}
    assert graph.log_score(checkerboard) == pytest.approx(-4 * 0.5)


def test_the_partition_function_of_a_free_two_by_two_grid_is_that_of_a_ring():
    # A ring of four spins: Z = (2 cosh J)^4 + (2 sinh J)^4.
    found = credo.infer(datasets.ising_grid(2, coupling=0.8, field=None), "enumerate").log_z.value
    assert found == pytest.approx(np.log((2 * np.cosh(0.8)) ** 4 + (2 * np.sinh(0.8)) ** 4), abs=1e-12)


def test_the_energy_of_a_potts_grid_is_the_one_by_hand():
    graph = datasets.potts_grid(1, 3, states=4, coupling=0.7, field=0.1).to_factor_graph()
    assert graph.log_score({"x0": 3, "x1": 3, "x2": 1}) == pytest.approx(0.7 + 3 * 0.1)
    assert datasets.potts_grid(2, field=None).to_factor_graph().n_factors == 4


def test_a_complete_graph_joins_every_pair_once():
    assert sorted(scopes(datasets.complete_ising(5))) == [(i, j) for i in range(5) for j in range(i + 1, 5)]
    assert datasets.complete_ising(1, field=None).to_factor_graph().n_factors == 0


def test_a_random_graph_has_distinct_ordered_pairs_in_the_expected_number():
    n, p = 300, 0.1
    edges = scopes(datasets.erdos_renyi_ising(n, p, seed=1))
    pairs = n * (n - 1) / 2
    assert len(set(edges)) == len(edges) and all(i < j < n for i, j in edges)
    assert abs(len(edges) - pairs * p) < 5 * np.sqrt(pairs * p * (1 - p))
    degrees = np.bincount(np.array(edges).ravel(), minlength=n)
    assert abs(degrees - (n - 1) * p).max() < 6 * np.sqrt(n * p)  # no variable is favoured


@pytest.mark.parametrize(("p", "count"), [(0.0, 0), (1.0, 10), (1, 10)])
def test_random_graphs_at_the_ends_are_empty_or_complete(p, count):
    model = datasets.erdos_renyi_ising(5, p, field=None)
    assert len(scopes(model)) == count and len(model.variables) == 5
    assert len(scopes(datasets.erdos_renyi_ising(1, p))) == 0


@pytest.mark.parametrize(
    ("preset", "low_high", "deviations"),
    [
        (datasets.normal_couplings(field_scale=0.1), None, (1.0, 0.1)),
        (datasets.normal_couplings(2**0.5, 2**0.5), None, (2**0.5, 2**0.5)),
        (datasets.quadratic_form_couplings(0.2), None, (0.4, 0.05)),
        (datasets.uniform_couplings(5), (5, 1), (5 / 3**0.5, 1 / 3**0.5)),
        (datasets.uniform_couplings(0.5, field_width=0.5), (0.5, 0.5), (0.5 / 3**0.5, 0.5 / 3**0.5)),
    ],
    ids=["normal", "toy", "quadratic", "uniform", "benchmark"],
)
def test_couplings_and_fields_have_the_distributions_of_the_published_set_ups(preset, low_high, deviations):
    model = datasets.ising_grid(40, **preset, seed=5)
    for k, values in enumerate((couplings(model), fields(model))):
        # Five standard errors of a mean, and a generous bound for those of a deviation.
        assert abs(values.mean()) < 5 * deviations[k] / np.sqrt(len(values))
        assert values.std() == pytest.approx(deviations[k], rel=5 / np.sqrt(len(values)))
        if low_high:
            assert np.abs(values).max() <= low_high[k]


# Trees, factor graphs, networks --------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 40])
def test_a_random_tree_is_connected_and_has_no_cycle(n):
    nx = pytest.importorskip("networkx")
    graph = nx.Graph(scopes(datasets.random_tree(n, seed=3)))
    graph.add_nodes_from(range(n))
    assert nx.is_tree(graph)


def test_trees_may_mix_state_counts():
    sizes = [2, 1, 3, 4]
    model = datasets.random_tree(4, sizes, seed=1)
    for f in model.to_factor_graph().factors:
        assert f.log_table.shape == tuple(sizes[model.variables.position(n)] for n in f.names)


def test_random_factors_have_distinct_variables_and_no_favourite():
    model = datasets.random_factor_graph(10, 4000, arity=3, seed=2)
    found = np.array(scopes(model, 3))
    assert found.shape == (4000, 3) and (np.diff(np.sort(found, axis=1), axis=1) > 0).all()
    for k in range(3):  # uniform at every place of the scope
        counts = np.bincount(found[:, k], minlength=10)
        assert np.abs(counts - 400).max() < 5 * np.sqrt(4000 * 0.1 * 0.9)


def test_zeros_come_with_their_probability_and_never_contradict():
    for seed in range(20):
        model = datasets.random_factor_graph(6, 30, arity=2, states=3, seed=seed, zeros=0.6)
        assert np.isfinite(credo.infer(model, "enumerate").log_z.value)
    logs = (
        datasets.random_factor_graph(50, 1000, arity=3, states=2, seed=0, zeros=0.5)
        .to_factor_graph()
        .log_tables
    )
    # One entry in eight is spared.
    assert np.isneginf(logs).mean() == pytest.approx(0.5 * 7 / 8, abs=5 * 0.5 / np.sqrt(len(logs)))
    full = datasets.random_factor_graph(4, 8, seed=0, zeros=1.0).to_factor_graph().log_tables
    assert np.isfinite(full).sum() == 8


def test_factor_graphs_may_be_empty_or_full():
    assert datasets.random_factor_graph(3, 0).to_factor_graph().n_factors == 0
    assert sorted(scopes(datasets.random_factor_graph(4, 1, arity=4), 4)[0]) == [0, 1, 2, 3]
    assert datasets.random_factor_graph(3, 2, arity=0).to_factor_graph().n_factors == 2


def test_random_networks_respect_order_and_number_of_parents():
    model = datasets.random_bayes_net(300, max_parents=3, states=2, seed=4)
    for name, parents in model.parents.items():
        i = model.variables.position(name)
        assert len(set(parents)) == len(parents) <= 3
        assert all(model.variables.position(p) < i for p in parents)
    counts = np.array([len(p) for p in model.parents.values()])[3:]
    shares = np.bincount(counts, minlength=4) / len(counts)
    assert np.abs(shares - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / len(counts))
    assert datasets.random_bayes_net(5, max_parents=0).edges == []


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: datasets.ising_grid(0), "rows must be at least 1, got 0"),
        (lambda: datasets.ising_grid(2, 1.5), "columns must be a whole number, got 1.5"),
        (lambda: datasets.potts_grid(2, states=0), "states must be at least 1, got 0"),
        (lambda: datasets.complete_ising(True), "n must be a whole number, got True"),
        (lambda: datasets.erdos_renyi_ising(5, 1.5), r"p must be in \[0, 1\], got 1.5"),
        (lambda: datasets.erdos_renyi_ising(5, float("nan")), r"p must be in \[0, 1\], got nan"),
        (lambda: datasets.random_tree(0), "n must be at least 1, got 0"),
        (
            lambda: datasets.random_tree(3, [2, 2]),
            r"states must be one positive whole number or 3, got \[2, 2\]",
        ),
        (lambda: datasets.random_tree(3, 0), "states must be one positive whole number or 3, got 0"),
        (lambda: datasets.random_factor_graph(3, 1, arity=4), "arity must be at most n_variables=3, got 4"),
        (lambda: datasets.random_factor_graph(3, 1, zeros=2), r"zeros must be in \[0, 1\], got 2"),
        (lambda: datasets.random_bayes_net(3, max_parents=-1), "max_parents must be at least 0, got -1"),
        (lambda: datasets.ising_grid(2, coupling="cauchy"), "no distribution named 'cauchy'; there are"),
        (lambda: datasets.ising_grid(2, coupling=[1, 2]), "expected a Distribution, a text or a number, got"),
        (lambda: datasets.Normal(-1), r"scale must be in \[0, inf\), got -1"),
        (lambda: datasets.Normal(1, float("nan")), "mean must be a finite number, got nan"),
        (lambda: datasets.Uniform(2, 1), r"high must be in \[2, inf\), got 1"),
        (lambda: datasets.Uniform("a", 1), "low must be a finite number, got 'a'"),
        (lambda: datasets.Constant(float("inf")), "value must be a finite number, got inf"),
        (lambda: distribution("normal(width=1)"), "normal has no option 'width'"),
    ],
)
def test_bad_arguments_are_refused_with_a_sentence(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_a_negative_concentration_is_refused():
    with pytest.raises(CredoError, match="concentration: expected a positive number, got -1"):
        datasets.random_bayes_net(3, concentration=-1)
