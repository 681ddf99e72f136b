"""Tables of models: every kind of model, every criterion, what is refused and why."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import chi2

import credo
from credo import BayesNet
from credo.core.errors import ModelError, OptionError, UnsupportedError
from credo.estimators import BayesianMixture
from credo.evaluate.models import compare_models
from credo.families import Categorical, DiagonalGaussian, Gaussian, Mixture, Product, StudentT
from credo.learning.evidence import laplace_tables, table_evidence
from credo.learning.parameters import Parameters, free_weights
from credo.models.factorial_hmm import FactorialHMM
from credo.models.hmm import HMM
from credo.models.normal_form_build import embedding
from markup import cells, read

STATES = {"a": 2, "b": 3}
TRUTH = BayesNet(STATES, {"b": ["a"]}, {"a": [0.4, 0.6], "b": [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]})
APART = BayesNet.random(STATES, seed=0)


def test_networks_get_every_column_and_the_right_numbers():
    data = credo.sample(TRUTH, 150, seed=0)
    table = compare_models({"apart": APART, "edge": TRUTH}, data, nested=True)
    edge = table["edge"]
    states = data.indices
    counts = np.zeros((2, 3))
    np.add.at(counts, (states[:, 0], states[:, 1]), 1)
    rows = counts.sum(axis=1)
    best = (rows * np.log(rows / 150)).sum() + (counts * np.log(counts / rows[:, None])).sum()
    assert edge.log_likelihood == pytest.approx(best)
    assert edge.parameters == 5 and table["apart"].parameters == 3
    assert edge.bic == pytest.approx(best - 2.5 * np.log(150))
    assert edge.exact == pytest.approx(table_evidence(TRUTH, data).value)
    assert edge.vb == pytest.approx(edge.exact)
    assert edge.laplace == pytest.approx(laplace_tables(TRUTH, data).value)
    assert table.best == table.chosen == "edge" and table.basis == "exact"
    gap = 2 * (edge.log_likelihood - table["apart"].log_likelihood)
    assert edge.nested.p == pytest.approx(chi2.sf(gap, 2))
    assert table.bayes_factor("edge", "apart") == pytest.approx(np.exp(edge.exact - table["apart"].exact))
    assert sum(row.posterior for row in table) == pytest.approx(1.0)
    assert edge.cv > table["apart"].cv and edge.cv < 0 and edge.cv_error > 0


def test_equivalent_networks_have_equal_evidence():
    back = BayesNet.random(STATES, {"a": ["b"]}, seed=0)
    table = compare_models([TRUTH, back], credo.sample(TRUTH, 50, seed=0), criteria=["exact"])
    assert table.rows[0].exact == pytest.approx(table.rows[1].exact, abs=1e-9)
    assert [row.model for row in table] == ["0: BayesNet", "1: BayesNet"]


def test_independent_data_prefer_the_smaller_network():
    table = compare_models({"apart": APART, "edge": TRUTH}, credo.sample(APART, 150, seed=1), nested=True)
    assert table.best == table.chosen == "apart"
    assert table["apart"].cv > table["edge"].cv


def test_hidden_variables_leave_vb_and_laplace():
    columns = {"b": credo.sample(TRUTH, 60, seed=0).indices[:, 1]}
    table = compare_models({"edge": TRUTH}, columns, folds=2, restarts=2)
    row = table["edge"]
    assert row.exact is None and "values are missing" in row.reasons["exact"]
    assert row.vb < row.log_likelihood and table.basis == "vb"
    assert "no exact for edge: values are missing" in repr(table)


def mixtures(counts):
    return {
        f"{k}": Mixture(np.full((1, k), 1 / k), Gaussian(np.zeros((k, 1)), np.ones((k, 1, 1))))
        for k in counts
    }


def two_clusters(n=40):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(-4, 1, (n, 1)), rng.normal(4, 1, (n, 1))])


def test_mixtures_are_compared_by_vb():
    table = compare_models(mixtures([1, 2, 3]), two_clusters(), folds=2, restarts=2)
    assert table.best == "2"
    assert table["1"].exact == pytest.approx(table["1"].vb, abs=1e-6)
    assert [row.parameters for row in table] == [2, 5, 8]
    assert np.argmax([row.bic for row in table]) == 1
    assert "no Laplace for 1, 2, 3: Laplace is offered for Bayesian networks only" in repr(table)


def test_estimators_and_single_members_are_candidates_too():
    x = two_clusters()
    models = {
        "one": DiagonalGaussian([[0.0]], [[1.0]]),
        "two": BayesianMixture(2, covariance_type="diag"),
    }
    table = compare_models(models, x, criteria=["vb", "bic"], restarts=2)
    assert table.best == "two" and table["two"].cv is None
    assert "CV per row" not in table.columns


def test_hidden_markov_models_are_compared_over_sequences():
    true = HMM([0.5, 0.5], [[0.95, 0.05], [0.05, 0.95]], Categorical([[0.9, 0.1], [0.1, 0.9]]))
    sequences = [credo.sample(true, lengths=25, seed=s)[0] for s in range(6)]
    models = {
        str(k): HMM(np.full(k, 1 / k), np.full((k, k), 1 / k), Categorical(np.full((k, 2), 0.5)))
        for k in (1, 2)
    }
    table = compare_models(models, sequences, folds=2, restarts=2)
    assert table.best == "2" and table.rows_of_data == 150
    assert table["2"].cv > table["1"].cv
    assert table["2"].vb < table["2"].log_likelihood
    again = compare_models({"1": models["1"]}, np.concatenate(sequences), lengths=[25] * 6, criteria=["vb"])
    assert again["1"].vb == pytest.approx(table["1"].vb, abs=1e-6)
    assert table["1"].exact == pytest.approx(table["1"].vb) and "hidden states" in table["2"].reasons["exact"]
    short = compare_models({"1": models["1"]}, sequences[0][:3], criteria=["cv"])
    assert "the data have 1 parts, fewer than folds=5" in repr(short)


def test_one_sequence_is_validated_by_steps_given_the_others():
    x = np.array([0, 1, 1, 0, 0, 0, 1, 0])
    one = HMM([1.0], [[1.0]], Categorical([[0.5, 0.5]]))
    row = compare_models({"1": one}, x, criteria=["cv"], folds=4).rows[0]
    total = 0.0
    for first in range(0, 8, 2):  # one state: every step is predicted by the counts of the others
        rest = np.delete(x, [first, first + 1])
        p = (1 + np.bincount(rest, minlength=2)) / (2 + 6)
        total += np.log(p[x[first : first + 2]]).sum()
    assert row.cv == pytest.approx(total / 8)
    sticky = np.repeat([0, 1, 0, 1, 0], 20)
    models = {"1": one, "2": HMM([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], Categorical([[0.7, 0.3], [0.3, 0.7]]))}
    table = compare_models(models, sticky, criteria=["cv"], folds=10)
    assert table.best == "2" and table["2"].cv > table["1"].cv + 0.2


def test_blanks_are_compared_by_what_the_data_make_of_them():
    rng = np.random.default_rng(0)
    frame = {"size": two_clusters(30).ravel(), "kind": ["a"] * 25 + ["b"] * 30 + ["a"] * 5}
    blanks = {str(k): Mixture.blank(k) for k in (1, 2)}
    table = compare_models(blanks, frame, criteria=["bic", "exact", "vb", "cv"], folds=2, restarts=2)
    assert table.best == "2" and [row.parameters for row in table] == [3, 7]
    assert table["1"].exact == pytest.approx(table["1"].vb) and table["2"].exact is None
    states = np.repeat([0, 1, 0, 1], 15)
    x = np.where(states, 3.0, -3.0) + rng.normal(size=60)
    two, one = credo.HMM.gaussian(states=2), credo.HMM.blank(1, {"x": "diagonal"})
    table = compare_models({"1": one, "2": two}, {"x": x}, criteria=["bic", "vb"], restarts=2)
    assert table["2"].bic > table["1"].bic and table.best == "2"
    net = credo.BayesNet.from_edges([("a", "b")])
    drawn = credo.sample(TRUTH, 50, seed=0)
    data = {name: drawn.column(name).tolist() for name in "ab"}
    again = compare_models({"blank": net, "net": TRUTH}, data, criteria=["exact"])
    assert again["blank"].exact == pytest.approx(again["net"].exact)


def test_columns_and_groups_of_a_frame_are_read_as_fit_reads_them():
    rng = np.random.default_rng(0)
    frame = {"who": np.repeat(["p", "q"], 20), "x": rng.normal(size=40), "y": rng.normal(size=40)}
    how = {"groups": "who", "columns": ["x"]}
    table = compare_models([credo.HMM.gaussian(states=1)], frame, criteria=["vb"], **how)
    assert table.rows[0].parameters == 2 and table.rows_of_data == 40
    with pytest.raises(OptionError, match="a BayesNet has rows, no sequences"):
        compare_models([TRUTH], frame, groups="who")


def test_factorial_chains_products_and_leaves_without_closed_form_are_candidates():
    half, move = [0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]]
    effects = [[[0.0], [1.0]], [[0.0], [4.0]]]
    chains = FactorialHMM.additive([half, half], [move, move], effects, [[0.2]])
    x, _ = credo.sample(chains, lengths=40, seed=0)
    table = compare_models({"chains": chains}, x, folds=2, restarts=1)
    row = table["chains"]
    assert np.isfinite([row.bic, row.cv, row.log_likelihood]).all() and row.vb is None
    assert "got FactorialHMM" in row.reasons["vb"] and "got FactorialHMM" in row.reasons["exact"]
    tails = StudentT([[0.0]], [[1.0]], [4.0], learn_freedom=False)
    pair = Product([DiagonalGaussian([[0.0]], [[1.0]]), tails], [0, 1])
    both = compare_models({"pair": pair}, rng_table(), criteria=["bic", "vb", "cv"], folds=2)
    assert np.isfinite([both["pair"].bic, both["pair"].cv]).all() and both["pair"].parameters == 4
    assert both.basis == "bic" and "got StudentT" in both["pair"].reasons["vb"]


def rng_table():
    return np.random.default_rng(1).standard_t(4, size=(40, 2))


def test_ctrl_c_returns_the_rows_so_far(monkeypatch):
    from credo.evaluate import models

    data, real = credo.sample(TRUTH, 20, seed=0), models._row
    seen = []

    def once(name, *rest):
        if len(seen) == limit:
            raise KeyboardInterrupt
        seen.append(name)
        return real(name, *rest)

    monkeypatch.setattr(models, "_row", once)
    limit = 1
    assert len(compare_models([APART, TRUTH], data, criteria=["exact"])) == 1
    limit = 1
    with pytest.raises(KeyboardInterrupt):
        compare_models([APART, TRUTH], data, criteria=["exact"])


def test_the_table_prints_aligned_and_travels():
    table = compare_models({"apart": APART, "edge": TRUTH}, credo.sample(TRUTH, 40, seed=0), folds=2)
    lines = repr(table).splitlines()
    assert lines[0].split("  ")[0] == "model" and "p(model)" in lines[0]
    assert len({len(line) for line in lines[:3]}) == 1
    assert lines[3] == "BIC is log-likelihood - d/2 log N with N = 40: higher is better"
    assert lines[4] == "p(model) is made from the column exact"
    rows = json.loads(table.to_json())
    assert rows[1]["model"] == "edge" and rows[1]["exact"] == table["edge"].exact
    pytest.importorskip("pandas")
    assert table.to_frame().loc["edge", "vb"] == table["edge"].vb
    assert len(table) == 2


def test_notebooks_show_the_table_of_models_and_what_is_missing():
    mixture = Mixture(np.full((1, 2), 0.5), DiagonalGaussian([[1.0], [6.0]], np.ones((2, 1))))
    table = compare_models({"<two>": mixture}, np.arange(8.0)[:, None], criteria=["bic", "exact"])
    shown = table._repr_html_()
    assert cells(shown) == [*table.columns, *table.cells()[0]] and "<two>" in cells(shown)
    assert [text for tag, _, text in read(shown) if tag == "div"] == repr(table).splitlines()[2:]


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda d: compare_models({}, d), OptionError, "models: expected at least one, got none"),
        (lambda d: compare_models(3, d), OptionError, "models: expected several, got one int"),
        (lambda d: compare_models(["x"], d), ModelError, "models: expected a Bayesian network, .* got str"),
        (lambda d: compare_models([TRUTH], d, criteria=["aic"]), OptionError, "criteria must be one of"),
        (lambda d: compare_models([TRUTH], d, folds=1), OptionError, "folds must be at least 2"),
        (lambda d: compare_models([TRUTH], d, level=2.0), OptionError, "level must be in"),
        (
            lambda d: compare_models([TRUTH, APART], d, criteria=[], nested=True),
            OptionError,
            "expected more parameters in the second",
        ),
        (lambda d: compare_models([TRUTH], d, criteria=[]).best, OptionError, "best: no column is filled"),
        (
            lambda d: compare_models([TRUTH], d, criteria=["bic"]).chosen,
            OptionError,
            "chosen: no nested tests were made",
        ),
        (
            lambda d: compare_models([TRUTH], d, criteria=[]).bayes_factor("a", "b"),
            OptionError,
            "no column of evidence",
        ),
        (lambda d: compare_models([TRUTH], d, criteria=[])["x"], OptionError, "no row 'x'; there are"),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call(credo.sample(TRUTH, 10, seed=0))


def test_models_of_weights_trees_blocks_and_documents_are_weighed_by_what_fit_finds():
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=120)
    data = {"a": a, "b": np.where(rng.random(120) < 0.9, a, 1 - a), "c": rng.integers(3, size=120)}
    states = {"a": 2, "b": 2, "c": 3}
    apart = credo.MarkovNet(states, {(name,): np.ones(n) for name, n in states.items()})
    joined = credo.MarkovNet(states, {("a", "b"): np.ones((2, 2)), ("b",): np.ones(2), ("c",): np.ones(3)})
    table = compare_models({"apart": apart, "joined": joined}, data, criteria=["bic", "cv"], nested=True)
    assert [row.parameters for row in table] == [4, 5] and table.best == table.chosen == "joined"
    net = credo.BayesNet.from_edges([("a", "b")], states=states)
    both = compare_models({"field": joined, "net": net}, data, criteria=["bic"])
    assert both["net"].log_likelihood == pytest.approx(both["field"].log_likelihood, abs=1e-3)
    assert "BIC is log-likelihood - d/2 log N with N = 120: higher is better" in list(both.sentences())
    alone, pair = (embedding({"a": 2, "b": 2}, k) for k in (1, 2))
    assert (alone.n_parameters, pair.n_parameters) == (2, 5)
    seen = {"a": data["a"], "b": data["b"]}
    assert compare_models({"1": alone, "2": pair}, seen, criteria=["bic"]).best == "2"
    trees = credo.fit(credo.BayesNet.from_edges(), data, "mixture-of-trees", max_iter=3, tol=1, seed=0).model
    assert compare_models([trees], data, criteria=["bic"]).rows[0].parameters == trees.n_parameters


def test_the_free_weights_of_overlapping_tables_are_the_rank_of_the_joint_log_probabilities():
    rng = np.random.default_rng(1)
    scopes = {("a", "b"): (2, 3), ("b", "c"): (3, 2), ("a",): (2,), ("a", "c", "d"): (2, 2, 1)}
    model = credo.MarkovNet({"a": 2, "b": 3, "c": 2, "d": 1}, {s: rng.random(n) for s, n in scopes.items()})
    parameters = Parameters.of(model)
    states = np.array(list(np.ndindex(2, 3, 2, 1)))
    columns = [
        parameters.graph_at(w).log_scores(states)
        for w in [*np.eye(len(parameters.start)), parameters.start * 0]
    ]
    columns = np.array(columns)[:-1] - columns[-1]
    rank = np.linalg.matrix_rank(columns - columns.mean(axis=1, keepdims=True))
    assert free_weights(parameters) == rank == 9


def test_the_free_weights_of_tables_with_zeros_are_counted_over_the_states_that_are_possible():
    zeros = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [1, 1]], ("a",): [1, 2]})
    assert free_weights(Parameters.of(zeros)) == 2  # three joint states
    chain = {(f"x{i}", f"x{i + 1}"): [[1, 0], [1, 1]] for i in range(15)}
    long = credo.MarkovNet({f"x{i}": 2 for i in range(16)}, chain)
    with pytest.raises(UnsupportedError, match=r"tables with zeros: .* ask for the criterion cv"):
        free_weights(Parameters.of(long))


def test_a_held_out_row_that_cannot_be_leaves_a_reason_instead_of_a_number():
    from credo.models.normal_form_build import embedding

    rows = {"X": [0] * 9 + [1], "Y": [0] * 9 + [2]}
    (row,) = compare_models({"it": embedding({"X": 2, "Y": 3}, 2)}, rows, criteria=["bic", "cv"]).rows
    assert row.cv is None and "gives a held-out one no probability; give a prior" in row.reasons["cv"]
    assert row.bic is not None


def test_networks_with_real_nodes_are_compared_by_what_their_regressions_explain():
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=120)
    rows = {"kind": np.array(["m", "f"])[kind], "height": 160.0 + 12 * kind + rng.normal(size=120)}
    of_kind = credo.BayesNet.from_edges([("kind", "height")])
    alone = credo.BayesNet.from_edges([], nodes=["kind", "height"])
    table = compare_models({"of kind": of_kind, "alone": alone}, rows, criteria=["bic", "cv"])
    assert table.best == "of kind"
    assert [row.parameters for row in table] == [5, 3]
    learned = credo.fit(of_kind, rows).model
    assert table["of kind"].log_likelihood == pytest.approx(credo.log_likelihood(learned, rows).value)
    assert table["of kind"].cv > table["alone"].cv + 1


def test_conditional_likelihoods_are_compared_with_each_other_only():
    rng = np.random.default_rng(0)
    x = list(rng.normal(size=(12, 4, 2)))
    y = [["a" if row[0] > 0 else "b" for row in part] for part in x]
    data = credo.data.read(x, targets=y)
    fields = {"blank": credo.CRF(), "tied": credo.CRF(symmetric=True)}
    table = compare_models(fields, data, criteria=["bic", "cv"], folds=3, prior="gaussian(scale=1)")
    assert [row.parameters for row in table] == [8, 7] and table["tied"].cv < 0
    with pytest.raises(
        ModelError, match=r"\['field'\] give probabilities of labels given features, \['hmm'\]"
    ):
        compare_models({"field": credo.CRF(), "hmm": HMM.gaussian(2)}, data)


def test_models_that_count_other_rows_are_not_compared():
    net, data = credo.BayesNet.from_edges(states={"a": 2}), {"a": [0, 1, None, 1]}
    with pytest.raises(ModelError, match=r"read the same rows, got numbers of rows \{'net': 3, 'one': 4\}"):
        compare_models({"net": net, "one": credo.Mixture(1)}, data)
