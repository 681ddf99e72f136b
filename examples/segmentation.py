"""The picture of "Predict structures": five regions, the noise that is seen, and what is told of it.

Half of the labels of the images that are learned from are missing. Run it with
`python examples/segmentation.py`; it writes `docs/images/segmentation.png`.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from credo.estimators import GraphCRF

OUT = Path(__file__).resolve().parents[1] / "docs" / "images" / "segmentation.png"
HEIGHT, WIDTH, REGIONS = 10, 20, 5
NOISE = 0.9  # standard deviation, of regions that are one apart


def regions() -> np.ndarray:
    """The image behind all observations."""
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    found = np.ones((HEIGHT, WIDTH), dtype=int)
    found[(row - 5) ** 2 + (column - 5) ** 2 < 14] = 3
    found[(row > 2) & (row < 9) & (column > 10) & (column < 18)] = 5
    found[(row > 4) & (row < 7) & (column > 12) & (column < 16)] = 2
    found[row < 2] = 4
    return found


def grid() -> np.ndarray:
    """Pairs of neighbours."""
    number = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
    right = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    return np.concatenate([right, down])


def seen(rng: np.random.Generator) -> np.ndarray:
    """A noisy observation."""
    return regions() + NOISE * rng.normal(size=(HEIGHT, WIDTH))


def features(image: np.ndarray) -> np.ndarray:
    """How bright a pixel is, its square, and one."""
    x = (image.ravel() - 3) / 2
    return np.stack([x, x**2, np.ones(len(x))], axis=1)


def learned(rng: np.random.Generator, count: int = 3, missing: float = 0.5) -> GraphCRF:
    """A marginal structured SVM of images some of whose labels are missing, which are summed out."""
    x = [(features(seen(rng)), grid()) for _ in range(count)]
    y = [
        np.where(rng.random(HEIGHT * WIDTH) < missing, None, regions().ravel()).tolist() for _ in range(count)
    ]
    made = GraphCRF(
        objective="mssvm", inference="bp", symmetric=True, prior="gaussian(scale=1)", max_iter=40, tol=0.5
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(x, y)


def main() -> None:
    rng = np.random.default_rng(0)
    made, image = learned(rng), seen(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = made.predict([(features(image), grid())])[0].reshape(HEIGHT, WIDTH)
    alone = np.clip(np.round(image), 1, REGIONS)
    figure = Figure(figsize=(11, 1.8), layout="constrained")
    shown = {"regions": regions(), "seen": image, "each pixel by itself": alone, "told": told}
    for axes, (title, values) in zip(figure.subplots(1, 4), shown.items(), strict=True):
        right = (
            f", {(values == regions()).mean():.0%} right" if title in ("told", "each pixel by itself") else ""
        )
        axes.imshow(values, cmap="viridis", vmin=1, vmax=REGIONS)
        axes.set_title(title + right, fontsize=9)
        axes.set_axis_off()
    figure.savefig(OUT, dpi=110)
    print(
        f"wrote {OUT.name}, {(told == regions()).mean():.3f} right, {(alone == regions()).mean():.3f} alone"
    )


if __name__ == "__main__":
    main()
