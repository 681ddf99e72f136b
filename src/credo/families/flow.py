r"""Flows: rows that a bijection makes of rows of a base family.

    log p_k(x) = log base_k( f_k(x) ) + log |det df_k/dx|

The base is any family of numbers with as many members: standard Gaussians, which stay (a plain flow); a
mixture, which is learned (the latent mixture model, LatMM); another flow. Flows are families themselves, so a
mixture of them (GenMM) and hidden Markov models that emit them (GenHMM) are compositions like any other.

Leaves are the volume log |det df/dx|, with the density of those numbers that a split of the bijection gave
away, and the leaves of the base at f(x). Neither has a closed form: gradient steps move them; choices of the
base are counted. A row is observed or missing as a whole: a flow has no marginals.

Rows may be whole numbers, or others in steps. Their density would be unbounded, so `noise` is added: in
learning a new one in every step (`noisy_at`), uniform over the step (x + u, whose expected log density is
at most log p(x) - log step for the probability of x), or Gaussian with the step as standard deviation.
Densities are evaluated at the middle, x + step/2, or at x. The noise is the outermost map, and densities are
per unit of x, whatever is in the bijection: its constant is zero.

Arithmetic is in single precision unless said otherwise; parameters are kept in double precision.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError, ModelError
from ..core.records import register
from ..nn.bijections.base import RowBijection, read_bijection
from .base import Family
from .flow_parameters import checked_parameters, standard_base, started_parameters
from .moved import MovedMembers, moved
from .number_rows import NumberRows
from .trees import Tree, map_tree, settled, tree_leaves

if TYPE_CHECKING:
    from .blank_flow import BlankFlow

__all__ = ["Flow"]

Noise = Literal["none", "uniform", "gaussian"]
_LOG_2PI = float(np.log(2 * np.pi))
_ADAPTED = 4096  # rows at most to which parameters are adapted before learning
_LEAST = 1e-3  # share of every row that all members see at the start


@register(
    "Flow",
    fields=["bijection", "dimension", "parameters", "base", "learn_base", "precision", "noise", "step"],
)
class Flow(NumberRows):
    """Flow members over a base of as many members; immutable.

    Parameters
    ----------
    bijection
        What maps rows to latent numbers, or its text: "coupling(layers=4, width=24)", "glow(levels=2)", or
        several joined by " + ".
    dimension
        How many numbers a row has.
    parameters
        A tree of arrays, members on the first axis; see `Flow.started`.
    base
        Members over the latent numbers that the bijection keeps; standard Gaussians if None.
    learn_base
        Whether gradient steps move the base; by default only one that was given.
    precision
        Of the arithmetic.
    noise, step
        What is added to rows that come in steps, and how large the steps are.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import Flow
    >>> flow = Flow.started("actnorm + coupling(layers=2)", 2)
    >>> flow.log_density([[0.0, 0.0], [np.nan, np.nan]]).round(4)
    array([[-1.8379],
           [ 0.    ]])
    """

    def __init__(
        self,
        bijection: str | RowBijection,
        dimension: int,
        parameters: Tree,
        base: Family | None = None,
        *,
        learn_base: bool | None = None,
        precision: Literal["single", "double"] = "single",
        noise: Noise = "none",
        step: float = 1.0,
    ) -> None:
        check.whole("dimension", dimension, 1)
        check.one_of("precision", precision, ["single", "double"])
        check.one_of("noise", noise, ["none", "uniform", "gaussian"])
        check.finite("step", step)
        if step <= 0:
            raise ModelError(f"step: expected a positive number, got {step!r}")
        self._map, self._d = read_bijection(bijection), int(dimension)
        reason = self._map.why_not(self._d)
        if reason is not None:
            raise ModelError(f"bijection: {reason}")
        self._parameters = checked_parameters(self._map, self._d, parameters)
        self._kept = self._map.kept(self._d)
        members = len(next(tree_leaves(self._parameters), np.zeros(1 if base is None else len(base))))
        learns = base is not None if learn_base is None else bool(learn_base)
        base = standard_base(members, self._kept) if base is None else base
        self._set_base(base, members, learns)
        self._precision, self._noise, self._step = precision, noise, float(step)

    def _set_base(self, base: Family, members: int, learns: bool) -> None:
        if not isinstance(base, Family) or len(base) != members:
            raise ModelError(
                f"base: expected a family of {members} members, one per bijection, got {base!r:.80}"
            )
        base.rows(np.zeros((1, self._kept)))  # says what is wrong with the dimension
        self._base, self._learns = base, learns
        self._moved: MovedMembers = moved(base)

    @classmethod
    def started(
        cls, bijection: str | RowBijection, dimension: int, members: int = 1, base: Family | None = None,
        *, seed: int = 0, **options: Any,
    ) -> Flow:  # fmt: skip
        """Members with the parameters from which learning starts.

        Parameters
        ----------
        bijection, dimension, base, options
            As of the class.
        members
            How many; as many as those of the base, if there is one.
        seed
            Of random parameters.
        """
        rng, found = np.random.default_rng(seed), read_bijection(bijection)
        reason = found.why_not(dimension)
        if reason is not None:
            raise ModelError(f"bijection: {reason}")
        if base is None:
            base, options = standard_base(members, found.kept(dimension)), {"learn_base": False, **options}
        return cls(found, dimension, started_parameters(found, dimension, len(base), rng), base, **options)

    @staticmethod
    def blank(
        bijection: str | RowBijection = "flow", *, components: int = 1,
        covariance: Literal["diagonal", "full", "spherical", "tied"] = "diagonal",
        noise: Noise = "none", step: float = 1.0, precision: Literal["single", "double"] = "single",
    ) -> BlankFlow:  # fmt: skip
        """A flow for columns of numbers, its parameters to come from data by `credo.fit`.

        Parameters
        ----------
        bijection, noise, step, precision
            As of the class.
        components, covariance
            Of the Gaussian mixture of the latent numbers, which is learned too (LatMM); one component is the
            standard Gaussian, which stays.

        Examples
        --------
        >>> import credo
        >>> credo.Flow.blank("coupling(layers=2)", components=3)
        BlankFlow(flow(bijection=coupling(layers=2), components=3); no parameters yet: fit it first)
        """
        from .blank_flow import BlankFlow

        given = {
            "bijection": str(read_bijection(bijection)), "components": components, "covariance": covariance,
            "noise": noise, "step": step, "precision": precision,
        }  # fmt: skip
        return BlankFlow(given)

    @property
    def bijection(self) -> RowBijection:
        """What maps rows to latent numbers."""
        return self._map

    @property
    def dimension(self) -> int:
        """How many numbers a row has."""
        return self._d

    @property
    def parameters(self) -> Tree:
        """Of the bijections, members first."""
        return self._parameters

    @property
    def base(self) -> Any:
        """The family of the latent numbers."""
        return self._base

    @property
    def learn_base(self) -> bool:
        """Whether gradient steps move the base."""
        return self._learns

    @property
    def precision(self) -> Any:
        """Of the arithmetic: single or double."""
        return self._precision

    @property
    def noise(self) -> Any:
        """What is added to rows that come in steps."""
        return self._noise

    @property
    def step(self) -> float:
        """How large the steps are."""
        return self._step

    def __len__(self) -> int:
        return len(self._base)

    @property
    def n_parameters(self) -> int:
        """Of the bijections, and of a base that is learned."""
        own = sum(array.size for array in tree_leaves(self._parameters))
        return own + (self._base.n_parameters if self._learns else 0)

    def movement(self, new: Flow) -> float:
        """The largest change of a number of the bijections, or of the base."""
        pairs = zip(tree_leaves(self._parameters), tree_leaves(new._parameters), strict=True)
        own = max((np.abs(b - a).max(initial=0.0) for a, b in pairs), default=0.0)
        return max(float(own), self._base.movement(new._base))

    def rows(self, x: Any) -> np.ndarray:
        """Numbers (rows, d); a row is observed, or missing as a whole."""
        found = super().rows(x)
        blind = np.isnan(found)
        some = blind.any(axis=1) & ~blind.all(axis=1)
        if some.any():
            raise DataError(
                f"data: row {int(some.argmax())} misses some of its numbers, and a flow has no marginals; "
                "fill them in (credo.impute with Gaussian members), leave such rows out, or take gaussian "
                "for flow"
            )
        return found

    @property
    def starts_apart(self) -> bool:
        """`initialise` looks for clusters."""
        return True

    @property
    def is_noisy(self) -> bool:
        """Where rows come in steps."""
        return self._noise != "none"

    def refuse(self, x: np.ndarray) -> None:
        """Constant columns: the density of the others would grow without bound."""
        seen = x[~self.missing(x)]
        constant = (seen == seen[:1]).all(axis=0) if len(seen) and self._noise == "none" else np.zeros(0)
        if constant.any():
            column = int(constant.argmax())
            raise DataError(
                f"data: column {column} has the same number in all rows, so the density of a flow grows "
                "without bound; leave the column out, or say noise='uniform' if rows come in steps"
            )

    def leaves(self, x: Any) -> Tree:
        """The volume, and the leaves of the base."""
        found = self.rows(x)
        answer = self._run("leaves", self.to_free(), self.to_arrays(found), members=len(self))
        return map_tree(lambda a: np.asarray(a, np.float64), answer)

    def combine(self, leaves: Tree) -> np.ndarray:
        """Volume and base, (rows, members)."""
        out: np.ndarray = leaves["volume"] + self._base.combine(leaves["base"])
        return out

    def divide(self, leaves: Tree, weights: np.ndarray) -> tuple[Tree, Tree]:
        """Choices of the base; all of the weight goes to the volume."""
        counts, q = self._base.divide(leaves["base"], weights)
        return counts, {"volume": weights, "base": q}

    def collect(self, x: Any, q: Tree = None) -> None:
        """Nothing: there are no sums from which the members follow."""

    def update(self, counts: Tree, sums: None, prior: Any = None, *, floor: float = 0.0) -> Flow:
        """Choices of the base counted; gradient steps move the rest."""
        return self._with(self._parameters, self._moved.update(counts, prior)) if self._learns else self

    def log_prior(self, prior: Any) -> float:
        """Of the base."""
        return self._base.log_prior(prior)

    def take(self, members: Any) -> Flow:
        """Some of the members."""
        chosen = np.arange(len(self))[members]
        return self._with(map_tree(lambda a: a[chosen], self._parameters), self._base.take(chosen))

    def to_free(self) -> Tree:
        """Parameters of bijections and base in the precision of the arithmetic."""
        return self._free

    @cached_property
    def _free(self) -> Tree:
        tree = {"map": self._parameters, "base": self._moved.to_free()}
        return map_tree(lambda a: np.asarray(a, self._kind), tree)

    def from_free(self, tree: Tree) -> Flow:
        """Members with these numbers; those that did not move stay to the last bit."""
        own = map_tree(
            lambda found, now: settled(found, now, now, lambda a: a), tree["map"], self._parameters
        )
        return self._with(own, self._moved.from_free(tree["base"]) if self._learns else self._base)

    @property
    def is_free(self) -> Tree:
        """All, or all but the base."""
        return {
            "map": map_tree(lambda _: True, self._parameters),
            "base": self._moved.is_free if self._learns else map_tree(lambda _: False, self._moved.to_free()),
        }

    def choices(self) -> Tree:
        """Of the base."""
        return self._base.choices()

    def choice_value(self, counts: Tree) -> float:
        """Of the base."""
        return float(self._base.choice_value(counts))

    def log_scales(self, tree: Tree) -> Any:
        """Of the base, where it is a mixture that is learned."""
        return self._moved.log_scales(tree["base"]) if self._learns else None

    def pool(self, slopes: Tree) -> Tree:
        """As the base says."""
        return {"map": slopes["map"], "base": self._moved.pool(slopes["base"])}

    @property
    def structure(self) -> tuple[Any, ...]:
        """Bijection, base, precision and noise."""
        noise = self._noise, self._step
        return Flow, self._map, self._d, self._moved.structure, self._learns, self._precision, *noise

    def to_arrays(self, x: np.ndarray) -> np.ndarray:
        """The middle of the steps, in the precision of the arithmetic."""
        return np.asarray(x + 0.5 * self._step if self._noise == "uniform" else x, self._kind)

    def noisy_at(self, x: Any, key: Any) -> Any:
        """Rows with fresh noise, a JAX function."""
        import jax

        if self._noise == "none":
            return x
        if self._noise == "gaussian":
            return x + self._step * jax.random.normal(key, x.shape, x.dtype)
        return x + self._step * (jax.random.uniform(key, x.shape, x.dtype) - 0.5)

    def leaves_at(self, tree: Tree, x: Any) -> Tree:
        """Leaves of one member, (rows, ...)."""
        import jax.numpy as jnp

        seen = ~jnp.isnan(x).all(axis=1)
        # NaN goes before the arithmetic: it would reach the gradients even where it is not chosen.
        z, volume = self._map.forward(tree["map"], jnp.where(seen[:, None], x, 0.0))
        rest = z[:, self._kept :]
        volume = volume - 0.5 * ((rest**2).sum(axis=1) + rest.shape[1] * _LOG_2PI)
        base = self._moved.leaves_at(tree["base"], z[:, : self._kept])

        def shown(a: Any) -> Any:
            return jnp.where(seen.reshape(-1, *[1] * (a.ndim - 1)), a, 0.0)

        return {"volume": shown(volume), "base": map_tree(shown, base)}

    def encode(self, x: Any, members: Any = 0) -> np.ndarray:
        """Latent numbers (rows, d) of rows under the given members; those of a split come last."""
        return self._each_row("forward", self.to_arrays(self.rows(x)), members)

    def decode(self, z: Any, members: Any = 0) -> np.ndarray:
        """The rows (rows, d) that members make of latent numbers; those of integer steps are not rounded."""
        found = self._each_row("backward", np.asarray(super().rows(z), self._kind), members)
        return found - 0.5 * self._step if self._noise == "uniform" else found

    def sample(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row from each of the given members; steps of uniform noise are whole."""
        members = np.asarray(members)
        base = self._base.sample(members, rng).reshape(len(members), -1)
        rest = rng.standard_normal((len(members), self._d - self._kept))
        found = self.decode(np.concatenate([base, rest], axis=1), members)
        return np.floor(found / self._step + 0.5) * self._step if self._noise == "uniform" else found

    def _each_row(self, what: str, x: np.ndarray, members: Any) -> np.ndarray:
        """A direction of the bijection of each row's member."""
        chosen = np.broadcast_to(np.asarray(members), (len(x),))
        out = np.empty((len(x), self._d))
        tree = map_tree(lambda a: np.asarray(a, self._kind), self._parameters)
        for k in np.unique(chosen):
            own = chosen == k
            out[own] = self._run(what, map_tree(lambda a, k=k: a[k], tree), x[own])
        return out

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> Flow:
        """Members adapted to clusters of the rows, and a base for what they make of these."""
        from .starts import soft_clusters

        self.refuse(x)
        seen = x[~self.missing(x)]
        if not len(seen):
            return self
        rows = seen[rng.permutation(len(seen))[:_ADAPTED]]
        return self.adapted(rows, soft_clusters(rows, len(self), rng), rng)

    def adapted(self, x: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> Flow:
        """Fresh members, each adapted to rows (without missing ones) with its own weights (rows, members)."""
        fresh = started_parameters(self._map, self._d, len(self), rng)
        fresh = map_tree(lambda a: np.asarray(a, self._kind), fresh)
        shares: np.ndarray = np.asarray(weights + _LEAST / len(self), self._kind)
        noisy = self._spread(self.to_arrays(x), rng)
        parameters = self._run_once("adapt", fresh, noisy, shares)
        found = self._with(map_tree(lambda a: np.asarray(a, np.float64), parameters), self._base)
        if not self._learns:
            return found
        z = found.encode(x, weights.argmax(axis=1))[:, : self._kept]
        return found._with(found._parameters, self._base.initialise(self._base.rows(z), rng))

    def _spread(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows with noise, in NumPy."""
        if self._noise == "none":
            return x
        noise = rng.standard_normal(x.shape) if self._noise == "gaussian" else rng.random(x.shape) - 0.5
        return (x + self._step * noise).astype(x.dtype)

    def with_precision(self, precision: Literal["single", "double"]) -> Flow:
        """The same members with arithmetic of this precision."""
        found = self._with(self._parameters, self._base)
        check.one_of("precision", precision, ["single", "double"])
        found._precision = precision
        found.__dict__.pop("_free", None)
        return found

    @property
    def _kind(self) -> type:
        return np.float64 if self._precision == "double" else np.float32

    def _with(self, parameters: Tree, base: Family) -> Flow:
        """The same kind of flow with parts that fit."""
        made = Flow.__new__(Flow)
        made.__dict__.update(self.__dict__)
        made.__dict__.pop("_free", None)
        made._parameters, made._base, made._moved = parameters, base, moved(base)
        return made

    def _run(self, what: str, tree: Tree, x: np.ndarray, members: int = 1) -> Any:
        from .flow_programs import run_rows

        return run_rows(self, what, tree, x, members, self._precision == "double")

    def _run_once(self, what: str, *arguments: Any) -> Any:
        from .flow_programs import run_once

        return run_once(self, what, arguments, self._precision == "double")

    def __repr__(self) -> str:
        noise = "" if self._noise == "none" else f", {self._noise} noise"
        over = "" if not self._learns else f" over {self._base!r}"
        return f"Flow({len(self)} members, dimension {self._d}, {self._map}{noise}{over})"
