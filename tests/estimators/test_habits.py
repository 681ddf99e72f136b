"""What every estimator does among those of scikit-learn: copies, pickles, pipelines, searches, columns."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import credo.estimators as rooms
from credo.core.errors import ConvergenceWarning

base = pytest.importorskip("sklearn.base")
exceptions = pytest.importorskip("sklearn.exceptions")
selection = pytest.importorskip("sklearn.model_selection")
pipeline = pytest.importorskip("sklearn.pipeline")
preprocessing = pytest.importorskip("sklearn.preprocessing")
tree = pytest.importorskip("sklearn.tree")

RNG = np.random.default_rng(0)
LABELS = np.repeat(RNG.integers(2, size=15), 4)
ROWS = np.array([[0.0, 0.0], [5.0, 3.0]])[LABELS] + RNG.normal(size=(60, 2))
COUNTS = RNG.poisson(np.array([[1.0, 6.0, 2.0], [7.0, 1.0, 2.0]])[LABELS])
IMAGES = RNG.random((40, 16))
ITEMS = [[{"a": float(k % 2), "b": 1.0} for k in range(4)] for _ in range(8)]
NAMES = [["x" if k % 2 else "y" for k in range(4)] for _ in range(8)]
SMOOTH = {name: 2.0 for name in ("startprob_prior", "transmat_prior", "emissionprob_prior")}
GRAPHS = [(np.eye(2)[[k % 2 for k in range(4)]], [(0, 1), (1, 2), (2, 3)]) for _ in range(8)]


class Case(NamedTuple):
    """An estimator, what it learns from, an option to choose, and what it is asked."""

    estimator: Any
    X: Any
    y: Any
    option: tuple[str, list[Any]]
    ask: str
    scaler: Any = None  # what may come before it


def chain(kind: str, X: Any, scaler: Any = None, **options: Any) -> Case:
    found = getattr(rooms, kind)(2, random_state=0, max_iter=10, n_init=1, **options)
    return Case(found, X, None, ("n_components", [1, 2]), "predict", scaler)


def _mixture(kind: str, **options: Any) -> Case:
    found = getattr(rooms, kind)(2, random_state=0, max_iter=10, **options)
    return Case(found, ROWS, None, ("n_components", [1, 2]), "predict", preprocessing.StandardScaler)


CASES: dict[str, Callable[[], Case]] = {
    "GaussianHMM": lambda: chain("GaussianHMM", ROWS, preprocessing.StandardScaler),
    "GMMHMM": lambda: chain("GMMHMM", ROWS, preprocessing.StandardScaler, n_mix=2),
    "VariationalGaussianHMM": lambda: chain("VariationalGaussianHMM", ROWS, preprocessing.StandardScaler),
    "PoissonHMM": lambda: chain("PoissonHMM", COUNTS),
    "CategoricalHMM": lambda: chain("CategoricalHMM", LABELS[:, None], n_features=2, **SMOOTH),
    "VariationalCategoricalHMM": lambda: chain(
        "VariationalCategoricalHMM", LABELS[:, None], n_features=2
    ),
    "GaussianMixture": lambda: _mixture("GaussianMixture"),
    "BayesianMixture": lambda: _mixture("BayesianMixture"),
    "BayesianFactorAnalysis": lambda: Case(
        rooms.BayesianFactorAnalysis(1, random_state=0, max_iter=20), COUNTS.astype(float), None,
        ("n_components", [1, 2]), "transform", preprocessing.StandardScaler,
    ),
    "BernoulliRBM": lambda: Case(
        rooms.BernoulliRBM(2, random_state=0, n_iter=2), np.tile(np.eye(3), (20, 1)), None,
        ("n_components", [1, 2]), "transform",
    ),
    "GaussianRBM": lambda: Case(
        rooms.GaussianRBM(2, random_state=0, n_iter=2), ROWS, None,
        ("n_components", [1, 2]), "transform", preprocessing.StandardScaler,
    ),
    "InfiniteRBM": lambda: Case(
        rooms.InfiniteRBM(2, random_state=0, n_chains=20), np.tile(np.eye(3), (20, 1)), None,
        ("n_components", [1, 2]), "transform",
    ),
    "ConditionalRBMClassifier": lambda: Case(
        rooms.ConditionalRBMClassifier(2, random_state=0, n_iter=2), ROWS, np.eye(2)[LABELS],
        ("n_components", [1, 2]), "predict", preprocessing.StandardScaler,
    ),
    "BetheLDA": lambda: Case(
        rooms.BetheLDA(2, random_state=0, max_iter=3), COUNTS, None, ("n_components", [1, 2]), "transform"
    ),
    "MaximumLikelihoodClassifier": lambda: Case(
        rooms.MaximumLikelihoodClassifier(random_state=0), ROWS, LABELS, ("priors", [None, "counts"]),
        "predict", preprocessing.StandardScaler,
    ),
    "ChainCRF": lambda: Case(
        rooms.ChainCRF(), ITEMS, NAMES, ("prior", ["gaussian(scale=1)", "gaussian(scale=2)"]), "predict"
    ),
    "GraphCRF": lambda: Case(
        rooms.GraphCRF(), GRAPHS, NAMES, ("prior", ["gaussian(scale=1)", "gaussian(scale=2)"]), "predict"
    ),
    "ImageClassifier": lambda: Case(
        rooms.ImageClassifier(width=4, epochs=1, random_state=0), IMAGES, np.arange(40) % 2,
        ("rate", [1e-3, 1e-2]), "predict",
    ),
}  # fmt: skip
HEAVY = ("ImageClassifier", "BetheLDA")
EACH = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in HEAVY else []) for n in CASES]
)


def quietly(call: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*arguments, **options)


def answers(found: Any) -> Any:
    return [np.asarray(part).tolist() for part in found]


def test_every_estimator_has_a_case():
    assert {name for name in rooms.__all__ if name != "Estimator"} == set(CASES)


@EACH
def test_copies_pickles_and_searches_learn_and_answer_alike(name):
    case = CASES[name]()
    copy = base.clone(case.estimator)
    assert copy is not case.estimator and copy.get_params() == case.estimator.get_params()
    with pytest.raises(exceptions.NotFittedError, match=f"this {name} is not fitted yet; call fit first"):
        getattr(copy, case.ask)(case.X)
    found = quietly(copy.fit, case.X, case.y)
    told = answers(getattr(found, case.ask)(case.X))
    assert answers(getattr(pickle.loads(pickle.dumps(found)), case.ask)(case.X)) == told
    again = quietly(base.clone(found).fit, case.X, case.y)
    assert answers(getattr(again, case.ask)(case.X)) == told, "the same seed gives the same answer"
    option, values = case.option
    grid = selection.GridSearchCV(
        case.estimator, {option: values}, cv=selection.KFold(2), error_score="raise"
    )
    quietly(grid.fit, case.X, case.y)
    assert grid.best_params_[option] in values and np.isfinite(grid.cv_results_["mean_test_score"]).all()
    assert len(getattr(grid, case.ask)(case.X)) == len(case.X)


@EACH
def test_pipelines_end_in_it(name):
    case = CASES[name]()
    before = [] if case.scaler is None else [case.scaler()]
    pipe = pipeline.make_pipeline(*before, case.estimator)
    quietly(pipe.fit, case.X, case.y)
    assert len(getattr(pipe, case.ask)(case.X)) == len(case.X)
    key = f"{name.lower()}__{case.option[0]}"
    assert pipe.set_params(**{key: case.option[1][0]}).get_params()[key] == case.option[1][0]


@pytest.mark.parametrize("name", [n for n in CASES if hasattr(getattr(rooms, n), "transform")])
def test_new_columns_come_as_a_frame_where_that_is_asked_for(name):
    pd = pytest.importorskip("pandas")
    case = CASES[name]()
    found = quietly(base.clone(case.estimator).set_output(transform="pandas").fit, case.X, case.y)
    table = found.transform(case.X)
    assert isinstance(table, pd.DataFrame) and list(table.columns) == list(found.get_feature_names_out())
    plain = found.set_output(transform="default").transform(case.X)
    np.testing.assert_array_equal(table.to_numpy(), plain)
    final = pipeline.make_pipeline(base.clone(case.estimator), tree.DecisionTreeClassifier(random_state=0))
    assert len(quietly(final.fit, case.X, LABELS).predict(case.X)) == len(case.X)
