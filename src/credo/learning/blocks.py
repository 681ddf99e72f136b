r"""Four ways for a block to learn its matrix from nothing but the two messages that enter it.

A block with theta[l, m] = p(Y = m | X = l) sees f[n] = f_X and b[n] = b_Y of every sample n, and a mask
L[n] >= 0 that says how much each sample counts. All rules share the signature `update(theta, f, b, mask)`
and return a new matrix whose rows sum to 1:

    ml    theta_lm <- theta_lm sum_n L f_l b_m / (f' theta b)      maximises sum_n L log f' theta b
    kl    theta_lm <- theta_lm sum_n L f_l b_m / (theta' f)_m      minimises sum_n L KL(b || theta' f)
    vit   theta_lm <- sum_n L (onehot(f) + delta)_l (onehot(b) + delta)_m
    var   theta_lm <- delta + sum_n L f_l b_m                      mode of the variational Dirichlet posterior

each followed by dividing the rows by their sums. `ml` and `kl` start from the theta they are given and are
repeated `iterations` times; their objectives are concave and convex and never get worse, and the two rules
are one where every b is sharp. One iteration of `ml` is one step of EM. `vit` and `var` ignore theta. All
four count co-occurrences when all messages are sharp. A source is a block with one row and f = 1.

Multiplicative rules keep zeros. A row that no sample visits keeps its old values.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError, ZeroProbabilityError
from ..core.registry import Registry
from ..kernels.block_updates import multiply

__all__ = [
    "KL",
    "ML",
    "VAR",
    "VIT",
    "BlockRule",
    "block_rules",
    "local_divergence",
    "local_log_likelihood",
]


class BlockRule(abc.ABC):
    """A local learning rule; options are the dataclass fields of the final class."""

    name: ClassVar[str]

    @abc.abstractmethod
    def update(self, theta: np.ndarray, f: np.ndarray, b: np.ndarray, mask: Any = None) -> np.ndarray:
        """A new matrix.

        Parameters
        ----------
        theta
            (rows, columns), rows sum to 1.
        f
            (samples, rows) forward messages at the input.
        b
            (samples, columns) backward messages at the output.
        mask
            (samples,) how much each sample counts; all alike by default.
        """


block_rules: Registry[BlockRule] = Registry("block rule")


def _checked(theta: Any, f: Any, b: Any, mask: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    theta, f, b = (np.asarray(x, dtype=np.float64) for x in (theta, f, b))
    weights = np.ones(len(f)) if mask is None else np.asarray(mask, dtype=np.float64)
    if theta.ndim != 2 or f.ndim != 2 or b.ndim != 2 or (f.shape[1], b.shape[1]) != theta.shape:
        raise DataError(
            f"messages: expected (samples, rows) and (samples, columns) for a matrix {theta.shape}, "
            f"got {f.shape} and {b.shape}"
        )
    if len(f) != len(b) or weights.shape != (len(f),):
        raise DataError(
            f"messages: expected one forward, one backward and one mask entry per sample, "
            f"got {len(f)}, {len(b)} and {weights.shape}"
        )
    if not ((weights >= 0) & (weights < np.inf)).all():
        raise DataError("mask: expected finite, non-negative numbers")
    return theta, f, b, weights


def _normalised(counts: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; a row without counts stays as it was."""
    sums = counts.sum(axis=1, keepdims=True)
    return np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), old)


@dataclass(frozen=True, kw_only=True)
class MultiplicativeRule(BlockRule):
    """Steps that multiply the matrix entry by entry, the messages held."""

    by_column: ClassVar[bool]  # whether the share of an entry is one of its column, not of the sample
    iterations: int = 1  # multiplicative steps from the given matrix

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("iterations", self.iterations, 1)

    def update(self, theta: np.ndarray, f: np.ndarray, b: np.ndarray, mask: Any = None) -> np.ndarray:
        """Repeat the step, rows summing to 1 after each."""
        contiguous = (np.ascontiguousarray(x) for x in _checked(theta, f, b, mask))
        new, impossible = multiply(*contiguous, int(self.iterations), self.by_column)
        if impossible >= 0:
            raise ZeroProbabilityError(
                f"sample {impossible} is impossible for this block; give the evidence a floor, "
                "or start without zeros"
            )
        return np.asarray(new)


@block_rules.register
@dataclass(frozen=True, kw_only=True)
class ML(MultiplicativeRule):
    """Maximum likelihood of the block given its messages, by the step of EM.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning.blocks import ML
    >>> f, b = np.eye(2)[[0, 0, 1]], np.eye(2)[[0, 1, 1]]
    >>> ML().update(np.full((2, 2), 0.5), f, b)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    name: ClassVar[str] = "ml"
    by_column: ClassVar[bool] = False


@block_rules.register
@dataclass(frozen=True, kw_only=True)
class KL(MultiplicativeRule):
    """Smallest divergence from the backward messages to what the block sends forward (Lee and Seung)."""

    name: ClassVar[str] = "kl"
    by_column: ClassVar[bool] = True


@block_rules.register
@dataclass(frozen=True, kw_only=True)
class VIT(BlockRule):
    """Counts of the likeliest states of the two messages (not of the beliefs)."""

    name: ClassVar[str] = "vit"
    delta: float = 1e-6  # added to every entry of both sharpened messages
    ties: Literal["first", "random"] = "first"  # which of equally likely states is taken
    seed: int = 0  # of random ties

    def __post_init__(self) -> None:
        """Check the options."""
        check.at_least("delta", self.delta, 0)
        check.one_of("ties", self.ties, ("first", "random"))

    def update(self, theta: np.ndarray, f: np.ndarray, b: np.ndarray, mask: Any = None) -> np.ndarray:
        """Sharpen and count."""
        theta, f, b, weights = _checked(theta, f, b, mask)
        rng = check.generator(self.seed)
        sharp_f, sharp_b = (self._sharpened(x, rng) + self.delta for x in (f, b))
        return _normalised(sharp_f.T @ (sharp_b * weights[:, None]), theta)

    def _sharpened(self, messages: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        best = messages == messages.max(axis=1, keepdims=True)
        order = best * (1.0 + rng.random(best.shape)) if self.ties == "random" else best
        return np.eye(messages.shape[1])[order.argmax(axis=1)]


@block_rules.register
@dataclass(frozen=True, kw_only=True)
class VAR(BlockRule):
    """Mode or mean of the variational Dirichlet posterior with the flat prior Dir(1 + delta)."""

    name: ClassVar[str] = "var"
    delta: float = 1e-9  # prior count of every entry
    estimate: Literal["mode", "mean"] = "mode"  # the mean adds one more count to every entry

    def __post_init__(self) -> None:
        """Check the options."""
        check.at_least("delta", self.delta, 0)
        check.one_of("estimate", self.estimate, ("mode", "mean"))

    def update(self, theta: np.ndarray, f: np.ndarray, b: np.ndarray, mask: Any = None) -> np.ndarray:
        """Count products of messages."""
        theta, f, b, weights = _checked(theta, f, b, mask)
        extra = self.delta + (self.estimate == "mean")
        return _normalised(extra + f.T @ (b * weights[:, None]), theta)


def local_log_likelihood(theta: np.ndarray, f: np.ndarray, b: np.ndarray, mask: Any = None) -> float:
    """Sum over samples of L log f' theta b: what `ml` maximises."""
    theta, f, b, weights = _checked(theta, f, b, mask)
    with np.errstate(divide="ignore"):
        logs = np.log(((f @ theta) * b).sum(axis=1))
    return float(logs[weights > 0] @ weights[weights > 0])


def local_divergence(theta: np.ndarray, f: np.ndarray, b: np.ndarray, mask: Any = None) -> float:
    """Sum over samples of L KL(b || theta' f): what `kl` minimises; 0 log 0 is 0."""
    theta, f, b, weights = _checked(theta, f, b, mask)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(b > 0, b * np.log(b / (f @ theta)), 0.0)
    return float(terms.sum(axis=1)[weights > 0] @ weights[weights > 0])
