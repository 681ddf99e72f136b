"""Variational Bayes for the tables of networks: closed forms, bounds against enumeration, pruning."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

import credo
from credo import BayesNet
from credo.core.errors import ConvergenceWarning, ModelError, OptionError, UnsupportedError
from credo.core.result import Status
from credo.data.table import StateTable
from credo.families.dirichlet_rows import DirichletRows
from credo.learning import VariationalBayes, fit
from credo.learning.evidence import laplace_tables, table_evidence

CLASSES = {"h": 2, "a": 2, "b": 3}
EDGES = {"a": ["h"], "b": ["h"]}


def completions(model, states):
    """All ways to fill in the missing cells of a table of states."""
    missing = np.argwhere(states < 0)
    sizes = [range(model.variables.sizes[i]) for _, i in missing]
    for values in itertools.product(*sizes):
        filled = states.copy()
        filled[tuple(missing.T)] = values
        yield filled


def exact_evidence(model, states, prior):
    return logsumexp([table_evidence(model, filled, prior).value for filled in completions(model, states)])


@pytest.mark.parametrize("prior", ["uniform(count=1)", "bdeu(size=4)"])
def test_with_complete_data_the_free_energy_is_the_closed_form(prior):
    model = BayesNet.random({"a": 2, "b": 3, "c": 2}, {"b": ["a"], "c": ["a", "b"]}, seed=0)
    data = credo.sample(model, 40, seed=1)
    found = fit(model, data, f"vb(prior={prior})")
    assert found.status is Status.EXACT and found.evidence.kind == "exact"
    assert found.evidence.value == pytest.approx(table_evidence(model, data, prior).value, abs=1e-9)
    counts = np.bincount(data.indices[:, 0], minlength=2)
    pseudo = 1.0 if "uniform" in prior else 2.0
    np.testing.assert_allclose(found.posterior.concentration("a"), counts + pseudo)
    np.testing.assert_allclose(found.model.tables["a"], (counts + pseudo) / (40 + 2 * pseudo))


def test_the_evidence_is_the_product_of_sequential_predictions():
    model = BayesNet.random({"a": 2, "b": 2}, {"b": ["a"]}, seed=0)
    rows = credo.sample(model, 12, seed=1).indices
    total = 0.0
    for n in range(12):
        learned = model if n == 0 else fit(model, rows[:n], "vb").model
        if n == 0:
            total += np.log(0.25)  # uniform tables
            continue
        total += learned.log_prob({"a": int(rows[n, 0]), "b": int(rows[n, 1])})
    assert table_evidence(model, rows, "uniform(count=1)").value == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_free_energy_rises_to_a_value_below_the_exact_evidence(seed):
    model = BayesNet.random(CLASSES, EDGES, seed=seed)
    states = credo.sample(model, 7, seed=seed).indices.copy()
    states[:, 0] = -1
    states[2, 2] = -1
    data = StateTable.from_states(model.variables, states)
    found = fit(model, data, "vb(restarts=3)", seed=0, tol=1e-9)
    exact = exact_evidence(model, states, "uniform(count=1)")
    assert found.evidence.kind == "lower"
    assert (np.diff(found.trace["free_energy"]) > -1e-10).all()
    assert exact - 4.0 < found.evidence.value < exact
    assert (found.trace["free_energy"] <= exact + 1e-9).all()


def test_laplace_with_hidden_variables_is_near_the_exact_evidence_of_its_mode():
    """The two labels of the hidden variable are two modes: Laplace sees one of them."""
    model = BayesNet({"h": 2, "a": 2}, {"a": ["h"]}, {"h": [0.5, 0.5], "a": [[0.9, 0.1], [0.2, 0.8]]})
    states = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1], [-1, 0], [1, 0], [-1, 1]])
    exact = exact_evidence(model, states, "uniform(count=2)")
    data = StateTable.from_states(model.variables, states)
    assert laplace_tables(model, data, "uniform(count=2)").value == pytest.approx(exact, abs=0.15)


def test_hidden_states_that_no_row_needs_are_removed():
    true = BayesNet(
        {"h": 2, "a": 2, "b": 2, "c": 2, "d": 2}, {k: ["h"] for k in "abcd"},
        {"h": [0.5, 0.5], **{k: [[0.95, 0.05], [0.05, 0.95]] for k in "abcd"}},
    )  # fmt: skip
    data = StateTable.from_states(true.variables, credo.sample(true, 300, seed=0).indices)
    big = BayesNet.random({"h": 5, "a": 2, "b": 2, "c": 2, "d": 2}, {k: ["h"] for k in "abcd"}, seed=1)
    columns = {k: data.states[data.row_of][:, i + 1] for i, k in enumerate("abcd")}
    learner = VariationalBayes(prior={"h": 0.01}, prune="unused", restarts=3)
    found = fit(big, columns, learner, seed=0, tol=1e-7)
    assert found.model.variables.sizes.tolist() == [2, 2, 2, 2, 2]
    assert (np.diff(found.trace["free_energy"]) > -1e-7).all()
    assert "hidden states without rows were removed" in found.notes[-1]
    table = found.model.tables["a"]
    np.testing.assert_allclose(np.sort(table[:, 0]), [0.05, 0.95], atol=0.06)
    for name in found.model.variables[0].states:
        assert name in big.variables[0].states


def test_concentrations_can_be_learned():
    model = BayesNet.random(CLASSES, EDGES, seed=0)
    columns = {k: credo.sample(model, 200, seed=2).indices[:, i] for i, k in enumerate("hab") if k != "h"}
    plain = fit(model, columns, "vb")
    better = fit(model, columns, "vb(adapt=true)", tol=1e-3)
    assert (np.diff(better.trace["free_energy"]) > -1e-9).all()
    assert better.evidence.value > plain.evidence.value


def test_fixed_tables_and_zeros_stay():
    model = BayesNet(CLASSES, EDGES, {"h": [0.3, 0.7], "a": [[1, 0], [0.4, 0.6]], "b": [[0.2, 0.3, 0.5]] * 2})
    data = {"a": [0, 0, 1, 1, 0], "b": [0, 1, 2, 2, 1]}
    found = fit(model, data, VariationalBayes(fixed=("h",)), seed=0)
    np.testing.assert_array_equal(found.model.tables["h"], [0.3, 0.7])
    np.testing.assert_array_equal(found.model.tables["a"][0], [1, 0])
    assert (np.diff(found.trace["free_energy"]) > -1e-9).all()
    drawn = found.posterior.sample(np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.tables["h"], [0.3, 0.7])
    assert drawn.tables["a"][0, 1] == 0


def test_equal_states_are_separated_with_a_note():
    model = BayesNet(CLASSES, EDGES, {"h": [0.5, 0.5], "a": [[0.5, 0.5]] * 2, "b": [[0.2, 0.3, 0.5]] * 2})
    found = fit(model, {"a": [0, 0, 1, 1] * 10, "b": [0, 0, 2, 2] * 10}, "vb", seed=0)
    assert any("alike at the start" in note for note in found.notes)
    assert (
        found.evidence.value
        > fit(model, {"a": [0, 0, 1, 1] * 10, "b": [0, 0, 2, 2] * 10}, "vb(start=given)").evidence.value
    )


def test_rows_of_dirichlets_agree_with_single_ones():
    from credo.families import Dirichlet

    rows = DirichletRows([1.0, 2.0, 0.5, 0.7, 0.0, 3.0], [2, 4])
    one, two = Dirichlet([[1.0, 2.0]]), Dirichlet([[0.5, 0.7, 3.0]])
    np.testing.assert_allclose(rows.log_normaliser, [one.log_normaliser[0], two.log_normaliser[0]])
    np.testing.assert_allclose(rows.expected_log[:2], one.expected_log[0])
    np.testing.assert_allclose(rows.expected_log[[2, 3, 5]], two.expected_log[0])
    assert rows.expected_log[4] == -np.inf and rows.mean()[4] == 0 and rows.n_parameters == 3
    after = rows.posterior(np.array([1.0, 0, 2, 0, 0, 1]))
    np.testing.assert_allclose(
        after.kl(rows), [Dirichlet([[2.0, 2.0]]).kl(one)[0], Dirichlet([[2.5, 0.7, 4.0]]).kl(two)[0]]
    )
    drawn = rows.sample(np.random.default_rng(0))
    np.testing.assert_allclose(rows.sums(drawn), 1.0)
    assert repr(rows) == "DirichletRows(2 rows, 6 entries)"


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (
            lambda m: fit(credo.MarkovNet({"a": 2}), {"a": [0]}, "vb"),
            UnsupportedError,
            "it learns the tables of a BayesNet, and models of rows .* got MarkovNet; use em",
        ),
        (
            lambda m: fit(m, {"a": [0]}, "vb(prior=uniform(count=0))"),
            OptionError,
            "expected positive concentrations",
        ),
        (
            lambda m: fit(m, {"a": [0]}, VariationalBayes(prior={"x": 1.0})),
            OptionError,
            "prior: no variable 'x'|prior: .*'x'",
        ),
        (lambda m: VariationalBayes(start="best"), OptionError, "start must be one of"),
        (lambda m: VariationalBayes(restarts=0), OptionError, "restarts must be at least 1"),
        (lambda m: VariationalBayes(prune="all"), OptionError, "prune must be one of"),
        (lambda m: DirichletRows([1.0, 1.0], [3]), ModelError, "row_sizes: expected positive counts"),
        (lambda m: DirichletRows([0.0, 0.0], [2]), ModelError, "with a positive one in every row"),
        (
            lambda m: DirichletRows([1.0, 0.0], [2]).posterior(np.array([0.0, 1.0])),
            ModelError,
            "an impossible entry was counted",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call(BayesNet.random(CLASSES, EDGES, seed=0))


def test_a_checkpoint_goes_on_to_the_same_bits_in_the_middle_of_pruning(tmp_path, monkeypatch):
    monkeypatch.setattr("credo.optimise.driver._THIN", 0.0)
    model = BayesNet.random({"h": 4, "a": 2, "b": 3}, EDGES, seed=1)
    rows = credo.sample(BayesNet.random(CLASSES, EDGES, seed=0), 80, seed=2).indices
    columns = {"a": rows[:, 1], "b": rows[:, 2]}
    learner = VariationalBayes(prior={"h": 0.1}, prune="search", restarts=2)
    options = {"seed": 0, "tol": 1e-3, "max_iter": 5000}
    whole, looks = fit(model, columns, learner, **options), []

    def stop(iteration, view):
        looks.append(iteration)
        if len(looks) % 13 == 0:
            view.stop()

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            path = tmp_path / "run.credo"
            return fit(model, columns, learner, checkpoint=path, every=0, on_step=stop, **options)

    found = run()
    while found.status is Status.INTERRUPTED:
        found = run()
    assert len(looks) > 26 and found.model.variables.sizes[0] < 4
    np.testing.assert_array_equal(found.objective, whole.objective)
    np.testing.assert_array_equal(found.posterior.rows.concentration, whole.posterior.rows.concentration)


def test_rows_that_are_watched_are_followed_from_step_to_step():
    model = BayesNet.random(CLASSES, EDGES, seed=0)
    rows = credo.sample(model, 120, seed=2).indices
    columns = [{"a": rows[part, 1], "b": rows[part, 2]} for part in (slice(0, 80), slice(80, 120))]
    found = fit(model, columns[0], "vb", validation=columns[1], seed=0)
    held = credo.log_likelihood(found.model, columns[1]).value / 40
    assert len(found.trace["validation"]) == len(found.objective)
    assert found.trace["validation"][-1] == pytest.approx(held, abs=1e-9)


def test_the_concentration_of_named_tables_alone_can_be_learned():
    model = BayesNet.random(CLASSES, EDGES, seed=0)
    columns = {k: credo.sample(model, 100, seed=2).indices[:, i] for i, k in enumerate("hab") if k != "h"}
    found = fit(model, columns, VariationalBayes(adapt=("b",)), tol=1e-3)
    prior = found.posterior.prior.concentration
    assert (prior[:6] == 1.0).all() and len(set(prior[6:])) == 1 and prior[6] != 1.0


def test_the_posterior_of_no_data_is_the_prior_and_vb_starts_from_it():
    net = credo.BayesNet.random({"a": 2, "b": 3}, {"b": ["a"]}, seed=0)
    blank = net.posterior("bdeu(size=6)")
    assert blank.divergence() == 0
    np.testing.assert_allclose(blank.concentration("b"), np.ones((2, 3)))
    np.testing.assert_allclose(blank.mean().tables["b"], np.full((2, 3), 1 / 3))
    found = credo.fit(net, {"a": [0, 0, 1], "b": [2, 2, 1]}, "vb", prior="bdeu(size=6)").posterior
    np.testing.assert_allclose(found.concentration("b"), [[1, 1, 3], [1, 2, 1]])
    np.testing.assert_allclose(found.prior.concentration, blank.rows.concentration)
    mixed = credo.BayesNet({"x": credo.Real()}, {}, {"x": {"bias": 0.0, "variance": 1.0}})
    with pytest.raises(ModelError, match="real nodes of a BayesNet have no distribution"):
        mixed.posterior()
