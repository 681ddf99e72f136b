r"""Student-t distributions with learned degrees of freedom: rows with outliers. A leaf without closed form.

    log p(x) = lgamma((v + d) / 2) - lgamma(v / 2) - d/2 log(v pi) - sum_i log s_i
               - (v + d) / 2 log(1 + sum_i ((x_i - m_i) / s_i)^2 / v)

with location m and scales s of d coordinates and v degrees of freedom, which all coordinates of a row share.
A marginal is of the same form, so a missing coordinate is left out of d and of both sums. Free numbers are m,
log s and log v; gradient steps move them (`learning/leaf_steps.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from .base import numbers
from .gaussian_rows import starting_means
from .number_rows import NumberRows
from .trees import Tree, settled

__all__ = ["StudentT"]

_FREEDOM = 10.0  # where learning starts: tails that can become heavier or lighter


@register("StudentT", fields=["location", "scale", "freedom", "learn_freedom"])
class StudentT(NumberRows):
    """Student-t members with a scale per coordinate; immutable.

    Parameters
    ----------
    location, scale
        Shape (members, d); scales are positive.
    freedom
        Degrees of freedom, positive, shape (members,).
    learn_freedom
        Whether learning moves the degrees of freedom too.

    Examples
    --------
    >>> from credo.families import StudentT
    >>> StudentT([[0.0]], [[1.0]], [1.0]).log_density([[0.0], [1.0], [float("nan")]]).round(4)
    array([[-1.1447],
           [-1.8379],
           [ 0.    ]])
    """

    def __init__(self, location: Any, scale: Any, freedom: Any, *, learn_freedom: bool = True) -> None:
        self._location, self._scale = numbers("location", location, 2), numbers("scale", scale, 2)
        self._freedom, self._learn = numbers("freedom", freedom, 1), bool(learn_freedom)
        if self._scale.shape != self._location.shape:
            raise ModelError(f"scale: expected shape {self._location.shape}, got {self._scale.shape}")
        if self._freedom.shape != self._location.shape[:1]:
            raise ModelError(f"freedom: expected shape ({len(self._location)},), got {self._freedom.shape}")
        for name, found in (("scale", self._scale), ("freedom", self._freedom)):
            if (found <= 0).any():
                raise ModelError(f"{name}: expected positive numbers, got {found.min():.3g}")

    @property
    def location(self) -> np.ndarray:
        """(members, d), read-only."""
        return self._location

    @property
    def scale(self) -> np.ndarray:
        """(members, d), read-only."""
        return self._scale

    @property
    def learn_freedom(self) -> bool:
        """Whether learning moves the degrees of freedom too."""
        return self._learn

    @property
    def freedom(self) -> np.ndarray:
        """(members,), read-only."""
        return self._freedom

    @property
    def means(self) -> np.ndarray | None:
        """The locations; None where a member has no mean, because its freedom is 1 or less."""
        return self._location if (self._freedom > 1).all() else None

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""
        return self._location.shape[1]

    def __len__(self) -> int:
        return len(self._location)

    @property
    def n_parameters(self) -> int:
        """Locations, scales and, if they are learned, degrees of freedom."""
        return 2 * self._location.size + (len(self) if self._learn else 0)

    def movement(self, new: StudentT) -> float:
        """The largest change of a location, in scales, or relative one of a scale or of the freedom."""
        moves = (
            np.abs(new._location - self._location) / self._scale,
            np.abs(new._scale / self._scale - 1.0),
            np.abs(new._freedom / self._freedom - 1.0),
        )
        return float(max(each.max(initial=0.0) for each in moves))

    def leaves(self, x: Any) -> np.ndarray:
        """Log density of the observed coordinates, (rows, members)."""
        from scipy.special import gammaln

        found = self.rows(x)
        seen = ~np.isnan(found)
        filled, many = np.where(seen, found, 0.0), seen.sum(axis=1)
        out = np.empty((len(found), len(self)))
        for k, (m, s, v) in enumerate(zip(self._location, self._scale, self._freedom, strict=True)):
            square = np.where(seen, ((filled - m) / s) ** 2, 0.0).sum(axis=1)
            sizes = np.arange(self.dimension + 1)
            constant = gammaln(0.5 * (v + sizes)) - gammaln(0.5 * v) - 0.5 * sizes * np.log(v * np.pi)
            out[:, k] = constant[many] - seen @ np.log(s) - 0.5 * (v + many) * np.log1p(square / v)
        return out

    def sample(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row from each of the given members."""
        v = self._freedom[members]
        root = np.sqrt(v / (2.0 * rng.standard_gamma(0.5 * v)))
        noise = rng.standard_normal((len(v), self.dimension)) * root[:, None]
        return self._location[members] + self._scale[members] * noise

    def collect(self, x: Any, q: Tree = None) -> None:
        """Nothing: there are no sums from which the members follow."""

    def update(self, counts: None, sums: None, prior: Any = None, *, floor: float = 0.0) -> StudentT:
        """The same members; gradient steps move them."""
        if prior is not None:
            raise ModelError(f"prior of Student-t members: expected None, got {type(prior).__name__}")
        return self

    def take(self, members: Any) -> StudentT:
        """Some of the members."""
        return self._with(self._location[members], self._scale[members], self._freedom[members])

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> StudentT:
        """Distant rows of the data as locations, the spread of all rows, ten degrees of freedom."""
        means, spread = starting_means(x, len(self), rng)
        freedom = np.full(len(self), _FREEDOM) if self._learn else self._freedom
        return self._with(means, np.broadcast_to(np.sqrt(spread), means.shape), freedom)

    def _with(self, location: Any, scale: Any, freedom: Any) -> StudentT:
        return StudentT(location, scale, freedom, learn_freedom=self._learn)

    def to_free(self) -> Tree:
        """Location, log scale and log freedom."""
        return {
            "location": self._location,
            "log_scale": np.log(self._scale),
            "log_freedom": np.log(self._freedom),
        }

    def from_free(self, tree: Tree) -> StudentT:
        """Members with these numbers; those that did not move keep their parameters to the last bit."""
        before = self.to_free()

        def kept(name: str, now: np.ndarray) -> np.ndarray:
            made = np.asarray if name == "location" else np.exp
            return settled(tree[name], before[name], now, made)

        return self._with(
            kept("location", self._location),
            kept("log_scale", self._scale),
            kept("log_freedom", self._freedom),
        )

    @property
    def is_free(self) -> Tree:
        """All, or all but the freedom."""
        return {"location": True, "log_scale": True, "log_freedom": self._learn}

    @property
    def structure(self) -> tuple[Any, ...]:
        """Whether the freedom moves."""
        return StudentT, self._learn

    def to_arrays(self, x: np.ndarray) -> np.ndarray:
        """The rows."""
        return x

    def leaves_at(self, tree: Tree, x: Any) -> Any:
        """The density of the module for one member, (rows,)."""
        import jax.numpy as jnp
        from jax.scipy.special import gammaln as log_gamma

        seen = ~jnp.isnan(x)
        v, log_scale, many = jnp.exp(tree["log_freedom"]), tree["log_scale"], seen.sum(axis=-1)
        # NaN goes before the arithmetic: it would reach the gradients even where it is not chosen.
        z = (jnp.where(seen, x, tree["location"]) - tree["location"]) * jnp.exp(-log_scale)
        constant = log_gamma(0.5 * (v + many)) - log_gamma(0.5 * v) - 0.5 * many * jnp.log(v * jnp.pi)
        tails = 0.5 * (v + many) * jnp.log1p((z**2).sum(axis=-1) / v)
        return constant - jnp.where(seen, log_scale, 0.0).sum(axis=-1) - tails

    def __repr__(self) -> str:
        return f"StudentT({len(self)} members, dimension {self.dimension})"
