"""Predictions and completions of rows are those of one question per row, in the form of the table."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import DataError, ModelError, QueryError, ZeroProbabilityError
from credo.families import DiagonalGaussian
from credo.inference.exact import conditional_rows


@pytest.fixture(scope="module")
def net():
    return credo.datasets.sprinkler()


@pytest.fixture(scope="module")
def frame(net):
    """Rows of the network, a third of the cells missing, with an index of its own."""
    found = credo.sample(net, 60, seed=0).to_frame().astype(object)
    gone = np.random.default_rng(1).random(found.shape) < 0.3
    return found.mask(gone, None).set_index(np.arange(60)[::-1] * 3)


@pytest.fixture(scope="module")
def mixed():
    """A learned network of states and numbers, and rows of it with gaps."""
    rng = np.random.default_rng(0)
    kind, age = rng.integers(0, 3, 400), rng.normal(40, 10, 400)
    height = 150 + 10 * kind + 0.2 * age + rng.normal(0, 3, 400)
    rows = pd.DataFrame({"kind": np.array(["a", "b", "c"])[kind], "age": age, "height": height})
    rows["tall"] = np.where(rng.random(400) < 0.8, kind > 0, kind == 0)
    edges = [("kind", "height"), ("age", "height"), ("kind", "tall")]
    model = credo.fit(credo.BayesNet.from_edges(edges), rows).model
    gaps = rows.iloc[:40].astype(object)
    return model, gaps.mask(rng.random(gaps.shape) < 0.35, None).astype({"age": float, "height": float})


def said(row, *without):
    return {name: v for name, v in row.items() if name not in without and not pd.isna(v)}


def test_predictions_are_those_of_one_question_per_row(net, frame):
    found = credo.predict(net, frame, "wet", proba=True)
    labels = credo.predict(net, frame, "wet")
    assert found.index.equals(frame.index) and list(found.columns) == ["no", "yes"]
    assert labels.index.equals(frame.index) and labels.name == "wet"
    for r in range(len(frame)):
        wanted = credo.infer(net, evidence=said(frame.iloc[r], "wet")).marginals["wet"]
        np.testing.assert_allclose(found.iloc[r], wanted, atol=1e-12)
        assert labels.iloc[r] == ("no", "yes")[int(np.argmax(wanted))]


def test_several_targets_are_a_frame_in_the_order_asked_for(net, frame):
    found = credo.predict(net, frame, ["wet", "cloudy"])
    assert list(found.columns) == ["wet", "cloudy"]
    tables = credo.predict(net, frame, ["wet", "cloudy"], proba=True)
    for r in range(0, len(frame), 7):
        wanted = credo.infer(net, evidence=said(frame.iloc[r], "wet", "cloudy")).marginals
        for name in ("wet", "cloudy"):
            np.testing.assert_allclose(tables[name].iloc[r], wanted[name], atol=1e-12)


@pytest.mark.parametrize("maximise", ["all", ["wet", "cloudy"]])
def test_targets_can_be_most_probable_together(net, frame, maximise):
    found = credo.predict(net, frame, ["wet", "cloudy"], maximise=maximise)
    for r in range(len(frame)):
        evidence = said(frame.iloc[r], "wet", "cloudy")
        best = credo.infer(net, evidence=evidence, maximise=maximise)
        names = ["wet", "cloudy"]
        if maximise == "all":
            other = credo.infer(net, evidence=evidence | dict(found.iloc[r]), maximise="all")
        else:
            other = credo.infer(net, evidence=evidence | dict(found.iloc[r]))
        assert other.log_z.value == pytest.approx(best.log_z.value), names


def test_what_the_targets_say_is_ignored(net, frame):
    strange = frame.assign(wet="never seen", extra=1)
    pd.testing.assert_series_equal(
        credo.predict(net, strange, "wet").astype(object), credo.predict(net, frame, "wet").astype(object)
    )
    assert len(credo.predict(net, frame.drop(columns="wet").assign(extra=1), "wet")) == len(frame)


def test_forms_are_kept(net):
    rows = [{"rain": "yes", "sprinkler": "no"}, {"rain": "no", "sprinkler": None}]
    columns = {"rain": ["yes", "no"], "sprinkler": ["no", None]}
    codes = np.array([[-1, 0, 1, -1], [-1, -1, 0, -1]])  # cloudy, sprinkler, rain, wet
    assert credo.predict(net, columns, "wet").tolist() == ["yes", "no"]
    assert credo.predict(net, rows, "wet").tolist() == ["yes", "no"]
    assert credo.predict(net, rows, ["wet"]) == [{"wet": "yes"}, {"wet": "no"}]
    assert credo.predict(net, codes, "wet").tolist() == [1, 0]
    assert credo.predict(net, codes[:, :3], "wet").tolist() == [1, 0]
    assert credo.predict(net, codes, ["wet", "cloudy"]).tolist() == [[1, 1], [0, 0]]
    assert {k: v.shape for k, v in credo.predict(net, columns, "wet", proba=True).items()} == {
        "no": (2,),
        "yes": (2,),
    }
    assert credo.predict(net, codes, "wet", proba=True).shape == (2, 2)
    dataset = credo.data.read(columns, schema=net.variables)
    assert credo.predict(net, dataset, "wet").tolist() == ["yes", "no"]
    filled = credo.impute(net, dataset)
    assert filled["sprinkler"].tolist() == ["no", "no"] and filled.names == dataset.names
    assert credo.impute(net, rows)[1] == {"rain": "no", "sprinkler": "no"}
    assert credo.impute(net, columns)["sprinkler"].tolist() == ["no", "no"]
    assert credo.impute(net, codes).tolist() == [[1, 0, 1, 1], [0, 0, 0, 0]]
    assert credo.impute(net, np.where(codes < 0, np.nan, codes)).tolist() == [[1, 0, 1, 1], [0, 0, 0, 0]]


def test_frames_of_other_libraries_and_files_are_read_too(net, tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"rain": ["yes", "no"], "sprinkler": ["no", None]})
    assert credo.predict(net, table, "wet").to_pylist() == ["yes", "no"]
    assert credo.predict(net, table, ["wet"]).to_pydict() == {"wet": ["yes", "no"]}
    assert credo.impute(net, table).to_pydict() == {"rain": ["yes", "no"], "sprinkler": ["no", "no"]}
    path = tmp_path / "rows.csv"
    path.write_text("rain,sprinkler,wet\nyes,no,?\nno,?,?\n")
    assert credo.predict(net, path, "wet").tolist() == ["yes", "no"]
    filled = credo.impute(net, path)
    assert {n: list(v) for n, v in filled.items()} == {
        "rain": ["yes", "no"],
        "sprinkler": ["no", "no"],
        "wet": ["yes", "no"],
    }
    coded = pa.table({"rain": pa.array(["yes", "no", None]).dictionary_encode(), "wet": ["yes", "no", "yes"]})
    assert credo.impute(net, coded).to_pydict()["rain"] == ["yes", "no", "yes"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([True, False, True, None], dtype=object),
        pd.Series([True, False, True, None], dtype="boolean"),
        pd.Series([1, 0, 1, None], dtype="Int64"),
        pd.Series([1.0, 0.0, 1.0, None]),
        pd.Series(pd.Categorical(["b", "a", "b", None], categories=["b", "a"])),
        pd.Series(["b", "a", "b", None], dtype="string"),
        pd.Series([3, 2, 3, None], dtype="Int64"),
    ],
)
def test_cells_are_filled_and_predicted_in_the_type_of_their_column(column):
    frame = pd.DataFrame({"x": column, "y": ["u", "v", "u", "v"]})
    model = credo.fit(credo.BayesNet.from_edges([("x", "y")]), frame).model
    filled = credo.impute(model, frame)
    assert filled["x"].dtype == column.dtype
    assert filled["x"].iloc[3] == column.iloc[1] and filled["x"].iloc[:3].equals(column.iloc[:3])
    told = credo.predict(model, frame, "x")
    assert (told.iloc[:3] == column.iloc[:3]).all() and told.iloc[3] == column.iloc[1]


def test_numbers_are_predicted_by_conditional_means(mixed):
    model, gaps = mixed
    found = credo.predict(model, gaps, ["height", "kind"], std=True)
    assert list(found.columns) == ["height", "height_std", "kind"]
    for r in range(len(gaps)):
        wanted = credo.infer(model, evidence=said(gaps.iloc[r], "height", "kind")).marginals
        assert found["height"].iloc[r] == pytest.approx(wanted["height"].mean)
        assert found["height_std"].iloc[r] == pytest.approx(wanted["height"].sd)
        assert found["kind"].iloc[r] == "abc"[int(np.argmax(wanted["kind"]))]


@pytest.mark.parametrize("how", ["mode", "mean"])
def test_cells_are_filled_by_their_own_marginals(mixed, how, monkeypatch):
    model, gaps = mixed
    monkeypatch.setattr(conditional_rows, "_AT_ONCE", 40.0)  # blocks of a few rows
    found = credo.impute(model, gaps, how)
    assert found.notna().all().all() and list(found.columns) == list(gaps.columns)
    for r in range(len(gaps)):
        wanted = credo.infer(model, evidence=said(gaps.iloc[r])).marginals
        for name in gaps.columns:
            if not pd.isna(gaps[name].iloc[r]):
                assert found[name].iloc[r] == gaps[name].iloc[r]
            elif name in ("age", "height"):
                assert found[name].iloc[r] == pytest.approx(getattr(wanted[name], how), abs=1e-5)
            else:
                assert str(found[name].iloc[r]) == model.variables[model.variables.position(name)].label(
                    int(np.argmax(wanted[name]))
                )


def test_cells_can_be_filled_together(mixed, net, frame):
    for model, gaps in (mixed, (net, frame)):
        found = credo.impute(model, gaps, "map")
        graph = model.to_factor_graph()
        for r in range(0, len(gaps), 3):
            best = credo.infer(model, evidence=said(gaps.iloc[r]), maximise="all").score.value
            assert graph.log_score(dict(found.iloc[r])) == pytest.approx(best)


def test_draws_have_the_joint_distribution_of_the_missing_cells(net):
    rows = pd.DataFrame({"cloudy": None, "rain": None, "sprinkler": None, "wet": ["yes"] * 4000})
    found = credo.impute(net, rows, "sample", seed=0)
    joint = credo.query(net, ["cloudy", "rain", "sprinkler"], evidence={"wet": "yes"})
    for states in itertools.product(["no", "yes"], repeat=3):
        share = (found[["cloudy", "rain", "sprinkler"]] == list(states)).all(axis=1).mean()
        assert share == pytest.approx(joint[states], abs=0.03)
    assert credo.impute(net, rows, "sample", seed=0).equals(found)


def test_draws_of_numbers_have_their_joint_distribution():
    cut = {"kind": [0.3, 0.7], "x": {"bias": [-2.0, 2.0], "variance": [1.0, 0.25]}}
    cut["y"] = {"bias": 1.0, "variance": 0.5, "weights": [2.0]}
    states = {"kind": 2, "x": credo.Real(), "y": credo.Real()}
    model = credo.BayesNet(states, parents={"x": ["kind"], "y": ["x"]}, tables=cut)
    rows = {"x": np.full(4000, np.nan), "y": np.full(4000, np.nan)}  # kind is hidden
    found, wanted = credo.impute(model, rows, "sample", seed=0), credo.infer(model).marginals
    for name in ("x", "y"):
        assert found[name].mean() == pytest.approx(wanted[name].mean, abs=0.15)
        assert found[name].std() == pytest.approx(wanted[name].sd, rel=0.03)
    assert np.var(found["y"] - 2 * found["x"]) == pytest.approx(0.5, rel=0.06)


@pytest.mark.parametrize("how", ["mode", "map", "sample"])
def test_gaussian_models_are_answered_for_all_rows_at_once(how):
    model = credo.GaussianNet([[2.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 1.2]], [0.3, 1.0, 0.5])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3))
    x[rng.random(x.shape) < 0.4] = np.nan
    found = credo.impute(model, x, how, seed=0)
    assert found.shape == x.shape and (found[~np.isnan(x)] == x[~np.isnan(x)]).all()
    for row, filled in zip(x, found, strict=True):
        evidence = {f"x{k}": v for k, v in enumerate(row) if not np.isnan(v)}
        wanted = credo.infer(model, evidence=evidence).marginals
        for k in np.flatnonzero(np.isnan(row)):
            tol = 5 * wanted[f"x{k}"].sd if how == "sample" else 1e-9
            assert filled[k] == pytest.approx(wanted[f"x{k}"].mean, abs=tol)


def test_models_of_other_factors_and_named_methods_are_asked_row_by_row():
    names = {"a": credo.Real(), "b": credo.Real()}
    tables = {"a": {"bias": 1.0, "variance": 2.0}, "b": {"bias": 0.5, "variance": 1.0, "weights": [2.0]}}
    chain = credo.BayesNet(names, parents={"b": ["a"]}, tables=tables)
    for method, model in ((None, credo.datasets.fish()), ("gaussian-bp", chain)):
        graph = model.to_factor_graph()
        number = next(v.name for v in graph.variables if not v.is_discrete)
        other = next(v for v in graph.variables if v.name != number)
        rows = {other.name: [0, 1] if other.is_discrete else [0.5, -0.5]}
        found = credo.predict(model, rows, number, inference=method)
        for r, value in enumerate(rows[other.name]):
            wanted = credo.infer(model, method, evidence={other.name: value})
            assert found[r] == pytest.approx(wanted.marginals[number].mean)


@pytest.mark.parametrize("inference", [None, "bp", "enumerate"])
def test_impossible_rows_are_named_or_left_empty(net, inference):
    rows = pd.DataFrame({"sprinkler": ["no", "yes", "no"], "rain": ["no"] * 3, "wet": ["no", "yes", "yes"]})
    with pytest.raises(ZeroProbabilityError, match="row 2: the evidence has probability zero"):
        credo.predict(net, rows, "cloudy", inference=inference)
    found = credo.predict(net, rows, "cloudy", inference=inference, impossible="missing")
    assert found.isna().tolist() == [False, False, True]
    whole = credo.predict(net, rows.iloc[:2], "cloudy", inference=inference)
    assert found.iloc[:2].tolist() == whole.tolist()
    best = (
        credo.predict(net, rows, "cloudy", inference=inference, impossible="missing", maximise="all")
        if (inference != "bp")
        else found
    )
    assert best.isna().tolist() == [False, False, True]
    gaps = rows.assign(cloudy=None)
    for how in ("mode", "map", "sample"):
        filled = credo.impute(net, gaps, how, impossible="missing", seed=0)
        assert filled["cloudy"].isna().tolist() == [False, False, True]
        with pytest.raises(ZeroProbabilityError, match="row 2"):
            credo.impute(net, gaps, how, seed=0)


@pytest.mark.parametrize("kind", [int, float])
def test_impossible_rows_of_arrays_keep_their_gaps(net, kind):
    codes = np.array([[-1, 0, 0, 1], [-1, 0, 0, 0]], dtype=kind)
    codes[codes < 0] = -1 if kind is int else np.nan
    assert credo.predict(net, codes, "cloudy", impossible="missing").tolist() == [-1, 0]
    found = credo.impute(net, codes, impossible="missing")
    np.testing.assert_array_equal(found, np.where([[True], [False]], codes, [0, 0, 0, 0]))
    masked = np.ma.masked_array([[0, 0, 0, 0]], mask=[[True, False, False, False]])
    assert credo.impute(net, masked).tolist() == [[0, 0, 0, 0]]


def test_impossible_rows_of_categories_keep_their_gaps(net):
    rows = pd.DataFrame({"rain": ["no", "no"], "sprinkler": ["no", "no"], "wet": ["yes", "no"]})
    rows["cloudy"] = pd.Categorical([None, None], categories=["yes", "no"])
    found = credo.impute(net, rows, impossible="missing")
    assert found["cloudy"].isna().tolist() == [True, False] and found["cloudy"].dtype == rows["cloudy"].dtype


def test_a_blank_is_told_to_be_fitted_first():
    blank = credo.BayesNet.from_edges([("a", "b")])
    with pytest.raises(ModelError, match="fit it first"):
        credo.predict(blank, {"a": ["x"]}, "b")


def test_impossible_rows_of_mixed_models_are_named_or_left_empty():
    tables = {"a": [1.0, 0.0], "b": [[0.5, 0.5], [0.1, 0.9]], "x": {"bias": [0.0, 3.0], "variance": 1.0}}
    states = {"a": 2, "b": 2, "x": credo.Real()}
    model = credo.BayesNet(states, parents={"b": ["a"], "x": ["b"]}, tables=tables)
    rows = {"a": [0, 1, 0], "x": [0.5, 0.5, 2.5]}
    with pytest.raises(ZeroProbabilityError, match="row 1: the evidence has probability zero"):
        credo.predict(model, rows, "b")
    assert credo.predict(model, rows, "b", impossible="missing").tolist() == [0, None, 1]
    assert np.isnan(credo.predict(model, {"a": [0, 1]}, "x", impossible="missing")).tolist() == [False, True]


def test_soft_cells_weigh_states(net):
    from credo.data import Column, Dataset

    wet = net.variables[3].domain
    soft = np.array([[0.2, 0.8], [1.0, 1.0]])
    for data in (
        Dataset.of([Column("wet", wet, np.array([-1, 1]), soft)]),
        {"wet": [[0.2, 0.8], "yes"]},
    ):
        found = credo.predict(net, data, "rain", proba=True)
        for r, evidence in enumerate(([0.2, 0.8], "yes")):
            wanted = credo.infer(net, evidence={"wet": evidence}).marginals["rain"]
            np.testing.assert_allclose([found["no"][r], found["yes"][r]], wanted)


def test_probabilities_are_those_of_naive_bayes():
    from sklearn.naive_bayes import CategoricalNB

    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 300)
    x = np.stack([(label + rng.integers(0, k, 300)) % k for k in (2, 3, 4)], axis=1)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(label=label)
    peer = CategoricalNB(alpha=0.7).fit(x, label)
    edges = [("label", name) for name in "abc"]
    prior = {"label": 0.0, "a": 0.7, "b": 0.7, "c": 0.7}
    model = credo.fit(credo.BayesNet.from_edges(edges), frame, prior=prior).model
    found = credo.predict(model, frame, "label", proba=True)
    np.testing.assert_allclose(found.to_numpy(), peer.predict_proba(x), atol=1e-12)
    assert (credo.predict(model, frame, "label") == peer.predict(x)).all()


@pytest.fixture(scope="module")
def hmm():
    family = DiagonalGaussian([[0.0], [3.0]], [[1.0], [1.0]])
    return credo.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], family)


def test_hidden_states_are_told_for_every_row_in_the_order_of_the_table(hmm):
    x = np.random.default_rng(0).normal(size=20) + np.repeat([0, 3], 10)
    frame = pd.DataFrame({"who": ["b", "a"] * 10, "x": x, "state": "?"}, index=range(100, 120))
    found = credo.predict(hmm, frame, "state", groups="who")
    shares = credo.predict(hmm, frame, ["state"], groups="who", proba=True)["state"]
    best = credo.predict(hmm, frame, "state", groups="who", maximise="all")
    assert found.index.equals(frame.index) and shares.index.equals(frame.index) and found.name == "state"
    for who in "ab":
        part = frame[frame.who == who]
        wanted = credo.infer(hmm, data=part[["x"]].to_numpy()).marginals["state"]
        np.testing.assert_allclose(shares.loc[part.index], wanted)
        assert (found[part.index] == wanted.argmax(axis=1)).all()
        path = credo.infer(hmm, data=part[["x"]].to_numpy(), maximise="all").assignment["state"]
        assert (best[part.index] == path).all()


def test_hidden_states_of_a_list_of_sequences_are_a_list(hmm):
    parts = [np.array([[0.0], [3.0]]), np.array([[3.1], [2.9], [0.2]])]
    assert [p.tolist() for p in credo.predict(hmm, parts, "state")] == [[0, 1], [1, 1, 0]]
    frames = [pd.DataFrame({"x": part.ravel()}, index=[7, 8, 9][: len(part)]) for part in parts]
    assert credo.predict(hmm, frames, "state")[1].to_dict() == {7: 1, 8: 1, 9: 0}
    joined = credo.predict(hmm, np.concatenate(parts), "state", lengths=[2, 3])
    assert joined.tolist() == [0, 1, 1, 1, 0]
    assert credo.predict(hmm, {"x": [0.1, 2.8]}, ["state"])["state"].tolist() == [0, 1]


def test_components_of_mixtures_are_told_too():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=40) + np.repeat([0, 6], 20), "word": ["a"] * 20 + ["b"] * 20})
    frame = frame.set_index(np.arange(40) * 2)
    model = credo.fit(credo.Mixture.blank(2), frame, seed=0).model
    found = credo.predict(model, frame.assign(component="?", extra=1), "component")
    shares = credo.predict(model, frame, "component", proba=True)
    assert found.index.equals(frame.index) and len(set(found[:20])) == 1 and found.iloc[0] != found.iloc[-1]
    np.testing.assert_allclose(shares, credo.infer(model, data=frame).marginals["component"])


def test_what_hidden_states_have_not_is_refused(hmm, net):
    x = [[0.0], [3.0]]
    with pytest.raises(QueryError, match=r"no hidden variable named 'z'; there are \['state'\]"):
        credo.predict(hmm, x, "z")
    with pytest.raises(QueryError, match="hidden states of sequences have neither"):
        credo.predict(hmm, x, "state", std=True)
    with pytest.raises(QueryError, match="a best path has no probabilities"):
        credo.predict(hmm, x, "state", proba=True, maximise="all")
    with pytest.raises(ModelError, match="expected a model of named variables, got HMM; `predict` tells"):
        credo.impute(hmm, x)
    with pytest.raises(QueryError, match="groups: a BayesNet has rows, no sequences"):
        credo.predict(net, {"rain": ["yes"]}, "wet", groups="who")


def test_what_cannot_be_meant_is_refused(net, mixed):
    rows = {"rain": ["yes"]}
    with pytest.raises(QueryError, match="no variable named 'wett'; did you mean 'wet'"):
        credo.predict(net, rows, "wett")
    with pytest.raises(QueryError, match="expected different names of variables, one at least"):
        credo.predict(net, rows, [])
    with pytest.raises(QueryError, match="expected a name or a list of names of variables, got 3"):
        credo.predict(net, rows, 3)
    with pytest.raises(QueryError, match="maximise gives one answer per row"):
        credo.predict(net, rows, "wet", proba=True, maximise="all")
    with pytest.raises(QueryError, match=r"the targets among the names, got none of \['wet'\]"):
        credo.predict(net, rows, "wet", maximise=["cloudy"])
    with pytest.raises(QueryError, match="'height' is a number and has no states; std=True"):
        credo.predict(mixed[0], {"kind": ["a"]}, "height", proba=True)
    with pytest.raises(DataError, match="expected rows, got sequences"):
        credo.predict(
            net, credo.data.read({"rain": ["yes"] * 4}, schema={"rain": ["no", "yes"]}, lengths=[2, 2]), "wet"
        )
    with pytest.raises(credo.core.errors.OptionError, match="how"):
        credo.impute(net, {"rain": ["yes"]}, "median")
    with pytest.raises(QueryError, match="expected answers to sums, got maxima"):
        credo.infer_many(net, [{}], maximise="all").marginal("wet")


def test_many_rows_take_datasets_maxima_and_impossible_rows(net):
    rows = [{"sprinkler": "no", "rain": "no", "wet": "yes"}, {"wet": "yes"}, {"wet": None, "rain": "no"}]
    data = credo.data.read(rows, schema=net.variables)
    with pytest.raises(ZeroProbabilityError, match="row 0: the evidence has probability zero"):
        credo.infer_many(net, data)
    found = credo.infer_many(net, data, impossible="missing")
    plain = credo.infer_many(net, rows[1:])
    np.testing.assert_allclose(found.flat[1:], plain.flat)
    assert found.log_z[0] == -np.inf and not found.flat[0].any()
    best = credo.infer_many(net, data, maximise=["cloudy"], impossible="missing")
    for r in (1, 2):
        wanted = credo.infer(net, evidence=rows[r], maximise=["cloudy"])
        assert best.log_z[r] == pytest.approx(wanted.log_z.value)
        assert best.states[r].tolist() == [wanted.assignment.index("cloudy"), -1, -1, -1]
    assert best.states[0].tolist() == [-1] * 4 and best[1:].states.shape == (2, 4)


def test_many_rows_refuse_data_of_other_states(net):
    from credo.core.errors import EvidenceError

    data = credo.data.read({"wet": ["dry", "soaked"]})
    with pytest.raises(EvidenceError, match="read the data with the model's variables as schema"):
        credo.infer_many(net, data)


def test_half_a_vector_is_refused():
    from credo.data import Column, Dataset
    from credo.inference.portfolio.row_beliefs import evidence_of

    column = Column("v", credo.Real(2), np.array([[1.0, 2.0], [np.nan, np.nan], [1.0, np.nan]]))
    data = Dataset.of([column])
    assert evidence_of(data, 0)["v"].tolist() == [1.0, 2.0] and not evidence_of(data, 1)
    with pytest.raises(DataError, match="column 'v', row 2: expected a whole vector or none"):
        evidence_of(data, 2)


def test_methods_without_the_answer_are_refused(mixed, monkeypatch):
    from credo.core.errors import UnsupportedError
    from credo.inference.portfolio import completions, row_beliefs

    model, gaps = mixed
    plain = credo.infer

    def poor(*given, **how):
        return plain(*given, **how).but(marginals=None, assignment=None)

    monkeypatch.setattr(row_beliefs, "infer", poor)
    monkeypatch.setattr(completions, "infer", poor)
    with pytest.raises(UnsupportedError, match="computes no marginals; use another method, or none"):
        credo.impute(model, gaps, inference="conditional-gaussian")
    with pytest.raises(UnsupportedError, match="finds no best states; use another one, or none"):
        credo.impute(model, gaps, "map")
