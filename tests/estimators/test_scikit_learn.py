"""scikit-learn's own checks of estimators, and what happens without scikit-learn."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

from credo.estimators import (
    GMMHMM,
    BayesianFactorAnalysis,
    BayesianMixture,
    BernoulliRBM,
    BetheLDA,
    CategoricalHMM,
    GaussianHMM,
    GaussianMixture,
    GaussianRBM,
    MaximumLikelihoodClassifier,
    PoissonHMM,
    VariationalCategoricalHMM,
    VariationalGaussianHMM,
)

# Sequences have an order, and `score_samples` is a pair, as hmmlearn has it.
OF_SEQUENCES = {"check_methods_sample_order_invariance", "check_methods_subset_invariance"}


def whole(rows):
    """Numbers as symbols or counts, by leaving out what is not whole."""
    table = np.asarray(rows)
    if table.dtype.kind == "O":
        try:
            table = table.astype(float)
        except (TypeError, ValueError):
            return rows
    if hasattr(rows, "toarray") or table.dtype.kind not in "iuf" or table.ndim != 2 or not table.size:
        return rows
    return np.abs(np.trunc(np.where(np.isfinite(table), table, 0.0)))


class Truncated:
    """An estimator that refuses what is not whole, for checks that have nothing else."""

    def _read(self, X, lengths):
        return super()._read(whole(X), lengths)

    def fit(self, X, y=None, lengths=None, *, checkpoint=None, every=60):
        return super().fit(whole(X), y, lengths, checkpoint=checkpoint, every=every)


class TruncatedSymbols(Truncated, CategoricalHMM):
    pass


class TruncatedCounts(Truncated, PoissonHMM):
    pass


class TruncatedPosterior(Truncated, VariationalCategoricalHMM):
    pass


class Squashed:
    """An estimator of probabilities, for checks whose numbers are any: values are squashed to [0, 1]."""

    @staticmethod
    def _inside(rows):
        table = np.asarray(rows)
        if hasattr(rows, "toarray") or table.dtype.kind not in "iuf" or table.ndim != 2 or not table.size:
            return rows
        inside = np.where(np.isfinite(table), 1 / (1 + np.exp(-table.astype(float))), table)
        return type(rows)(inside, columns=rows.columns) if hasattr(rows, "columns") else inside

    def fit(self, X, y=None, *, checkpoint=None, every=60):
        return super().fit(self._inside(X), y, checkpoint=checkpoint, every=every)

    def partial_fit(self, X, y=None):
        return super().partial_fit(self._inside(X), y)

    def transform(self, X):
        return super().transform(self._inside(X))

    def score_samples(self, X):
        return super().score_samples(self._inside(X))


class SquashedRBM(Squashed, BernoulliRBM):
    pass


CASES = {
    "BernoulliRBM": (SquashedRBM(2, random_state=0, n_iter=2), set()),
    "GaussianRBM": (GaussianRBM(2, random_state=0, n_iter=2, learning_rate=1e-4), set()),
    "GaussianHMM": (GaussianHMM(2, random_state=0, max_iter=20, n_init=1), OF_SEQUENCES),
    "GaussianMixture": (GaussianMixture(2, random_state=0, max_iter=20), set()),
    "GMMHMM": (GMMHMM(2, 2, random_state=0, max_iter=20, n_init=1), OF_SEQUENCES),
    "CategoricalHMM": (TruncatedSymbols(2, n_features=200, random_state=0, max_iter=20), OF_SEQUENCES),
    "PoissonHMM": (TruncatedCounts(2, random_state=0, max_iter=20), OF_SEQUENCES),
    "MaximumLikelihoodClassifier": (MaximumLikelihoodClassifier(random_state=0), set()),
    "BayesianFactorAnalysis": (BayesianFactorAnalysis(random_state=0), set()),
    "VariationalGaussianHMM": (
        VariationalGaussianHMM(2, random_state=0, max_iter=30),
        OF_SEQUENCES,
    ),
    "VariationalCategoricalHMM": (
        TruncatedPosterior(2, n_features=200, random_state=0, max_iter=30),
        OF_SEQUENCES,
    ),
    "BetheLDA": (BetheLDA(2, random_state=0, max_iter=5), set()),
    "BayesianMixture": (BayesianMixture(2, random_state=0, max_iter=20), set()),
}
QUICK = ("GaussianHMM", "GaussianMixture", "MaximumLikelihoodClassifier", "BayesianFactorAnalysis")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_checks_of_scikit_learn_pass_but_for_those_that_are_named(name):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    estimator, expected = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = checks.check_estimator(estimator, on_skip=None, on_fail=None)
    assert {r["check_name"] for r in found if r["status"] == "failed"} == expected
    assert {r["check_name"] for r in found if r["status"] == "skipped"} <= {"check_array_api_input"}


WITHOUT = """
import sys
sys.modules["sklearn"] = None
import numpy as np
from credo.estimators import GaussianHMM, GaussianMixture
x = np.concatenate([np.zeros((9, 1)), np.full((9, 1), 5.0)]) + 0.1 * np.sin(np.arange(18.0))[:, None]
for estimator in (GaussianHMM(2, random_state=0), GaussianMixture(2, random_state=0)):
    try:
        estimator.predict(x)
    except ValueError as error:
        assert "is not fitted yet" in str(error)
    assert not hasattr(estimator, "model_") and not hasattr(estimator, "model_")
    print(len(set(estimator.fit(x).predict(x))), estimator.get_params()["n_components"])
assert not [name for name in sys.modules if name.startswith("sklearn.")]
"""


def test_scikit_learn_is_not_needed():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == ["2"] * 4
