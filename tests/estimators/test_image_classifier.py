"""The classifier whose features judge drawn images."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceError, DataError, OptionError, QueryError
from credo.estimators import ImageClassifier


def stripes(count=120, seed=0):
    """Images of 8x8 with lines across, lines down, or nothing but noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=count)
    X = rng.normal(0, 30, (count, 8, 8)) + 128
    X[y == 0, ::2] += 60
    X[y == 1, :, ::2] += 60
    return np.clip(X, 0, 255).astype(np.uint8), np.array(["across", "down", "noise"])[y]


@pytest.fixture(scope="module")
def fitted():
    return ImageClassifier(4, epochs=12, batch_size=20, random_state=1).fit(*stripes())


def test_stripes_are_told_from_noise_and_on_images_never_seen(fitted):
    assert fitted.accuracy_ > 0.8 and fitted.score(*stripes(300, seed=5)) > 0.85
    assert fitted.loss_[-1] < 0.5 * fitted.loss_[0] and len(fitted.loss_) == 12
    chances = fitted.predict_proba(stripes()[0])
    assert chances.shape == (120, 3) and chances.sum(axis=1) == pytest.approx(1)
    assert fitted.features(stripes()[0]).shape == (120, 16)


def test_bytes_numbers_and_rows_of_pixels_are_the_same_images(fitted):
    X = stripes(7)[0]
    as_bytes = fitted.features(X)
    np.testing.assert_array_equal(as_bytes, fitted.features(X.astype(float)))
    np.testing.assert_array_equal(as_bytes, fitted.features(X.reshape(7, 64)))
    np.testing.assert_allclose(as_bytes[2:3], fitted.features(X[2:3]), rtol=1e-5)


def test_the_same_seed_gives_the_same_classifier_and_files_keep_it(fitted, tmp_path):
    again = ImageClassifier(4, epochs=12, batch_size=20, random_state=1).fit(*stripes())
    X = stripes(30, seed=9)[0]
    np.testing.assert_array_equal(fitted.features(X), again.features(X))
    credo.save(fitted, tmp_path / "judge.credo")
    loaded = credo.load(tmp_path / "judge.credo")
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.accuracy_ == fitted.accuracy_ and loaded.get_params() == fitted.get_params()


def test_what_is_held_out_is_not_learned_from():
    """Labels without a meaning are learned by heart; images held out tell it."""
    X, y = stripes(60)[0], np.random.default_rng(3).integers(2, size=60)
    found = ImageClassifier(4, epochs=1, batch_size=20, held_out=0.5, random_state=0).fit(X, y)
    assert abs(found.accuracy_ - 0.5) < 0.35 and len(found.loss_) == 1


@pytest.mark.parametrize(
    ("X", "y", "options", "error", "said"),
    [
        (np.zeros((4, 5)), [0, 1, 0, 1], {}, OptionError, r"\(height, width\) of 5 pixels, got \(2, 2\)"),
        (np.zeros((4, 6)), [0, 1, 0, 1], {"shape": (2, 2)}, OptionError, "of 6 pixels"),
        (
            np.zeros((4, 3, 3)),
            [0, 1, 0],
            {},
            DataError,
            r"expected 4 labels, one per image, got shape \(3,\)",
        ),
        (np.zeros((4, 3, 3)), [1] * 4, {}, DataError, r"at least two classes, got \[1\]"),
        (np.full((4, 3, 3), np.nan), [0, 1, 0, 1], {}, DataError, "finite grey values"),
        (np.zeros(4), [0, 1, 0, 1], {}, DataError, r"expected images \(images, height, width\)"),
        (np.zeros((2, 3, 3)), [0, 1], {"held_out": 0.9}, DataError, "more than 2 images"),
        (np.zeros((4, 3, 3)), [0, 1, 0, 1], {"epochs": 0}, OptionError, "epochs must be at least 1"),
    ],
)
def test_what_are_no_labelled_images_is_refused(X, y, options, error, said):
    with pytest.raises(error, match=said):
        ImageClassifier(4, **options).fit(X, y)


def test_images_of_another_size_and_questions_before_fitting_are_refused(fitted):
    with pytest.raises(DataError, match=r"expected images \(images, 8, 8\), .* got \(2, 9, 9\)"):
        fitted.predict(np.zeros((2, 9, 9)))
    with pytest.raises(QueryError, match="not fitted yet; call fit first"):
        ImageClassifier().predict(np.zeros((2, 9, 9)))


def test_a_rate_that_runs_away_is_told():
    with pytest.raises(ConvergenceError, match="use a smaller rate"):
        ImageClassifier(4, epochs=12, batch_size=20, rate=1e30, random_state=1).fit(*stripes())
