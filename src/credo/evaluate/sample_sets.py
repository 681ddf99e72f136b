r"""How like two sets of samples are: drawn ones beside real ones.

With rows x of a real set P, rows y of another set Q, and a classifier c(x) of the real data:

    inception score    exp( mean_y KL( c(y) || mean_y c(y) ) ), from 1 to the number of classes
    Frechet distance   |m_P - m_Q|^2 + tr( S_P + S_Q - 2 (S_P S_Q)^(1/2) ), of the Gaussians with the means
                       and covariances of the sets (FID, where rows are features of images); not its root
    MMD^2              mean k(x, x') + mean k(y, y') - 2 mean k(x, y),  k(a, b) = exp( -|a - b|^2 / 2h ),
                       where h is the mean squared distance |x - x'|^2 of the real set
    1-NN accuracy      how often the nearest other row of the union is of the same set: 0.5 where sets cannot
                       be told apart, 1 where they lie apart, 0 where each row has its copy in the other set

A mean over pairs of one set counts each row with itself (biased, zero for equal sets) or leaves that out
(unbiased, zero on average for sets of one law, and then it may be negative).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..core.display import Listing, Shown, text_of
from ..core.errors import DataError, OptionError
from ..core.numbers import float_array
from ..core.records import register

__all__ = [
    "SampleScores",
    "frechet_distance",
    "inception_score",
    "mmd",
    "nearest_neighbour_accuracy",
    "score_samples",
]

_TIE = 1e-12  # squared distances that differ by less, in the scale of the rows, are the same


class FeatureMaker(Protocol):
    """A classifier that shows what it makes of an image on the way."""

    accuracy_: float  # its own, on images that it has not learned from

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, (images, classes)."""

    def features(self, X: Any) -> np.ndarray:
        """What its last layer reads, (images, features)."""


@register("SampleScores")
@dataclass(frozen=True, repr=False)
class SampleScores(Shown):
    """The scores of one set of samples against real rows."""

    inception: float  # inception score, higher is better
    frechet: float  # distance of features, lower is better
    mmd: float  # squared, of features, lower is better
    neighbour: float  # 1-NN accuracy in features, best at 0.5
    accuracy: float  # of the classifier itself, on data it has not learned from
    rows: int  # drawn rows that were scored

    def __repr__(self) -> str:
        return text_of(self._shown())

    def _shown(self) -> Iterable[str | Listing]:
        values = [self.inception, self.frechet, self.mmd, self.neighbour, self.accuracy]
        titles = ["inception score", "Frechet distance", "MMD^2", "1-NN accuracy", "classifier's accuracy"]
        yield Listing([[f"{value:.4g}" for value in values]], [True] * 5, titles)


def score_samples(real: Any, drawn: Any, classifier: FeatureMaker) -> SampleScores:
    """All scores of drawn rows against real ones, through the features of a classifier of the real data.

    Parameters
    ----------
    real, drawn
        Rows, or images, as the classifier takes them; as many of each, at best.
    classifier
        Such as a fitted `ImageClassifier`; its accuracy goes with the scores, which mean little if it is
        low.
    """
    first, second = classifier.features(real), classifier.features(drawn)
    return SampleScores(
        inception_score(classifier.predict_proba(drawn)),
        frechet_distance(first, second),
        mmd(first, second),
        nearest_neighbour_accuracy(first, second),
        float(classifier.accuracy_),
        len(second),
    )


def inception_score(probabilities: Any) -> float:
    """How sure a classifier is of its classes and how evenly it meets them: 1 to the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.evaluate import inception_score
    >>> inception_score(np.full((4, 3), 1 / 3)), round(inception_score(np.eye(3)), 6)
    (1.0, 3.0)
    """
    p = float_array("probabilities", probabilities, error=DataError)
    if p.ndim != 2 or not p.size:
        raise DataError(f"probabilities: expected shape (rows, classes), got {p.shape}")
    if not (p >= 0).all() or not np.allclose(p.sum(axis=1), 1, atol=1e-4):
        raise DataError("probabilities: expected rows of non-negative numbers that sum to 1")
    mean = p.mean(axis=0)
    ratio = np.where(p > 0, p, 1.0) / np.where(mean > 0, mean, 1.0)
    return float(np.exp(np.where(p > 0, p * np.log(ratio), 0.0).sum(axis=1).mean()))


def frechet_distance(real: Any, drawn: Any) -> float:
    """Squared Wasserstein distance of the Gaussians with the means and covariances of two sets of rows.

    Of features of images this is FID. Covariances need many more rows than columns.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.evaluate import frechet_distance
    >>> x = np.array([[0.0], [2.0]])
    >>> frechet_distance(x, x + 3.0), frechet_distance(x, 2 * x - 1.0)
    (9.0, 2.0)
    """
    first, second = _pair(real, drawn, least=2)
    gap = first.mean(axis=0) - second.mean(axis=0)
    one, other = np.atleast_2d(np.cov(first.T)), np.atleast_2d(np.cov(second.T))
    root = _root(one)
    # The eigenvalues of S_P S_Q are those of this symmetric matrix; below zero they are rounding.
    cross = np.linalg.eigvalsh(root @ other @ root)
    return float(gap @ gap + np.trace(one) + np.trace(other) - 2 * np.sqrt(np.maximum(cross, 0.0)).sum())


def mmd(real: Any, drawn: Any, *, bandwidth: float | None = None, unbiased: bool = False) -> float:
    """Squared maximum mean discrepancy of two sets of rows with a Gaussian kernel.

    Parameters
    ----------
    real, drawn
        Rows of numbers.
    bandwidth
        The variance h of the kernel; by default the mean squared distance of the real rows, over all pairs.
    unbiased
        Leave out the pairs of a row with itself.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.evaluate import mmd
    >>> x = np.array([[0.0], [1.0]])
    >>> mmd(x, x), round(mmd(x, x + 1.0), 4)
    (0.0, 0.4908)
    """
    first, second = _pair(real, drawn, least=2 if unbiased else 1)
    own = _squared_distances(first, first)
    width = float(own.mean()) if bandwidth is None else float(bandwidth)
    if not 0 < width < np.inf:
        if bandwidth is None:
            raise DataError("real: expected rows that differ, got equal ones; give a bandwidth")
        raise OptionError(f"bandwidth must be a positive number, got {bandwidth!r}")
    within = [_kernel_mean(own, width, unbiased)]
    within.append(_kernel_mean(_squared_distances(second, second), width, unbiased))
    return sum(within) - 2 * _kernel_mean(_squared_distances(first, second), width, False)


def nearest_neighbour_accuracy(real: Any, drawn: Any) -> float:
    """How often the nearest other row is of the same set; of equally near ones each has its share.

    Sets of one law and equal sizes give 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.evaluate import nearest_neighbour_accuracy
    >>> x = np.arange(4.0)[:, None]
    >>> nearest_neighbour_accuracy(x, x), nearest_neighbour_accuracy(x, x + 100.0)
    (0.0, 1.0)
    """
    first, second = _pair(real, drawn, least=2)
    union = np.concatenate([first, second])
    of_second = np.arange(len(union)) >= len(first)
    distance = _squared_distances(union, union)
    np.fill_diagonal(distance, np.inf)
    tie = _TIE * float(np.max(union.var(axis=0), initial=0.0)) * union.shape[1]
    near = distance <= distance.min(axis=1, keepdims=True) + tie
    same = near & (of_second[:, None] == of_second)
    return float((same.sum(axis=1) / near.sum(axis=1)).mean())


def _pair(real: Any, drawn: Any, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Both sets as finite numbers (rows, columns) with the same columns; images are flattened."""
    found = []
    for name, value in (("real", real), ("drawn", drawn)):
        rows = float_array(name, value, error=DataError)
        rows = rows.reshape(len(rows), -1) if rows.ndim else rows
        if rows.ndim != 2 or len(rows) < least or not rows.shape[1]:
            raise DataError(f"{name}: expected at least {least} rows of numbers, got shape {np.shape(value)}")
        if not np.isfinite(rows).all():
            raise DataError(f"{name}: expected finite numbers, got {rows[~np.isfinite(rows)].flat[0]:g}")
        found.append(rows)
    first, second = found
    if first.shape[1] != second.shape[1]:
        raise DataError(
            f"drawn: expected {first.shape[1]} columns, as many as the real rows have, got {second.shape[1]}"
        )
    return first, second


def _squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a_i - b_j|^2, (rows of a, rows of b); the matrix product is exact to the rounding of centred rows."""
    centre = a.mean(axis=0)
    one, other = a - centre, b - centre
    found = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
    return np.maximum(found, 0.0)  # type: ignore[no-any-return]


def _kernel_mean(distance: np.ndarray, width: float, leave_out: bool) -> float:
    kernel = np.exp(-distance / (2 * width))
    if not leave_out:
        return float(kernel.mean())
    count = len(kernel)
    return float((kernel.sum() - np.trace(kernel)) / (count * (count - 1)))


def _root(matrix: np.ndarray) -> np.ndarray:
    """The symmetric square root of a covariance."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # type: ignore[no-any-return]
