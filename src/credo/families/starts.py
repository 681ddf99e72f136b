r"""Members to start learning from: apart from each other, each at home among some of the rows.

`Family.initialise` seeds members at distant rows. A few rounds in which every row goes to the member where it
is likeliest (k-means, for Gaussians that begin alike) and a few of EM for a mixture of them, on some of the
rows, tell good seeds from bad ones and let variances shrink to the size of the clusters. Sequences are not
looked at: the members are those of a mixture.
"""

from __future__ import annotations

import numpy as np

from .base import Family
from .gaussian_diagonal import DiagonalGaussian
from .mixture import Mixture

__all__ = ["distant_members", "numbered", "soft_clusters"]

_ROWS = 2000  # that are looked at
_SEEDS = 5  # that are compared
_HARD, _SOFT = 3, 12  # rounds for each
_NARROW = 1e-3  # least variance, relative to the least of a column


def distant_members(family: Family, x: np.ndarray, rng: np.random.Generator) -> Family:
    """Members of this family for rows of data.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import DiagonalGaussian
    >>> from credo.families.starts import distant_members
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(m, 0.1, (50, 1)) for m in (0, 5, 6)])
    >>> found = distant_members(DiagonalGaussian(np.zeros((3, 1)), np.ones((3, 1))), x, rng)
    >>> np.sort(found.mean.ravel()).round(1)
    array([0., 5., 6.])
    """
    seen = np.flatnonzero(~family.missing(x))
    if not len(seen) or family.starts_apart:
        return family.initialise(x, rng)  # says what is wrong, needs no rows, or does what is done here
    some = x[rng.permutation(seen)[:_ROWS]]
    seeds = _SEEDS if len(family) > 1 else 1
    found = [_climbed(family.initialise(some, rng), some) for _ in range(seeds)]
    return max(found, key=lambda pair: pair[0])[1]


def numbered(members: Family, x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which member is best for the rows of each known state, each member once."""
    from scipy.optimize import linear_sum_assignment

    rows = known >= 0
    scores = members.log_density(x[rows])
    fits = np.zeros((len(members), len(members)))
    np.add.at(fits, known[rows], scores)
    order: np.ndarray = linear_sum_assignment(np.maximum(fits, -1e300), maximize=True)[1]
    return order


def soft_clusters(x: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Which cluster rows of numbers belong to, (rows, clusters), as diagonal Gaussians tell them."""
    width = x.shape[1]
    found = distant_members(DiagonalGaussian(np.zeros((count, width)), np.ones((count, width))), x, rng)
    return Mixture(np.full((1, count), 1.0 / count), found).responsibilities(x)[:, 0]


def _climbed(members: Family, x: np.ndarray) -> tuple[float, Family]:
    """The likelihood as a mixture after some rounds, and the members."""
    floor, count = _floor(x), len(members)
    for _ in range(_HARD):
        nearest = members.log_density(x).argmax(axis=1)
        members = members.expect(x, np.eye(count)[nearest]).update(members, floor=floor)
    mixture = Mixture(np.full((1, count), 1.0 / count), members)
    for _ in range(_SOFT):
        mixture = mixture.expect(x).update(mixture, floor=floor)
    return float(mixture.log_density(x).sum()), mixture.components


def _floor(x: np.ndarray) -> float:
    """A variance that is small for every column of numbers."""
    fields = [x[name] for name in x.dtype.names or ()] or [x]
    tables = [f.reshape(len(f), -1) for f in fields if f.dtype.kind == "f"]
    spread = [np.nanvar(c) for t in tables for c in t.T if not np.isnan(c).all()]
    return _NARROW * min([float(v) for v in spread if v > 0], default=1.0)
