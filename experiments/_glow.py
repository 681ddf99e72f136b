"""Mixtures of Glows of small grey images, learned once for several experiments and kept in checkpoints.

Images are resized to 16x16 (means over areas) and stay whole numbers from 0 to 255; densities are per grey
level. Five ways to learn:

    gaussian   noise of one grey level is added in every step: the source's form, whose negative
               log-likelihood is at least 1/2 log 2 pi e = 1.419 nats per pixel; exact posteriors
    scaled     the same with the posteriors of the source, log densities divided by the number of pixels
    held       as gaussian, with the posteriors of the start kept for all epochs: components learn clusters
    uniform    noise over the cell of a grey level: the bound on bits per pixel that other flows report
    latent     one Glow over a mixture of K Gaussians (LatMM), Gamma(2, 1) prior on inverse scales

Numbers of a set of images are means over fresh noise of the same kind.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from _common import OUT
from _sets import images

import credo
from credo.core.errors import ConvergenceWarning
from credo.evaluate import nats_per_dimension

__all__ = ["KINDS", "MODELS", "SIDE", "TINY", "between", "codes", "nats", "pictures", "resized", "trained"]

SIDE = 16
MODELS = OUT / "models"
TINY = 100  # images
REFRESH = 5  # epochs between two answers of the old model
KINDS = {
    "gaussian": ("gaussian", "exact", ""),
    "scaled": ("gaussian", "scaled", ""),
    "held": ("gaussian", "exact", ""),
    "uniform": ("uniform", "exact", ""),
    "latent": ("gaussian", "exact", ", scales=gamma"),
}


def resized(x: np.ndarray, side: int = SIDE) -> np.ndarray:
    """Square images with another side: means over areas, rounded, (images, side, side)."""
    before = x.shape[1]
    edges = np.arange(side + 1) * before / side
    pixels = np.arange(before)
    shares = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights = np.maximum(shares, 0.0) * side / before
    return np.round(np.einsum("ij,njk,lk->nil", weights, x.astype(float), weights))


@cache
def pictures(data: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of pixels to learn from and as many, 2,000 at most, that are held out."""
    found = images(data)
    held = min(count, 2000, len(found.test_x))
    return tuple(resized(part).reshape(len(part), -1) for part in (found.x[:count], found.test_x[:held]))


def trained(about: Any, kind: str) -> Any:
    """The `Fit` of some settings (data, images, epochs, steps, width, K), from its checkpoint if it has one.

    Tiny ones, of quick runs, are learned again.
    """
    noise, posterior, more = KINDS[kind]
    glow = f"flow(bijection=glow(levels=3, steps={about['steps']}, width={about['width']}), noise={noise}"
    k = about["K"]
    blank = credo.Mixture.blank(k, glow + ")")
    if kind == "latent":
        blank = credo.Mixture.blank(1, f"{glow}, components={k})")
    refresh = about["epochs"] if kind == "held" else REFRESH
    learner = f"gradient-em(batch=100, refresh={refresh}, rate=0.001, warm_up=50, posterior={posterior}"
    path = None
    if about["images"] > TINY:
        MODELS.mkdir(parents=True, exist_ok=True)
        name = "-".join(f"{about[n]}" for n in ("data", "images", "epochs", "steps", "width", "K"))
        path = MODELS / f"glow-{kind}-{name}.credo"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(
            blank, pictures(about["data"], about["images"])[0], f"{learner}{more})", seed=0, tol=0.0,
            max_iter=max(1, about["epochs"] // refresh), checkpoint=path,
        )  # fmt: skip


def nats(model: Any, x: np.ndarray, kind: str, seed: int = 0) -> float:
    """Negative log-likelihood per pixel of images with noise of the kind they were learned with."""
    rng = np.random.default_rng(seed)
    # With uniform noise the model takes the middle of a cell: what is handed over lies half a level below.
    noise = rng.random(x.shape) - 0.5 if kind == "uniform" else rng.standard_normal(x.shape)
    return nats_per_dimension(model, x + noise)


def codes(model: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Latent numbers of images, and the component that finds each most probable."""
    if not hasattr(model, "components"):
        return model.encode(x), np.zeros(len(x), int)
    chosen = model.responsibilities(x)[:, 0].argmax(axis=1)
    return model.components.encode(x, chosen), chosen


def between(
    model: Any,
    first: np.ndarray,
    last: np.ndarray,
    shares: np.ndarray,
    draw: np.random.Generator | None = None,
) -> np.ndarray:
    """Images on the straight lines between codes, (shares, pairs, pixels); a share of 0 is the first image.

    The component is that of the nearer end; with `draw` it is drawn from the weights instead.
    """
    (z, one), (w, other) = codes(model, first), codes(model, last)
    rows = []
    for share in shares.tolist():
        mixed = (1 - share) * z + share * w
        if not hasattr(model, "components"):
            rows.append(model.decode(mixed))
            continue
        chosen = one if share < 0.5 else other
        if draw is not None:
            chosen = draw.choice(model.weights.shape[1], size=len(z), p=model.weights[0])
        rows.append(model.components.decode(mixed, chosen))
    return np.array(rows)
