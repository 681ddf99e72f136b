r"""Hidden units one by one: a distribution over all units there could be, and Frank-Wolfe steps in it.

    log p(v) = alpha E_q softplus( w'z ) + b'v - log Z(q, alpha, b),      z = (v, x, 1)

with q over weight vectors w, which have an entry for every visible unit, for every feature x of a conditional
machine and for the bias. The likelihood is concave in q, and its slope in the direction of one unit is

    d(w) = mean over rows of softplus(w'z) - mean over chains of softplus(w'z) - (lambda / 2) |w|^2

(times alpha, which changes no comparison; with `scaled` the penalty is lambda / alpha, which is the exact
one of the mean of |w|^2 under q). A vertex is the unit that L-BFGS finds to have the largest d, with the
chains held; with a ball, w = radius u / sqrt(1 + |u|^2) has no other values. Steps have the length 1 / t, so
that t units count alike, and with alpha = t they count once: an ordinary machine grows by a unit. Steps away
take the unit with the least d out where that promises more.

    gain(w) = mean over rows of D(z) - log mean over chains of e^D(z),      D = softplus(w'z) - k w'v

is what a step adds to the mean log-likelihood, as the chains see it, with D the change of the score: the
unit, and biases that take back what it adds on average, k = mean over rows of sigma(w'z). Where the gain is
below `-fall`, w is halved as long as that adds more; also where fewer than `seen` of the chains would carry
the mean of e^D, because the others cannot know. Where alpha is kept, D is alpha s times the same with
softplus(w'z) - E_q softplus, and the share s is the one that adds most. After a step the chains, which are
carried on, and the biases move by turns, b <- b + rate (mean of rows - mean of chains).

Source: Ping, Liu and Ihler, Learning infinite RBMs with Frank-Wolfe (2016).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..inference.sampling.fractional_chains import FractionalChains
from ..kernels.boltzmann import log_sum_exp, sigmoid, softplus
from ..models.unit_rows import UnitRows
from ..optimise.frank_wolfe import Active
from ..optimise.line_search import golden_section
from ..optimise.optimisers import LBFGS, Loss
from ..optimise.run import Budget
from ..optimise.run import check as look

__all__ = ["Grown", "Growth"]

_HALVINGS = 1100  # of a unit that would make things worse
_SLOPE = 1e-5  # of a unit that is found
_SMALL = 2**18  # numbers of rows up to which double precision costs next to nothing
_ROUNDING = 1e-9  # of counts that are whole numbers, and shares that are none
_LEAST = 1e-3  # alpha is kept above


@record("grown machine")
class Grown(NamedTuple):
    """Units, how much they count together, biases, and chains."""

    atoms: np.ndarray  # (inputs, units): of visible units, features and the bias
    shares: np.ndarray  # q, (units,)
    alpha: float
    bias: np.ndarray  # (visible, 1 + features): b and A
    chains: np.ndarray  # (chains, visible) states
    gain: float = 0.0  # of the last unit
    promise: float = 0.0  # d of the last unit
    halvings: int = 0  # of the last unit
    accepted: float = 1.0  # share of proposals

    @property
    def counts(self) -> np.ndarray:
        """How often every unit counts."""
        found = self.alpha * self.shares
        whole = np.rint(found)
        return np.where(np.abs(found - whole) < _ROUNDING, whole, found)


@dataclass(eq=False)
class Growth:
    """What Frank-Wolfe minimises: minus the likelihood, as chains see it; a `VertexProblem`."""

    data: UnitRows  # rows of visible units, with features
    first: Grown  # where to start
    rng: np.random.Generator  # of the run
    penalty: float = 0.01  # lambda
    scaled: bool = False  # whether it is divided by alpha
    radius: float | None = None  # of the ball that units lie in
    starts: int = 3  # of L-BFGS per unit
    inner: int = 50  # steps of L-BFGS
    rows: int | None = None  # that a unit is found on, drawn anew for each; None: all
    fall: float = 0.0  # nats that a unit may cost
    seen: float = 0.05  # of the chains, how many its gain must rest on
    turns: int = 20  # of chains and biases after a step
    rate: float = 0.1  # of biases
    grows: bool = True  # whether alpha is the number of units
    learns: bool = False  # whether alpha is learned
    blocks: int = 1  # there is one distribution

    @property
    def _kind(self) -> Any:
        return np.float64 if self.data.v.size <= _SMALL else np.float32

    # Rows and chains as inputs of units.

    def inputs(self, v: np.ndarray, x: np.ndarray | None) -> np.ndarray:
        """Rows of z = (v, x, 1)."""
        parts = [v, np.ones((len(v), 1), v.dtype)] if x is None else [v, x, np.ones((len(v), 1), v.dtype)]
        return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=self._kind)

    def _seen(self, place: Grown) -> tuple[np.ndarray, np.ndarray]:
        """Inputs from rows, and from chains; of a conditional machine those of the same rows."""
        data, count = self.data, len(self.data)
        some = None
        if self.rows is not None and self.rows < count:
            some = np.sort(self.rng.choice(count, self.rows, replace=False))
            data = data.take(some)
        chains = place.chains if self.data.x is None or some is None else place.chains[some]
        return self.inputs(data.v, data.x), self.inputs(chains, data.x)

    def score(self, place: Grown, data: UnitRows) -> float:
        """The mean of -F(v) over rows."""
        inside = self.inputs(data.v, data.x) @ place.atoms.astype(self._kind)
        return float(
            (softplus(inside) @ place.counts + (data.v * self._fields(place, data.x)).sum(axis=1)).mean()
        )

    @staticmethod
    def _fields(place: Grown, x: np.ndarray | None) -> np.ndarray:
        return place.bias[:, 0] if x is None else place.bias[:, 0] + x @ place.bias[:, 1:].T

    # What Frank-Wolfe asks.

    def begin(self) -> tuple[Grown, list[Active]]:
        """The units of the model given, if it has any."""
        place = self.first
        return place, [Active(tuple(place.atoms.T), tuple(place.shares.tolist()))]

    def value(self, x: Grown) -> float:
        """Minus how much likelier rows are than chains: log Z cancels. It is shown, and no objective."""
        return self.score(x, UnitRows(x.chains, self.data.x)) - self.score(x, self.data)

    def slopes(self, place: Grown, units: np.ndarray, seen: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """The slope d of some units, (units,)."""
        up, down = (softplus(z @ units.astype(z.dtype)).mean(axis=0, dtype=np.float64) for z in seen)
        return np.asarray(up - down - 0.5 * self._strength(place) * (units**2).sum(axis=0))

    def _strength(self, place: Grown) -> float:
        return self.penalty / place.alpha if self.scaled else self.penalty

    def best(self, x: Grown, block: int) -> tuple[np.ndarray, float]:
        """The unit with the largest d that was found, and by how much it is above the mean of all units."""
        self._now = self._seen(x)
        found = [self._climb(x) for _ in range(self.starts)]
        unit, promise = max(found, key=lambda pair: pair[1])
        self._mine = self.slopes(x, x.atoms, self._now)
        unit, gain, halvings = self._shrunk(x, unit)
        self._about: dict[str, Any] = {"promise": promise, "gain": gain, "halvings": halvings}
        return unit, promise - float(x.shares @ self._mine)

    def _shrunk(self, place: Grown, unit: np.ndarray) -> tuple[np.ndarray, float, int]:
        """A unit, or of its halves the one that adds most; its gain, and how often it was halved."""
        (gain, seen), halvings = self._judged(place, unit), 0
        if not self.grows or (gain >= -self.fall and seen >= self.seen):
            return unit, gain, 0
        while halvings < _HALVINGS:
            half, better = self._judged(place, unit / 2)
            if half <= gain and gain >= -self.fall and seen >= self.seen:
                break
            unit, gain, seen, halvings = unit / 2, half, better, halvings + 1
        return unit, gain, halvings

    def _climb(self, place: Grown) -> tuple[np.ndarray, float]:
        """L-BFGS from a random unit."""
        size = max(float(np.sqrt((self._now[0] ** 2).sum(axis=1).mean())), 1.0)
        start = np.asarray(self.rng.standard_normal(self._now[0].shape[1]) / size)
        loss = Loss(lambda w: self._minus(w, place))
        w, _ = LBFGS().minimise(loss, start, Budget(self.inner, _SLOPE))
        unit = w if self.radius is None else self._in_ball(w)[0]
        return unit, float(self.slopes(place, unit[:, None], self._now)[0])

    def _in_ball(self, u: np.ndarray) -> tuple[np.ndarray, float]:
        assert self.radius is not None
        size = float(np.sqrt(1 + u @ u))
        return self.radius * u / size, size

    def _minus(self, u: np.ndarray, place: Grown) -> tuple[float, np.ndarray]:
        """-d and its slope, in terms of u where there is a ball."""
        w, size = (u, 1.0) if self.radius is None else self._in_ball(u)
        strength = self._strength(place)
        value, slope = 0.5 * strength * float(w @ w), strength * w
        for z, sign in zip(self._now, (-1.0, 1.0), strict=True):
            inside = z @ w.astype(z.dtype)
            value += sign * float(softplus(inside).mean(dtype=np.float64))
            slope = slope + sign * (sigmoid(inside) @ z).astype(np.float64) / len(z)
        if self.radius is not None:
            slope = self.radius * (slope - u * (u @ slope) / size**2) / size
        return value, slope

    def excess(self, x: Grown, block: int, vertex: np.ndarray) -> float:
        """How far d of a unit is below the mean of all."""
        at = int(np.argmin(np.abs(x.atoms - vertex[:, None]).sum(axis=0)))
        return float(x.shares @ self._mine - self._mine[at])

    def length(
        self, x: Grown, block: int, vertex: np.ndarray, gap: float, most: float, *, away: bool
    ) -> float:
        """Where alpha is kept: the length that adds most to the likelihood."""
        sign = -1.0 if away else 1.0
        if not len(x.shares):
            return most
        return float(golden_section(lambda g: -self.gain(x, vertex, sign * g), 0.0, most))

    def moved(self, x: Grown, block: int, vertex: np.ndarray, length: float) -> Grown:
        """With one unit more, if it has any share."""
        if not self.grows and len(x.shares):
            if length < _ROUNDING:
                return self.settled(x._replace(**(self._about | {"gain": 0.0})))
            self._about["gain"] = self.gain(x, vertex, length)
        shares = np.append((1 - length) * x.shares, length)
        bias = x.bias.copy()
        bias[:, 0] += (1.0 if self.grows else x.alpha * length) * self._back(vertex)
        atoms = np.column_stack([x.atoms, vertex])
        return self.settled(x._replace(atoms=atoms, shares=shares / shares.sum(), bias=bias, **self._about))

    def mixed(self, x: Grown, block: int, active: Active) -> Grown:
        """Without the units that are not active."""
        kept = np.stack(active.vertices, axis=1) if active.vertices else x.atoms[:, :0]
        new = x._replace(atoms=kept, shares=np.array(active.weights), **(self._about | {"gain": 0.0}))
        return self.settled(new)

    def key(self, vertex: np.ndarray) -> Hashable:
        """The bytes of the unit."""
        return vertex.tobytes()

    def gain(self, place: Grown, unit: np.ndarray, share: float | None = None) -> float:
        """What a step to one more unit adds to the mean log-likelihood of the rows."""
        return self._judged(place, unit, share)[0]

    def _judged(self, place: Grown, unit: np.ndarray, share: float | None = None) -> tuple[float, float]:
        """The gain of a unit, and the effective share of the chains in it, (E e^D)^2 / E e^2D.

        Of a conditional machine, which has a chain per row, it is a lower bound: the mean of the logarithms
        of E exp(D - m) is at most the logarithm of the mean, for any m(x) that is taken from D on both sides;
        here m is D at the mean of v.
        """
        times = 1.0 if self.grows else place.alpha * (self._share(place) if share is None else share)
        changes = [times * self._change(place, z, unit) for z in self._now]
        if self.data.x is not None:
            count = self.data.v.shape[1]
            middle = self._now[0].copy()
            middle[:, :count] = sum(z[:, :count].mean(axis=0) for z in self._now) / 2
            m = times * self._change(place, middle, unit)
            changes = [change - m for change in changes]
        up, down = changes
        lost = log_sum_exp(down) - np.log(len(down))
        seen = np.exp(2 * lost - log_sum_exp(2 * down) + np.log(len(down)))
        return float(up.mean() - lost), float(seen)

    def _change(self, place: Grown, z: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Of the scores of inputs, for a unit that counts once."""
        inside, count = (z @ unit.astype(z.dtype)).astype(np.float64), len(self.data.v[0])
        own: np.ndarray = softplus(inside) + z[:, :count] @ self._back(unit)
        if not self.grows and len(place.shares):
            own = own - softplus(z @ place.atoms.astype(z.dtype)) @ place.shares
        return own

    @staticmethod
    def _share(place: Grown) -> float:
        """Of one more unit where all are alike."""
        return 1.0 / (len(place.shares) + 1)

    def _back(self, unit: np.ndarray) -> np.ndarray:
        """Biases that take back what a unit that counts once adds on average."""
        z = self._now[0]
        mean = float(sigmoid(z @ unit.astype(z.dtype)).mean())
        return -mean * unit[: len(self.data.v[0])]

    # Chains and biases.

    def settled(self, place: Grown, *, is_held: bool = False) -> Grown:
        """Chains and biases by turns, alpha too where it is learned; or chains alone."""
        if self.grows:
            place = place._replace(alpha=float(max(len(place.shares), 1)))
        data, accepted, kind = self.data, 0.0, np.float32
        goal, x = self._slope_of_bias(data.v, data.x), data.x
        v, bias, alpha = place.chains.astype(kind), place.bias.copy(), place.alpha
        count = self.data.v.shape[1]
        weights, rate = place.atoms[:count].astype(kind), 0.0 if is_held else self.rate
        right = (place.atoms[-1] if x is None else x @ place.atoms[count:-1] + place.atoms[-1]).astype(kind)
        for _ in range(self.turns):
            look()
            left = self._fields(place._replace(bias=bias), x).astype(kind)
            counts = place._replace(alpha=alpha).counts
            v, taken = FractionalChains(weights, counts, left, right).sweep(v, self.rng)
            accepted += float(taken.mean())
            bias += rate * (goal - self._slope_of_bias(v, x))
            if self.learns and len(place.shares):
                alpha = max(_LEAST, alpha + rate * self._slope_of_alpha(place, UnitRows(v, x)))
        return place._replace(
            chains=v.astype(np.float32), bias=bias, alpha=alpha, accepted=accepted / self.turns
        )

    @staticmethod
    def _slope_of_bias(v: np.ndarray, x: np.ndarray | None) -> np.ndarray:
        """Means of v, and of v x'."""
        means = v.mean(axis=0, dtype=np.float64)[:, None]
        return means if x is None else np.hstack([means, (v.T @ x) / len(v)])

    def _slope_of_alpha(self, place: Grown, drawn: UnitRows) -> float:
        """The mean of E_q softplus over rows, less that over chains."""
        atoms = place.atoms.astype(self._kind)
        up, down = (softplus(self.inputs(b.v, b.x) @ atoms) @ place.shares for b in (self.data, drawn))
        return float(up.mean() - down.mean())
