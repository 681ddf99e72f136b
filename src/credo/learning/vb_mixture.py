r"""Variational Bayes for mixtures of any family with a conjugate prior.

    pi ~ Dirichlet(a),  theta_k ~ prior,  z_n ~ pi,  x_n ~ p(x | theta_{z_n})

    r_nk ~ exp( E[log pi_k] + E[log p(x_n | theta_k)] ),
    q(pi) = Dirichlet(a + sum_n r_nk),   q(theta_k) = prior + sum_n r_nk T(x_n)

With `weights="stick-breaking"` the weights are those of a Dirichlet process cut off at the last component,
pi_k = v_k prod_{j<k} (1 - v_j), v_k ~ Beta(1, a). A small `concentration` leaves components that the data do
not need without rows. They are removed, which raises F: the smaller mixture explains the same with
fewer parameters. With `prune="search"` components are also removed on trial, smallest first, and stay
away if F ends higher: VB by itself does not merge two components that share one cluster.

The labels of components are arbitrary, so a mixture has K! equal modes of which q describes one: for the
evidence of a K-component mixture, log K! may be added to F where the components lie far apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from ..core import check
from ..core.errors import DataError
from ..core.numbers import float_array
from ..core.records import register
from ..core.stopwatch import Stopwatch
from ..families.base import Conjugate, Family
from ..families.dirichlet import Dirichlet
from ..families.mixture import Mixture
from ..inference.problem.base import Budget
from ..optimise.run import noted, watched
from .base import Fit
from .em_data import Expected
from .em_steps import EMStart
from .vb import Prune, VariationalModel, pruner, report, run_vb
from .vb_priors import adapted, best_symmetric, check_prior, default_prior, expected_log_density, updated

__all__ = ["MixturePosterior", "Prune", "Weights", "vb_mixture"]

Weights = Literal["dirichlet", "stick-breaking"]


@register("MixturePosterior")
@dataclass(frozen=True)
class MixturePosterior:
    """The distribution over weights and components of a mixture, and the prior it came from."""

    weights: Dirichlet  # one row over components, or one row (v_k, 1 - v_k) per component
    components: Any  # conjugate posterior, one member per component
    weight_prior: Dirichlet  # in the same form
    component_prior: Any  # one member, or one per component
    stick: bool = False  # whether the weights break a stick

    def __len__(self) -> int:
        return len(self.components)

    @property
    def expected_log_weights(self) -> np.ndarray:
        """E[log pi], (components,)."""
        if not self.stick:
            return self.weights.expected_log[0]
        first, rest = self.weights.expected_log.T
        return first + np.concatenate([[0.0], np.cumsum(rest)[:-1]])

    @property
    def mean_weights(self) -> np.ndarray:
        """E[pi], (components,), scaled to sum to 1 where a stick is cut off."""
        mean = self.weights.mean().probabilities
        if not self.stick:
            return mean[0]
        found = mean[:, 0] * np.concatenate([[1.0], np.cumprod(mean[:, 1])[:-1]])
        return found / found.sum()

    def mean(self) -> Mixture:
        """The mixture with expected parameters."""
        return Mixture(self.mean_weights[None], self.components.mean())

    def sample(self, rng: np.random.Generator) -> Mixture:
        """A mixture with parameters drawn at random."""
        drawn = self.weights.sample(rng).probabilities
        if self.stick:
            drawn = (drawn[:, 0] * np.concatenate([[1.0], np.cumprod(drawn[:, 1])[:-1]]))[None]
            drawn = drawn / drawn.sum()
        return Mixture(drawn, self.components.sample(rng))

    def responsibilities(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q(z_n = k), (rows, components), and the log weight of every row."""
        logs = self.expected_log_weights + expected_log_density(self.components, x)
        sums = logsumexp(logs, axis=1)
        return np.exp(logs - sums[:, None]), sums

    def predictive(self, x: np.ndarray) -> np.ndarray:
        """Log density of new rows, parameters integrated out of each component, (rows,)."""
        return logsumexp(np.log(self.mean_weights) + self.components.predictive(x), axis=1)

    def divergence(self) -> float:
        """KL to the prior."""
        prior = self.component_prior.repeat(len(self))
        return float(self.weights.kl(self.weight_prior).sum() + self.components.kl(prior).sum())

    def updated(self, x: np.ndarray, shares: np.ndarray) -> MixturePosterior:
        """The conjugate update by rows divided among the components."""
        return replace(
            self,
            weights=Dirichlet(self.weight_prior.concentration + self._counts(shares.sum(axis=0))),
            components=updated(self.component_prior, self.components, x, shares),
        )

    def _counts(self, rows: np.ndarray) -> np.ndarray:
        if not self.stick:
            return rows[None]
        after = rows.sum() - np.cumsum(rows)
        return np.stack([rows, np.maximum(after, 0.0)], axis=1)

    def take(self, kept: np.ndarray) -> MixturePosterior:
        """Some of the components."""
        prior = self.component_prior
        return replace(
            self,
            weights=self.weights.take(kept) if self.stick else Dirichlet(self.weights.concentration[:, kept]),
            components=self.components.take(kept),
            weight_prior=_same(self.weight_prior, kept, self.stick),
            component_prior=prior if len(prior) == 1 else prior.take(kept),
        )

    def __repr__(self) -> str:
        return f"MixturePosterior({len(self)} components, {self.components!r})"


def _same(prior: Dirichlet, kept: np.ndarray, stick: bool) -> Dirichlet:
    return prior.take(kept) if stick else Dirichlet(prior.concentration[:, kept])


@dataclass(frozen=True)
class _Rows(VariationalModel):
    """A mixture with its data."""

    family: Family  # the kind of a component
    x: np.ndarray
    blank: MixturePosterior  # the prior
    adapts: tuple[str, ...] = ()
    shares: np.ndarray | None = None  # where the first run begins

    @property
    def rows(self) -> float:  # type: ignore[override]
        return float(len(self.x))

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        given = self.shares if number == 0 else None
        return EMStart(
            self.blank.updated(self.x, _seeded(self.family, self.x, rng) if given is None else given)
        )

    def expect(self, q: MixturePosterior) -> Expected:
        shares, sums = q.responsibilities(self.x)
        return Expected(float(sums.sum()), shares)

    def divergence(self, q: MixturePosterior) -> float:
        return q.divergence()

    def maximise(self, statistics: np.ndarray, q: MixturePosterior) -> MixturePosterior:
        return q.updated(self.x, statistics)

    def adapt(self, q: MixturePosterior) -> MixturePosterior:
        if "components" in self.adapts:
            q = replace(q, component_prior=adapted(q.component_prior, q.components))
        if "weights" in self.adapts and len(q) > 1:
            q = replace(q, weight_prior=_best_weights(q))
        return q

    def numbers(self, q: MixturePosterior) -> dict[str, float]:
        return {"components": float(len(q))}

    def sizes(self, q: MixturePosterior) -> np.ndarray:
        return self.expect(q).statistics.sum(axis=0)

    def fewer(self, q: MixturePosterior, kept: np.ndarray) -> MixturePosterior:
        """The mixture of some components, with all rows divided among them."""
        left = q.take(kept)
        return left.updated(self.x, left.responsibilities(self.x)[0])


def _best_weights(q: MixturePosterior) -> Dirichlet:
    """The concentration of highest F; for v_k ~ Beta(1, a) it is K / -sum E[log(1 - v_k)]."""
    if not q.stick:
        return Dirichlet(np.full((1, len(q)), best_symmetric(q.weights.expected_log)))
    a = len(q) / -q.weights.expected_log[:, 1].sum()
    return Dirichlet(np.tile([1.0, min(max(a, 1e-6), 1e6)], (len(q), 1)))


@noted
def vb_mixture(  # noqa: PLR0913, the options of one call
    family: Family,
    x: Any,
    *,
    prior: Conjugate | None = None,
    concentration: float | None = None,
    weights: Weights = "dirichlet",
    adapt: tuple[str, ...] = (),
    prune: Prune = "unused",
    shares: Any = None,
    restarts: int = 1,
    max_iter: int = 1000,
    tol: float = 1e-5,
    seconds: float | None = None,
    seed: int | None = None,
    strict: bool = False,
) -> Fit:
    """Fit a mixture by variational Bayes.

    Parameters
    ----------
    family
        Members of the kind wanted, one per component at most: `Gaussian`, `DiagonalGaussian`,
        `Categorical`, `Poisson`. Only their kind, number and dimension are used.
    x
        Rows; NaN (or state -1) is missing.
    prior
        The conjugate prior of a component; by default a weak one at the scale of the data.
    concentration
        Of the weights; by default 1 / components, or 1 for a stick.
    weights
        Prior of the weights.
    adapt
        Hyper-parameters to be learned as well: `"weights"`, `"components"`.
    prune
        Whether to remove unused components, to search for ones that are not needed, or none.
    shares
        Where to start: responsibilities (rows, components). By default from random distant rows.
    restarts, seed
        How many random starts, and their seed.
    max_iter, tol, seconds
        When a climb stops; `tol` is the largest change of an expected parameter that
        counts as none, in standard deviations where it is a mean.
    strict
        Raise `ConvergenceError` instead of warning when the best start did not converge.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import Gaussian
    >>> from credo.learning.vb_mixture import vb_mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(-4, 1, (60, 1)), rng.normal(4, 1, (40, 1))])
    >>> five = Gaussian(np.zeros((5, 1)), np.ones((5, 1, 1)))
    >>> found = vb_mixture(five, x, concentration=0.01, seed=0)
    >>> len(found.posterior), found.evidence.kind, bool(np.all(np.diff(found.objective) > -1e-9))
    (2, 'lower', True)
    """
    check.one_of("weights", weights, ["dirichlet", "stick-breaking"])
    for part in adapt:
        check.one_of("adapt", part, ["weights", "components"])
    watch = Stopwatch()
    rows = _checked(family, x)
    prior = default_prior(family, rows) if prior is None else check_prior(prior, family)
    count, stick = len(family), weights == "stick-breaking"
    if concentration is None:
        concentration = 1.0 if stick else 1.0 / count
    check.at_least("concentration", concentration, 1e-10)
    row = np.tile([1.0, concentration], (count, 1)) if stick else np.full((1, count), concentration)
    blank = MixturePosterior(Dirichlet(row), prior.repeat(count), Dirichlet(row), prior, stick)
    given = None if shares is None else _shares(shares, len(rows), count)

    problem = _Rows(family, rows, blank, tuple(adapt), given)
    best = run_vb(
        problem, Budget(max_iter, tol, seconds), check.generator(seed), name="vb-mixture", restarts=restarts,
        refine=pruner(problem.sizes, problem.fewer, prune),
    )  # fmt: skip
    left = len(best.parameters)
    notes = (f"{left} of {count} components are used",) if left < count else ()
    return report(problem, best, label="vb-mixture", watch=watch, strict=strict, notes=notes)


def _checked(family: Family, x: Any) -> np.ndarray:
    rows = family.rows(x)
    if not len(rows):
        raise DataError("data: expected at least one row, got none")
    empty = np.flatnonzero(family.missing(rows))
    if len(empty):
        raise DataError(f"data: row {empty[0]} observes nothing ({len(empty)} such rows); leave them out")
    return rows


def _shares(shares: Any, rows: int, count: int) -> np.ndarray:
    found = float_array("shares", shares, error=DataError)
    if found.shape != (rows, count) or not np.isfinite(found).all() or (found < 0).any():
        raise DataError(f"shares: expected shape ({rows}, {count}) of numbers from 0, got {found.shape}")
    sums = found.sum(axis=1)
    if not np.allclose(sums, 1.0, atol=1e-6):
        raise DataError(f"shares: every row must sum to 1, got sums from {sums.min():g} to {sums.max():g}")
    return found / sums[:, None]


def _seeded(family: Family, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every row wholly to the nearest of some random distant members, after a few steps of k-means."""
    members: Any = family.initialise(x, rng)
    shares = np.zeros((len(x), len(family)))
    for step in watched(range(5)):
        logs = members.log_density(x)
        shares = np.eye(len(family))[logs.argmax(axis=1)]
        if not hasattr(members, "covariances") or step == 4:
            return shares
        sums = members.collect(x, shares)
        means = np.where((sums.count > 0)[:, None], sums.mean, members.mean)
        scale = members.variances if hasattr(members, "variances") else members.covariances
        members = type(members)(means, scale)
    return shares
