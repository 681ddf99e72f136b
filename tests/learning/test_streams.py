"""Learning from streams against learning from the same data in memory; places in messages; resumed passes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, FormatError, OptionError, UnsupportedError
from credo.data import stream
from credo.families import DiagonalGaussian, NormalGamma
from credo.models.hmm import HMM
from credo.optimise import driver, pace

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

STATES = {"a": ["no", "yes"], "b": 3, "c": ["low", "mid", "high"], "d": 2}
PARENTS = {"b": ["a"], "c": ["a", "b"], "d": ["c"]}
ROWS = 1500


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


def network(seed=0):
    return credo.BayesNet.random(STATES, PARENTS, seed=seed)


def chain():
    means = np.array([[0.0, 0.0], [2.0, 1.0]])
    return HMM([0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]], DiagonalGaussian(means, np.ones((2, 2))))


@pytest.fixture(scope="module")
def frames():
    """Rows of a network, complete and with gaps, and sequences of a chain."""
    frame = credo.sample(network(), ROWS, seed=0).to_frame()
    gone = np.random.default_rng(1).random(frame.shape) < 0.2
    gone[gone.all(axis=1)] = False
    lengths = [30, 12, 50, 8] * 10
    x, _ = credo.sample(chain(), lengths=lengths, seed=0)
    steps = pd.DataFrame(np.asarray(x), columns=["u", "v"])
    steps.insert(0, "who", np.repeat(np.arange(len(lengths)), lengths))
    return {"rows": frame, "gaps": frame.mask(gone), "hidden": frame.drop(columns=["c"]), "steps": steps}


@pytest.fixture(scope="module")
def files(frames, tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    for name, frame in frames.items():
        frame.to_parquet(folder / f"{name}.parquet", row_group_size=333, index=False)
    return {name: folder / f"{name}.parquet" for name in frames}


def tables(net):
    return np.concatenate([table.ravel() for table in net.tables.values()])


def test_counts_of_a_stream_are_those_of_the_whole_in_one_pass(files, frames):
    asked = []

    def given():
        asked.append(0)
        for first in range(0, ROWS, 400):
            yield frames["rows"][first : first + 400]

    whole = credo.fit(network(1), frames["rows"], "counts(prior=bdeu)")
    rows = stream(given, batch_rows=128)
    found = credo.fit(network(1), rows, "counts(prior=bdeu)")
    assert tables(found.model) == pytest.approx(tables(whole.model), abs=1e-12)
    assert found.log_likelihood.value == pytest.approx(whole.log_likelihood.value)
    assert found.objective == pytest.approx(whole.objective) and found.status is whole.status
    assert len(asked) == 4, "two looks at the first table, a pass for the number of rows, one for the counts"
    shuffled = stream(files["rows"], batch_rows=100, shuffle=True, seed=4)
    assert tables(credo.fit(network(1), shuffled, "counts(prior=bdeu)").model) == pytest.approx(
        tables(whole.model), abs=1e-12
    )


@pytest.mark.parametrize("name", ["gaps", "hidden"])
def test_em_of_a_network_takes_the_steps_of_the_whole(files, frames, name):
    whole = quietly(network(1), frames[name], "em(restarts=2)", max_iter=8, tol=0, seed=0)
    rows = stream(files[name], batch_rows=128)
    found = quietly(network(1), rows, "em(restarts=2)", max_iter=8, tol=0, seed=0)
    assert found.objective == pytest.approx(whole.objective, abs=1e-10)
    assert found.restarts == pytest.approx(whole.restarts, abs=1e-10)
    assert tables(found.model) == pytest.approx(tables(whole.model), abs=1e-8)
    assert found.log_likelihood.kind == "exact"


def test_weights_of_a_markov_network_are_learned_from_a_stream(files, frames):
    scopes = {("a", "b"): np.ones((2, 3)), ("b", "c"): np.ones((3, 3)), ("c", "d"): np.ones((3, 2))}
    start = credo.MarkovNet(STATES, scopes)
    options = {"learner": "em(prior=gaussian(scale=2))", "max_iter": 4, "tol": 0, "seed": 0}
    whole = quietly(start, frames["gaps"], **options)
    found = quietly(start, stream(files["gaps"], batch_rows=200), **options)
    assert found.objective == pytest.approx(whole.objective, abs=1e-9)


@pytest.mark.parametrize("batch_rows", [1000, 128, 20])
def test_em_of_sequences_takes_the_steps_of_the_whole(files, frames, batch_rows):
    whole = quietly(chain(), frames["steps"], "em", groups="who", max_iter=8, tol=0)
    rows = stream(files["steps"], batch_rows=batch_rows, groups="who")
    found = quietly(chain(), rows, max_iter=8, tol=0)
    assert found.learner == "em"
    np.testing.assert_allclose(found.objective, whole.objective, atol=1e-10)
    np.testing.assert_allclose(found.model.transition, whole.model.transition, atol=1e-10)


@pytest.mark.parametrize("shuffle", [False, True])
def test_stepwise_em_of_a_stream_comes_near_the_whole(files, frames, shuffle):
    whole = quietly(network(1), frames["gaps"], "em", max_iter=200, tol=1e-5).objective[-1]
    rows = stream(files["gaps"], shuffle=shuffle, seed=1)
    found = quietly(network(1), rows, "em(batch=100)", max_iter=8, tol=0, seed=0)
    assert found.objective[-1] > max(whole - 0.002, found.objective[0])
    steps = stream(files["steps"], shuffle=shuffle, groups="who")
    whole = quietly(chain(), frames["steps"], groups="who", max_iter=200).objective[-1]
    found = quietly(chain(), steps, "em(batch=200)", max_iter=10, tol=0, seed=0)
    assert found.objective[-1] > max(whole - 0.002, found.objective[0])


def test_batches_of_a_shuffled_stream_are_those_of_its_epoch(files):
    """The first batch of an epoch is learned from with the rows that `epoch` says."""
    from credo.learning.base import Task
    from credo.learning.em import EM, _Tables
    from credo.learning.streams import first_batch, read_stream

    rows = read_stream(network(), stream(files["rows"], shuffle=True, seed=3), None, {})
    task = Task(network(), first_batch(network(), rows))
    problem = _Tables(EM(), task, EM()._m_step(task), stream=rows)
    (learn, place), *_ = problem.batches(100, 7, ())
    (batch, after), *_ = rows.batches((7,), 100)
    assert place == after == (7, 0, 100)
    assert learn(tables(network())).sum() == pytest.approx(ROWS * len(STATES))
    assert problem.part(batch).expect(tables(network())).statistics * ROWS / 100 == pytest.approx(
        learn(tables(network()))
    )


def test_the_learner_for_a_stream_is_chosen_by_what_is_missing(files):
    assert credo.fit(network(1), stream(files["rows"])).notes[0].startswith("counts was chosen")
    found = quietly(network(1), stream(files["gaps"]), max_iter=1)
    assert found.notes[0].startswith("em was chosen")


def test_the_log_likelihood_of_a_stream_is_that_of_the_whole(files, frames):
    for model, name, groups in ((network(), "gaps", None), (chain(), "steps", "who")):
        rows = stream(files[name], batch_rows=128, groups=groups)
        found = credo.log_likelihood(model, rows)
        if groups is None:
            whole = credo.log_likelihood(model, frames[name])
        else:
            x, who = frames[name][["u", "v"]].to_numpy(), frames[name]["who"]
            whole = credo.log_likelihood(model, x, lengths=np.bincount(who))
        assert found.value == pytest.approx(whole.value) and found.kind == whole.kind == "exact"


def test_validation_rows_of_their_own_are_watched(files, frames):
    found = quietly(network(1), stream(files["gaps"]), "em", validation=frames["rows"][:200], max_iter=3)
    whole = quietly(network(1), frames["gaps"], "em", validation=frames["rows"][:200], max_iter=3)
    assert found.trace["validation"] == pytest.approx(whole.trace["validation"], abs=1e-8)


SUBJECTS = {
    "network": (network, "gaps", None, "em(restarts=2)"),
    "network by batches": (network, "gaps", None, "em(batch=100, restarts=2)"),
    "chain": (chain, "steps", "who", "em"),
    "chain by batches": (chain, "steps", "who", "em(batch=100)"),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_run_that_is_stopped_within_a_pass_ends_as_one_that_was_not(name, files, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_THIN", 0.0)
    monkeypatch.setattr(pace, "_LONG", 0.0)
    make, data, groups, learner = SUBJECTS[name]
    places = set()

    def stop(iteration, view):
        turn = view.outcome.state.turn
        places.add(None if turn is None else (turn.learns, turn.place))
        view.stop()

    def ask(**kept):
        rows = stream(files[data], batch_rows=128, shuffle=True, seed=1, groups=groups)
        return quietly(make(), rows, learner, max_iter=2, tol=0, seed=3, **kept)

    whole, path = ask(), tmp_path / "run.ckpt"
    for _ in range(25):
        ask(checkpoint=path, every=0.0, on_step=stop)
    found = ask(checkpoint=path)
    assert len(places) > 5 and None in places
    assert {learns for learns, _ in filter(None, places)} == (
        {True, False} if "batch" in learner else {False}
    )
    np.testing.assert_array_equal(found.objective, whole.objective)
    assert found.restarts.tolist() == whole.restarts.tolist()
    one, other = (credo.core.packing.pack(fit.model)[1] for fit in (found, whole))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_checkpoint_of_other_files_is_refused(files, tmp_path):
    path = tmp_path / "run.ckpt"
    quietly(network(1), stream(files["gaps"]), "em", max_iter=1, checkpoint=path, seed=0)
    with pytest.raises(FormatError, match="belongs to another run: the data differs"):
        quietly(network(1), stream(files["rows"]), "em", max_iter=1, checkpoint=path, seed=0)


def test_what_needs_all_rows_refuses_a_stream_with_a_list_of_those_that_do_not(files):
    rows = stream(files["rows"])
    with pytest.raises(
        UnsupportedError,
        match=r"likelihood needs all rows at once, and a stream has batches; use one of "
        r"\['counts', 'em', 'gradient-em', 'vb'\], or give",
    ):
        credo.fit(network(), rows, "likelihood")
    with pytest.raises(UnsupportedError, match="vb cannot treat this task: pruning divides all rows anew"):
        credo.fit(network(), rows, "vb(prune=unused)")
    with pytest.raises(UnsupportedError, match="factor analysis takes all rows at once; leave batch out"):
        credo.fit(credo.models.FactorAnalysis(1), np.eye(3), "vb(batch=2)")
    with pytest.raises(UnsupportedError, match="em cannot treat this task: hard cannot be had for a stream"):
        credo.fit(network(), rows, "em(hard=true)")


def mixed_frame(rows=700):
    """States with numbers below them, some cells gone, and how often rows count."""
    rng = np.random.default_rng(5)
    kind = rng.integers(2, size=rows)
    x = np.array([50.0, 70.0])[kind] + rng.normal(size=rows)
    y = 1e6 + 3 * x * kind + rng.normal(size=rows)
    frame = pd.DataFrame({"kind": np.array(["a", "b"])[kind], "x": x, "y": y})
    gaps = frame.mask(rng.random(frame.shape) < 0.15)
    return frame, gaps, rng.integers(3, size=rows).astype(float)


EDGES = [("kind", "x"), ("kind", "y"), ("x", "y")]


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("name", ["complete", "gaps"])
def test_real_nodes_are_learned_from_a_stream_as_from_the_whole(name, weighed):
    frame, gaps, weights = mixed_frame()
    data = frame if name == "complete" else gaps
    parts = [data.assign(w=weights)[:90], data.assign(w=weights)[90:]]
    rows = stream(parts, batch_rows=128, columns=["kind", "x", "y"], weights="w" if weighed else None)
    start = credo.fit(credo.BayesNet.from_edges(EDGES), frame[::7]).model
    options = {"max_iter": 5, "tol": 0, "seed": 0}
    whole = quietly(start, data, weights=weights if weighed else None, **options)
    found = quietly(start, rows, **options)
    assert found.learner == whole.learner == ("counts" if name == "complete" else "em")
    assert found.log_likelihood.value == pytest.approx(whole.log_likelihood.value, abs=1e-6)
    for node in ("x", "y"):
        one, two = found.model.regressions[node], whole.model.regressions[node]
        np.testing.assert_allclose(one.bias, two.bias, rtol=1e-6)
        np.testing.assert_allclose(one.variance, two.variance, rtol=1e-6)
        np.testing.assert_allclose(one.weights, two.weights, atol=1e-6)


def test_real_nodes_are_learned_by_batches_in_memory_and_of_a_stream():
    frame, gaps, _ = mixed_frame()
    start = credo.fit(credo.BayesNet.from_edges(EDGES), frame[::7]).model
    whole = quietly(start, gaps, max_iter=50, tol=1e-4).objective[-1]
    for data in (gaps, stream([gaps[:300], gaps[300:]], shuffle=True)):
        found = quietly(start, data, "em(batch=100)", max_iter=8, tol=0, seed=0)
        assert found.objective[-1] > whole - 0.02
    blank = quietly(credo.BayesNet.from_edges(EDGES), stream([gaps[:300], gaps[300:]]), max_iter=3, tol=0)
    assert blank.model.regressions["y"].weights.shape == (2, 1)
    with pytest.raises(DataError, match="expected complete rows, got missing values; use em"):
        credo.fit(start, stream([gaps]), "counts")


def test_weights_of_a_stream_are_those_of_its_rows_or_sequences(frames, tmp_path):
    rng = np.random.default_rng(0)
    rows = frames["gaps"].assign(w=rng.integers(3, size=ROWS))
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=400, index=False)
    data = stream(tmp_path / "rows.parquet", batch_rows=128, weights="w")
    assert "weights in 'w'" in repr(data) and data.total == rows["w"].sum() and "w" not in data.names
    whole = quietly(network(1), frames["gaps"], "em", weights=rows["w"], max_iter=4, tol=0)
    found = quietly(network(1), data, "em", max_iter=4, tol=0)
    assert tables(found.model) == pytest.approx(tables(whole.model), abs=1e-10)
    assert credo.log_likelihood(network(1), data).value == pytest.approx(
        credo.log_likelihood(network(1), frames["gaps"], weights=rows["w"]).value
    )
    counted = frames["steps"].assign(w=frames["steps"]["who"] % 3 + 0.5)
    parts = stream([counted[:400], counted[400:]], batch_rows=90, groups="who", weights="w")
    each = counted.groupby("who")["w"].first().to_numpy()
    whole = quietly(chain(), frames["steps"], groups="who", weights=each, max_iter=4, tol=0)
    found = quietly(chain(), parts, max_iter=4, tol=0)
    np.testing.assert_allclose(found.objective, whole.objective, atol=1e-10)
    with pytest.raises(DataError, match=r"table 0.*: weights: expected"):
        quietly(network(1), stream([rows.assign(w=-1.0)], weights="w"), "em")
    with pytest.raises(DataError, match="there is no column 'v'"):
        stream([rows], weights="v")


def test_soft_cells_of_a_stream_are_read_as_those_of_the_whole(frames):
    soft = frames["gaps"].astype(object).copy()
    for row in range(0, ROWS, 7):
        soft.at[row, "b"] = np.array([0.2, 1.0, 0.5])
    whole = quietly(network(1), soft, "em", max_iter=4, tol=0)
    found = quietly(network(1), stream([soft[:500], soft[500:]], batch_rows=333), "em", max_iter=4, tol=0)
    assert tables(found.model) == pytest.approx(tables(whole.model), abs=1e-10)


def test_rows_without_a_cell_do_not_count_in_the_weights_of_a_markov_network():
    rows = {"a": [0, 0, 1, None] * 20, "b": [0, 1, 1, None] * 20}
    start = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2))})
    whole = quietly(start, rows, "em(steps=20)", max_iter=8, tol=0)
    parts = [{n: c[:40] for n, c in rows.items()}, {n: c[40:] for n, c in rows.items()}]
    found = quietly(start, stream(parts), "em(steps=20)", max_iter=8, tol=0)
    np.testing.assert_allclose(
        credo.infer(found.model).factor_marginals[0], credo.infer(whole.model).factor_marginals[0], atol=1e-6
    )


def test_posteriors_are_learned_from_a_stream_and_by_batches(files, frames):
    options = {"max_iter": 40, "tol": 1e-4, "seed": 0}
    whole = quietly(network(1), frames["gaps"], "vb", **options)
    for learner, near in (("vb", 1e-6), ("vb(batch=150)", 0.01)):
        for data in (frames["gaps"], stream(files["gaps"], batch_rows=200)):
            found = quietly(network(1), data, learner, **options)
            assert found.objective[-1] == pytest.approx(whole.objective[-1], abs=near)
            assert found.evidence.kind == "lower"
    prior = credo.models.HMMPrior(emission=NormalGamma([[1.0, 0.5]], [[1.0] * 2], [[1.0] * 2], [[1.0] * 2]))
    options = {"prior": prior, "max_iter": 60, "tol": 1e-5, "seed": 0}
    whole = quietly(chain(), frames["steps"], "vb", groups="who", **options)
    found = quietly(chain(), stream(files["steps"], groups="who", batch_rows=300), "vb", **options)
    assert found.evidence.value == pytest.approx(whole.evidence.value, abs=1e-3)
    assert (np.diff(found.objective) > -1e-9).all()
    some = quietly(chain(), frames["steps"], "vb(batch=8)", groups="who", **options | {"max_iter": 8})
    assert some.objective[-1] == pytest.approx(whole.objective[-1], abs=0.01)


def test_streams_say_what_they_lack_and_where(files, frames):
    rows, steps = stream(files["rows"]), stream(files["steps"], groups="who")
    net, fit = network(), credo.fit
    grouped = stream(files["rows"], columns=["a", "b"], groups="c")
    gaps = stream(files["gaps"], batch_rows=50)
    refused = [
        (
            lambda: fit(net, rows, weights=[1.0]),
            OptionError,
            "weights: a stream has its rows and sequences al",
        ),
        (
            lambda: fit(chain(), steps, groups="who"),
            OptionError,
            "groups: a stream has its rows and sequences",
        ),
        (
            lambda: credo.log_likelihood(net, rows, each=True),
            OptionError,
            "each: a stream is summed over its",
        ),
        (
            lambda: fit(chain(), steps, labels="s"),
            OptionError,
            "labels: a stream has none; give data in memo",
        ),
        (lambda: fit(net, rows, validation=0.1), OptionError, "validation: a stream is not split; give rows"),
        (
            lambda: fit(net, rows, validation=rows),
            OptionError,
            "validation: a stream is not split; give rows",
        ),
        (
            lambda: fit(chain(), stream(files["steps"])),
            DataError,
            "HMM learns from sequences, and this stream",
        ),
        (
            lambda: fit(net, grouped),
            DataError,
            "a BayesNet has rows, no sequences; leave groups out of the s",
        ),
        (
            lambda: fit(net, gaps, "counts"),
            DataError,
            r"gaps.parquet, row group 0, the batch from unit 0 on: expected complete rows, got missing",
        ),
    ]
    for ask, error, told in refused:
        with pytest.raises(error, match=told):
            ask()


def test_a_row_that_does_not_fit_is_told_by_its_place(frames):
    wrong = frames["rows"].copy()
    wrong["b"] = wrong["b"].astype(str)
    wrong.loc[1100, "b"] = "5"
    rows = stream([wrong[:600], wrong[600:]], batch_rows=200)
    with pytest.raises(DataError, match=r"table 1: data: row 500: variable 'b' has no state '5'"):
        credo.fit(network(), rows, "counts")


def test_blanks_get_their_states_from_all_batches(files, frames):
    blank = credo.BayesNet.from_edges([("a", "b"), ("b", "c"), ("c", "d")])
    found = credo.fit(blank, stream(files["rows"], batch_rows=100))
    whole = credo.fit(blank, frames["rows"])
    assert found.model.variables == whole.model.variables
    assert tables(found.model) == pytest.approx(tables(whole.model))
    part = credo.BayesNet.from_edges([("a", "d")], states={"d": 2})
    assert credo.fit(part, stream(files["rows"])).model.variables.names == ("a", "d")


def test_mixtures_are_learned_from_rows_of_a_stream(files, frames):
    steps = frames["steps"].drop(columns=["who"])
    start = credo.Mixture([[0.5, 0.5]], DiagonalGaussian([[0.0, 0.0], [2.0, 1.0]], np.ones((2, 2))))
    whole = quietly(start, steps, max_iter=6, tol=0)
    found = quietly(start, stream(files["steps"], columns=["u", "v"], batch_rows=90), max_iter=6, tol=0)
    np.testing.assert_allclose(found.objective, whole.objective, atol=1e-10)
    rows = stream(files["steps"], columns=["u", "v"], batch_rows=200)
    found = quietly(credo.Mixture.blank(2), rows, max_iter=30, seed=0)
    assert found.objective[-1] > found.objective[0]
    with pytest.raises(DataError, match="a Mixture has independent rows, no sequences; leave groups out of"):
        credo.fit(start, stream(files["steps"], groups="who"))
    student = credo.families.StudentT([[0.0, 0.0]], np.ones((1, 2)), [5.0])
    with pytest.raises(UnsupportedError, match="a stream cannot be had where leaves have no closed form"):
        credo.fit(student, rows, "em")
