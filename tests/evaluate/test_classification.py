"""Scores of predicted labels against scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import metrics

from credo.core.errors import DataError
from credo.evaluate import score_classes


@pytest.mark.parametrize("names", [[0, 1, 2, 3], ["ah", "eh", "iy", "s"]])
def test_scores_are_those_of_scikit_learn(names):
    rng = np.random.default_rng(3)
    truth = np.array(names)[rng.choice(4, 200, p=[0.6, 0.3, 0.08, 0.02])]
    found = np.where(
        rng.random(200) < 0.6, truth, np.array(names)[rng.integers(0, 3, 200)]
    )  # the last is never said
    scores = score_classes(truth, found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        macro, weighted = (
            metrics.precision_recall_fscore_support(truth, found, average=kind, zero_division=0)[:3]
            for kind in ("macro", "weighted")
        )
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(truth, found))
    assert (scores.macro_precision, scores.macro_recall, scores.macro_f1) == pytest.approx(macro)
    assert (scores.weighted_precision, scores.accuracy, scores.weighted_f1) == pytest.approx(weighted)
    np.testing.assert_array_equal(scores.confusion, metrics.confusion_matrix(truth, found))


def test_a_class_that_is_only_predicted_counts_with_zero():
    scores = score_classes([0, 0], [0, 1])
    assert scores.classes == (0, 1) and scores.macro_f1 == pytest.approx(1 / 3)
    assert scores.weighted_f1 == pytest.approx(2 / 3) and scores.recall_by_class.tolist() == [0.5, 0]


def test_one_class_and_no_error():
    scores = score_classes(["a"], ["a"])
    assert scores.accuracy == scores.macro_f1 == scores.weighted_precision == 1


@pytest.mark.parametrize(
    ("truth", "found", "said"),
    [
        ([0, 1], [0], r"two lists of the same length, at least 1, got shapes \(2,\) and \(1,\)"),
        ([], [], "at least 1"),
        ([0, 1], ["0", "1"], "text and numbers are never the same label"),
    ],
)
def test_lists_that_do_not_fit_are_refused(truth, found, said):
    with pytest.raises(DataError, match=said):
        score_classes(truth, found)
