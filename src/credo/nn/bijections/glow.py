r"""Flows of images: levels of squeeze, flow steps and a split.

    step    actnorm per channel -> channels mixed by a matrix (1x1 convolution) -> affine coupling
    split   half of the channels leaves: (x_b - m(x_a)) / sigma(x_a), a standard Gaussian (split="standard":
            m = 0, sigma = 1); the other half goes on

The conditioner of a coupling is 3x3, 1x1 and 3x3 convolutions of the channels that are kept, its last weights
zero at the start; a log scale is bound tanh(raw / bound). The conditioner of a split is one 3x3 convolution,
zero at the start. Steps of a level are scanned.

The last level has no split: with three levels a quarter of the numbers goes to the base, the rest left on
the way and is Gaussian (`kept`). A side must be divisible by two as often as there are levels: 28 is so twice
only; resize such images to 32 or 16, or pad them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ...core import check
from ...core.errors import OptionError
from ...core.records import register
from .actnorm import standardising
from .base import RowBijection, Tree, register_bijection
from .images import convolve, squeeze, started_convolution, unsqueeze
from .mixing import random_rotation

__all__ = ["Glow"]

Shape = tuple[int, int, int]


@register("bijection.glow")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Glow(RowBijection):
    """Images through levels of squeeze, flow steps and a split."""

    name: ClassVar[str] = "glow"
    levels: int = 3  # squeezes
    steps: int = 4  # flow steps of a level
    width: int = 32  # channels of the conditioners
    bound: float = 2.0  # of log scales
    split: Literal["learned", "standard"] = "learned"  # the Gaussian of what leaves
    shape: tuple[int, ...] | None = None  # height, width and channels; None: a square of one channel
    zero: bool = True  # whether couplings start as the identity

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("levels", "steps", "width"):
            check.whole(name, getattr(self, name), 1)
        check.finite("bound", self.bound)
        check.at_least("bound", self.bound, 1e-3)
        check.one_of("split", self.split, ["learned", "standard"])
        check.one_of("zero", self.zero, [True, False])
        if self.shape is not None:
            if len(tuple(self.shape)) not in (2, 3):
                raise OptionError(
                    f"shape must be (height, width) or (height, width, channels), got {self.shape!r}"
                )
            for side in self.shape:
                check.whole("shape", side, 1)
            object.__setattr__(self, "shape", tuple(int(side) for side in self.shape))

    def _shape(self, d: int) -> Shape:
        """Height, width, channels of rows of d numbers."""
        if self.shape is None:
            return isqrt(d), isqrt(d), 1
        h, w, c = (*self.shape, 1)[:3]
        return h, w, c

    def why_not(self, d: int) -> str | None:
        """Whether it is an image that can be squeezed so often."""
        h, w, c = self._shape(d)
        if h * w * c != d:
            said = "a square" if self.shape is None else f"{h} x {w} x {c}"
            return f"rows of {d} numbers are no images of {said}; say shape=(height, width, channels)"
        if h % 2**self.levels or w % 2**self.levels:
            return (
                f"images of {h} x {w} cannot be squeezed {self.levels} times; resize them to sides "
                f"divisible by {2**self.levels} such as {-(-h // 2**self.levels) * 2**self.levels}, or take "
                "fewer levels"
            )
        return None

    def kept(self, d: int) -> int:
        """What the last level has."""
        return d // 2 ** (self.levels - 1)

    def _channels(self, d: int) -> list[int]:
        """Channels of every level after its squeeze."""
        channels = 4 * self._shape(d)[2]
        return [channels * 2**level for level in range(self.levels)]

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """Levels, each with its steps stacked."""
        return tuple(
            self._started(c, rng, is_last=k == self.levels - 1) for k, c in enumerate(self._channels(d))
        )

    def _started(self, c: int, rng: np.random.Generator, *, is_last: bool) -> Tree:
        fixed, moved = c // 2, c - c // 2

        def step() -> Tree:
            last = started_convolution(self.width, 2 * moved, rng)
            return {
                "actnorm": {"centre": np.zeros(c), "log_scale": np.zeros(c)},
                "matrix": random_rotation(c, rng),
                "weight": (
                    started_convolution(fixed, self.width, rng),
                    started_convolution(self.width, self.width, rng, size=1),
                    np.zeros_like(last) if self.zero else last,
                ),
                "bias": (np.zeros(self.width), np.zeros(self.width), np.zeros(2 * moved)),
            }

        steps = [step() for _ in range(self.steps)]
        found: dict[str, Any] = {"steps": jax.tree.map(lambda *arrays: np.stack(arrays), *steps)}
        if not is_last and self.split == "learned":
            found["split"] = {"weight": np.zeros((9 * fixed, 2 * moved)), "bias": np.zeros(2 * moved)}
        return found

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """All levels; what left comes last."""
        h, volume = x.reshape(-1, *self._shape(x.shape[1])), jnp.zeros_like(x[:, 0])
        left: list[Any] = []
        for k, level in enumerate(tree):
            h, more = self._level(level["steps"], squeeze(h))
            volume = volume + more
            if k < self.levels - 1:
                h, away, more = self._away(level, h)
                volume, left = volume + more, [away.reshape(len(x), -1), *left]
        return jnp.concatenate([h.reshape(len(x), -1), *left], axis=1), volume

    def backward(self, tree: Tree, z: Any) -> Any:
        """The levels from the last to the first."""
        height, width, _ = self._shape(z.shape[1])
        sides = [(height >> k + 1, width >> k + 1, size) for k, size in enumerate(self._channels(z.shape[1]))]
        kept = self.kept(z.shape[1])
        h, rest = z[:, :kept].reshape(-1, *sides[-1]), z[:, kept:]
        for k in reversed(range(self.levels)):
            if k < self.levels - 1:
                own = (*sides[k][:2], sides[k][2] - sides[k][2] // 2)
                size = int(np.prod(own))
                h = self._back(tree[k], h, rest[:, :size].reshape(-1, *own))
                rest = rest[:, size:]
            h = unsqueeze(self._unlevel(tree[k]["steps"], h))
        return h.reshape(len(z), -1)

    def adapt(self, tree: Tree, x: Any, weights: Any) -> Tree:
        """Actnorms that give every channel mean zero and variance one, step after step."""
        h, found = x.reshape(-1, *self._shape(x.shape[1])), []

        def step(h: Any, own: Any) -> Any:
            flat = h.reshape(-1, h.shape[3])
            centre, log_scale = standardising(flat, jnp.repeat(weights, h.shape[1] * h.shape[2]))
            own = {**own, "actnorm": {"centre": centre, "log_scale": log_scale}}
            return self._step(h, own)[0], own

        for k, level in enumerate(tree):
            h, steps = jax.lax.scan(step, squeeze(h), level["steps"])
            found.append({**level, "steps": steps})
            if k < self.levels - 1:
                h = h[..., : h.shape[3] // 2]
        return tuple(found)

    def _level(self, steps: Tree, h: Any) -> tuple[Any, Any]:
        """Flow steps, scanned."""

        def step(carry: Any, own: Any) -> Any:
            h, volume = self._step(carry[0], own)
            return (h, carry[1] + volume), None

        return jax.lax.scan(step, (h, jnp.zeros_like(h[:, 0, 0, 0])), steps)[0]  # type: ignore[no-any-return]

    def _step(self, h: Any, own: Tree) -> tuple[Any, Any]:
        """Actnorm and mixing as one matrix product, then the coupling."""
        act, matrix, pixels = own["actnorm"], own["matrix"], h.shape[1] * h.shape[2]
        h = (h - act["centre"]) * jnp.exp(act["log_scale"])
        h = (h.reshape(-1, h.shape[3]) @ matrix).reshape(h.shape)
        volume = pixels * (act["log_scale"].sum() + jnp.linalg.slogdet(matrix)[1])
        fixed = h.shape[3] // 2
        log_scale, shift = self._affine(own, h[..., :fixed])
        moved = h[..., fixed:] * jnp.exp(log_scale) + shift
        return jnp.concatenate([h[..., :fixed], moved], axis=3), volume + log_scale.sum(axis=(1, 2, 3))

    def _unlevel(self, steps: Tree, h: Any) -> Any:
        """The inverse of the flow steps."""

        def step(h: Any, own: Any) -> Any:
            fixed, act = h.shape[3] // 2, own["actnorm"]
            log_scale, shift = self._affine(own, h[..., :fixed])
            h = jnp.concatenate([h[..., :fixed], (h[..., fixed:] - shift) * jnp.exp(-log_scale)], axis=3)
            flat = jnp.linalg.solve(own["matrix"].T, h.reshape(-1, h.shape[3]).T).T
            return flat.reshape(h.shape) * jnp.exp(-act["log_scale"]) + act["centre"], None

        return jax.lax.scan(step, h, steps, reverse=True)[0]

    def _affine(self, own: Tree, h: Any) -> tuple[Any, Any]:
        """Log scale and shift of a coupling."""
        for weight, bias in zip(own["weight"][:2], own["bias"][:2], strict=True):
            h = jax.nn.relu(convolve(h, weight, bias))
        raw, shift = jnp.split(convolve(h, own["weight"][2], own["bias"][2]), 2, axis=3)
        return self.bound * jnp.tanh(raw / self.bound), shift

    def _gaussian(self, level: Tree, h: Any) -> tuple[Any, Any]:
        """Mean and log standard deviation of what leaves, given what stays."""
        own = level["split"]
        mean, raw = jnp.split(convolve(h, own["weight"], own["bias"]), 2, axis=3)
        return mean, self.bound * jnp.tanh(raw / self.bound)

    def _away(self, level: Tree, h: Any) -> tuple[Any, Any, Any]:
        """What stays, what leaves as standard Gaussian, and the volume."""
        fixed = h.shape[3] // 2
        stays, away = h[..., :fixed], h[..., fixed:]
        if self.split == "standard":
            return stays, away, 0.0
        mean, log_scale = self._gaussian(level, stays)
        return stays, (away - mean) * jnp.exp(-log_scale), -log_scale.sum(axis=(1, 2, 3))

    def _back(self, level: Tree, stays: Any, away: Any) -> Any:
        """Both halves again."""
        if self.split == "learned":
            mean, log_scale = self._gaussian(level, stays)
            away = away * jnp.exp(log_scale) + mean
        return jnp.concatenate([stays, away], axis=3)
