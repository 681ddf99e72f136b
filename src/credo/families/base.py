r"""What exponential families have in common, and what learning needs of them.

    p(x | eta) = h(x) exp( eta . T(x) - A(eta) ),     mu = E[T(x)] = grad A(eta)

An object holds a batch of *members* of one family, one per hidden state, component or table row: every
parameter array has the members on its first axis. Rows of data are on the first axis of `x`; a row that is
missing has density 1 (NaN for numbers, -1 for states), and so has a missing coordinate of a Gaussian.

A `Family` is what hidden Markov models emit and mixtures consist of. Families are made of families
(`Mixture`, `Product`): the density of a row is a sum over *choices* (which component) of densities of
*leaves* (a Gaussian),

    log p(x) = combine(leaves(x)),      leaves(x) = log p(x | all choices)

and whatever is composed, EM raises

    Q(new) = sum counts log p(choices; new) + sum_rows sum_leaves q leaves(x; new),   counts, q = divide(...)

in which q = weight times p(choices | x) of the old members stays as it is. Choices have a closed form always,
leaves where `collect` gives sums; other leaves are moved by gradient steps on Q, and then `leaves_at` is all
that JAX has to know (`learning/leaf_steps.py`). At new = old the gradient of Q is that of the log-likelihood
(Fisher).

Whoever writes a family gives all abstract methods, which are few kinds of work:

    E-step    leaves (a composition: combine, divide)
    M-step    collect, update; without closed form to_free, from_free, is_free, leaves_at
    a run     initialise to start it, movement to end it, n_parameters to judge it
    data      rows, missing, hide, sample
    members   len, take

A `ClosedLeaf` is a leaf that is also an `ExponentialFamily`; it adds from_mean and sufficient, and T and A
need no code in a learner. The mathematics on plain arrays is in `natural.py`. A family object never changes.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..core.domain import Domain, Real
from ..core.errors import DataError, ModelError
from ..core.numbers import float_array
from ..core.records import record
from ..kernels.weighted_sums import weighted_sums
from .trees import Tree, add_trees, map_tree, scale_tree, tree_leaves

__all__ = [
    "ClosedLeaf",
    "ExpectedSums",
    "ExponentialFamily",
    "Family",
    "Members",
    "Statistics",
    "each_member",
    "frozen",
    "member_weights",
    "numbers",
]

_ENTRIES = 1 << 20  # numbers of sufficient statistics made at once; bounds the memory


@record("family statistics")
@dataclass(frozen=True)
class Statistics:
    """Weighted sums over rows of data, for each member; they add up over parts of the data."""

    count: np.ndarray  # (members,) sum of the weights
    total: np.ndarray  # (members, m) sum of weight times T(x)
    log_base: float | np.ndarray = 0.0  # sum of weight times log h(x), (members,) if it is not zero

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.count + other.count, self.total + other.total, self.log_base + other.log_base)

    def scaled(self, step: float) -> Statistics:
        """The same with all weights multiplied by one number, as mini-batches need it."""
        return Statistics(step * self.count, step * self.total, step * self.log_base)


@record("family expected")
@dataclass(frozen=True)
class ExpectedSums:
    """What weighted rows say to a family, choices divided; parts of the data add up."""

    count: np.ndarray  # (members,) total weight of rows that observe something
    counts: Tree  # of the choices, see `Family.divide`; None where there are none
    sums: Tree  # of the leaves, see `Family.collect`
    free: Tree = None  # where gradient steps led those numbers that follow from no sums

    def __add__(self, other: ExpectedSums) -> ExpectedSums:
        return ExpectedSums(
            self.count + other.count, add_trees(self.counts, other.counts), add_trees(self.sums, other.sums)
        )

    def update(self, family: Any, prior: Any = None, *, floor: float = 0.0) -> Any:
        """The members that the rows make of those that expected them: the M-step, see `Family.update`."""
        found = family.update(self.counts, self.sums, prior, floor=floor)
        return found if self.free is None else found.from_free(self.free)

    def scaled(self, step: float) -> ExpectedSums:
        """The same with all weights multiplied by one number, as mini-batches need it."""
        return ExpectedSums(step * self.count, scale_tree(self.counts, step), scale_tree(self.sums, step))


class Members(abc.ABC):
    """A batch of distributions."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """How many members there are."""

    @abc.abstractmethod
    def take(self, members: Any) -> Self:
        """Some of the members, in the given order."""


class Family(Members):
    """A batch of distributions of rows that can be evaluated, sampled and learned from weighted rows."""

    @property
    @abc.abstractmethod
    def n_parameters(self) -> int:
        """How many free numbers all members have together."""

    @abc.abstractmethod
    def rows(self, x: Any) -> np.ndarray:
        """`x` as the array the other methods work on, or an error that says what is wrong with it."""

    def schema(self, names: Sequence[str]) -> dict[str, Domain]:
        """What the named columns that make up rows hold; numbers by default."""
        return {name: Real() for name in names}

    @abc.abstractmethod
    def missing(self, x: np.ndarray) -> np.ndarray:
        """Which rows observe nothing, (rows,)."""

    @abc.abstractmethod
    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy in which the rows marked in `hidden` (rows,) observe nothing."""

    @abc.abstractmethod
    def sample(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row from each of the given members."""

    @abc.abstractmethod
    def leaves(self, x: Any) -> Tree:
        """Log densities given all choices: a tree of arrays (rows, members, ...), one more axis per choice.

        0 where a row is missing.
        """

    def combine(self, leaves: Tree) -> np.ndarray:
        """Log densities with the choices summed out, (rows, members)."""
        return leaves  # type: ignore[no-any-return]

    def divide(self, leaves: Tree, weights: np.ndarray) -> tuple[Tree, Tree]:
        """Weights (rows, members) of rows divided among the choices.

        Returns
        -------
        counts
            Expected numbers of the choices, summed over rows; None where there are none.
        q
            Weight times probability of the choices given the row, in the places of `leaves`.

        A row that is missing should come with no weight: it tells nothing about the choices.
        """
        return None, weights

    def log_density(self, x: Any) -> np.ndarray:
        """Log density of every row under every member, (rows, members); 0 where a row is missing."""
        return self.combine(self.leaves(x))

    @abc.abstractmethod
    def collect(self, x: Any, q: Tree = None) -> Tree:
        """Sums that `update` needs, of rows with weights q, which add up over parts of the data and scale.

        Rows that observe nothing are left out. A coordinate that a row does not observe is replaced by its
        expectation given the rest of the row, under these members. None for q is weight 1, where there are
        no choices; None comes back where a leaf has no closed form.
        """

    def expect(self, x: Any, weights: Any = None, leaves: Tree = None) -> ExpectedSums:
        """The E-step for rows with weights (rows, members): counts of choices and sums of leaves.

        Who has the `leaves` of these rows may give them.
        """
        found = self.rows(x)
        share = member_weights(weights, len(found), len(self))
        share = np.ones((len(found), len(self))) if share is None else share
        share = np.where(self.missing(found)[:, None], 0.0, share)
        counts, q = self.divide(self.leaves(found) if leaves is None else leaves, share)
        return ExpectedSums(share.sum(axis=0), counts, self.collect(found, q))

    @abc.abstractmethod
    def update(self, counts: Tree, sums: Tree, prior: Any = None, *, floor: float = 0.0) -> Self:
        """New members of the highest Q, or Q plus log prior, as far as closed forms go.

        Parameters
        ----------
        counts, sums
            From `divide` and `collect`, or from `expect`.
        prior
            The conjugate prior; None for maximum likelihood.
        floor
            Variances below this are raised to it; 0 refuses a covariance that is not positive definite.

        A member without any weight keeps its parameters, unless a prior gives it new ones. Leaves without a
        closed form stay as they are.
        """

    def choices(self) -> Tree:
        """Probabilities of the choices in the places of their counts; None where there are none."""
        return None

    def choice_value(self, counts: Tree) -> float:
        """The first sum of Q: counts of choices, as `divide` gives them, times log probabilities."""
        return 0.0

    def log_prior(self, prior: Any) -> float:
        """Log density of the parameters of all members under the prior that `update` takes; 0 for None."""
        return 0.0 if prior is None else float(np.sum(prior.log_density(self)))

    @abc.abstractmethod
    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> Self:
        """Random members of the same shape, at the scale of the data, from which learning can start."""

    @abc.abstractmethod
    def movement(self, new: Self) -> float:
        """The largest change of a parameter on the way to `new`, whatever the unit of the data.

        Probabilities count as they are, means in standard deviations of their member, (co)variances in its
        variances.
        """

    def to_free(self) -> Tree:
        """What gradient steps move as numbers without bounds, members on the first axis; None if nothing."""
        return None

    def from_free(self, tree: Tree) -> Self:
        """Members with these free numbers; what has a closed form is taken over as it is."""
        return self

    @property
    def is_free(self) -> Tree:
        """Which numbers of `to_free` gradient steps may move: the same tree with True or False."""
        return None

    @property
    def means(self) -> Any:
        """The expected row of every member, (members, ...), of products by column; None for symbols."""
        return None

    @property
    def is_closed(self) -> bool:
        """Whether sums over complete rows say all, because nothing is chosen and no leaf needs gradients."""
        return False

    @property
    def starts_apart(self) -> bool:
        """Whether `initialise` has looked for clusters of the rows already."""
        return False

    @property
    def is_noisy(self) -> bool:
        """Whether learning adds noise to rows, see `noisy_at`."""
        return False

    def refuse(self, x: np.ndarray) -> None:
        """An error that says why rows, as `rows` gives them, cannot be learned from."""
        return None

    @property
    def structure(self) -> tuple[Any, ...]:
        """All that `leaves_at` depends on except free numbers; equal ones share a compiled program."""
        return (type(self),)

    def to_arrays(self, x: np.ndarray) -> Tree:
        """Rows as the plain arrays that `leaves_at` takes; None if nothing is moved by gradients."""
        return None

    def leaves_at(self, tree: Tree, x: Tree) -> Tree:
        """`leaves` of ONE member at its free numbers, a JAX function, (rows, ...); None as in `to_free`."""
        return None

    def noisy_at(self, x: Tree, key: Any) -> Tree:
        """The arrays of `to_arrays` with fresh noise, a JAX function, where rows come in steps."""
        return x

    def log_scales(self, tree: Tree) -> Any:
        """Log standard deviations of latent mixtures among free numbers, (..., components, d); or None."""
        return None

    def pool(self, slopes: Tree) -> Tree:
        """Slopes by the free numbers, those that members share added up, a JAX function."""
        return slopes


class ExponentialFamily(Members):
    """Members p(y) = h(y) exp( eta . u(y) - A(eta) ) of one family, whatever y is."""

    @property
    @abc.abstractmethod
    def natural(self) -> np.ndarray:
        """Natural parameters eta, (members, m)."""

    @property
    @abc.abstractmethod
    def log_normaliser(self) -> np.ndarray:
        """A(eta), (members,)."""

    @property
    @abc.abstractmethod
    def mean_parameters(self) -> np.ndarray:
        """Mean parameters E[u(y)], (members, m)."""

    @classmethod
    @abc.abstractmethod
    def from_natural(cls, natural: Any) -> Self:
        """Members with these natural parameters (members, m)."""

    def entropy(self) -> np.ndarray:
        """-E[log p(y)] of every member, (members,), where log h is constant."""
        return self.log_normaliser - np.einsum("km,km->k", self.natural, self.mean_parameters)

    def kl(self, other: Self) -> np.ndarray:
        """KL divergence of every member to the one of `other` at the same place, (members,)."""
        gap = np.einsum("km,km->k", self.natural - other.natural, self.mean_parameters)
        return gap - self.log_normaliser + other.log_normaliser


class ClosedLeaf(Family, ExponentialFamily):
    """A batch of members of one exponential family that is learned from sums over rows: a leaf.

    >>> import numpy as np
    >>> from credo.families.categorical import Categorical
    >>> coin = Categorical([[0.5, 0.5], [0.9, 0.1]])
    >>> np.exp(coin.log_density([0, 1])).round(3)
    array([[0.5, 0.9],
           [0.5, 0.1]])
    >>> coin.update(None, coin.collect([0, 0, 1])).probabilities[0].round(3)
    array([0.667, 0.333])
    """

    @property
    def is_closed(self) -> bool:
        """Always."""
        return True

    def expect(self, x: Any, weights: Any = None, leaves: Tree = None) -> ExpectedSums:
        """The sums; there is nothing to choose, and no density is needed."""
        sums = self.collect(x, weights)
        return ExpectedSums(sums.count, None, sums)

    @classmethod
    @abc.abstractmethod
    def from_mean(cls, mean: Any) -> Self:
        """Members with these mean parameters (members, m)."""

    @abc.abstractmethod
    def sufficient(self, x: np.ndarray) -> np.ndarray:
        """T(x) of rows without missing values, (rows, m)."""

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """Log h(x) of rows without missing values, (rows,)."""
        return np.zeros(len(x))

    def _summed(self, x: np.ndarray, weights: np.ndarray | None) -> Statistics:
        """Weighted sums of T over complete rows; bounded memory whatever the number of rows."""
        total = self._totals(x, weights)
        count = np.full(len(self), float(len(x))) if weights is None else weights.sum(axis=0)
        base = self.log_base(x)
        shared = base.sum() if weights is None else base @ weights
        return Statistics(count, total, np.zeros(len(self)) + shared)

    def _totals(self, x: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        width = self.natural.shape[1]
        total = np.zeros((len(self), width))
        block = max(1, _ENTRIES // max(width, 1))
        for first in range(0, len(x), block):
            statistics = self.sufficient(x[first : first + block])
            if weights is None:
                total += statistics.sum(axis=0)
            else:
                total += weighted_sums(weights[first : first + block], statistics)
        return total


def map_columns(function: Callable[[np.ndarray], Any], means: Any) -> Any:
    """A function of every array among `Family.means`; None stays None."""
    if isinstance(means, dict):
        return {name: None if own is None else function(own) for name, own in means.items()}
    return None if means is None else function(means)


def each_member(family: Any) -> Any:
    """`family.leaves_at` mapped over members: (free numbers, rows) -> a tree of (rows, members, ...)."""
    import jax

    def leaves(tree: Tree, x: Tree) -> Tree:
        if len(next(tree_leaves(tree))) == 1:  # products of matrices are faster without an axis of length one
            found = family.leaves_at(map_tree(lambda a: a[0], tree), x)
            return jax.tree.map(lambda a: a[:, None], found)
        return jax.vmap(family.leaves_at, (0, None), 1)(tree, x)

    return leaves


def numbers(name: str, value: Any, axes: int) -> np.ndarray:
    """A read-only copy as finite floats with this many axes and at least one member."""
    found = float_array(name, value, copy=True)
    if found.ndim != axes or not found.size:
        raise ModelError(
            f"{name}: expected a filled array with {axes} axes, members first, got {found.shape}"
        )
    if not np.isfinite(found).all():
        raise ModelError(f"{name}: expected finite numbers, got NaN or infinity")
    return frozen(found)


def frozen(array: np.ndarray) -> np.ndarray:
    """The same array, read-only."""
    array.flags.writeable = False
    return array


def member_weights(weights: Any, rows: int, members: int) -> np.ndarray | None:
    """Weights (rows, members) as floats; None stays None, one column serves all members."""
    if weights is None:
        return None
    found = float_array("weights", weights, error=DataError)
    if found.ndim == 1:
        found = np.broadcast_to(found[:, None], (len(found), members))
    if found.shape != (rows, members):
        raise DataError(f"weights: expected shape ({rows}, {members}), got {np.shape(weights)}")
    # NaN is neither; no table as large as the weights is made.
    if not (found.min(initial=0.0) >= 0.0 and found.max(initial=0.0) < np.inf):
        raise DataError(
            "weights: expected finite numbers from 0 upwards, got a negative one, NaN or infinity"
        )
    return found
