"""A classifier of small grey images, whose features and class probabilities judge drawn images.

A residual network (`nn/image_network.py`) learns by Adam, in compiled chunks of mini-batches. A part of the
images is held out and never learned from: `accuracy_` on it goes with every score made of the features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core import check
from ..core.errors import ConvergenceError, DataError, MissingExtraError, OptionError
from ..core.numbers import float_array
from ..core.records import register
from ..core.result import Status
from ..optimise.driver import drive
from ..optimise.run import Budget, noted
from .base import Estimator

if TYPE_CHECKING:
    from ..nn.image_network import ImageNetwork

__all__ = ["ImageClassifier"]

_BLOCK = 256  # images that are looked at together
_CLIP = 1.0  # largest norm of a gradient


@register("ImageClassifier")
class ImageClassifier(Estimator):
    """A small residual network for grey images of one size, such as 28x28, 16x16 or 32x32.

    Parameters
    ----------
    width
        Channels of the first stage; there are four times as many features.
    epochs
        Passes over the images.
    rate
        Of Adam; it falls to a third towards the end.
    batch_size
        Images of a step.
    held_out
        Share of the images that is not learned from and gives `accuracy_`.
    shape
        (height, width) of images that come as rows of pixels; square if left out.
    seconds
        Wall time of training at most.
    random_state
        The same seed gives the same answer.

    Attributes
    ----------
    classes_
        Labels, in the order of the probabilities.
    accuracy_
        On the images held out.
    loss_
        Mean cross entropy of each epoch.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import ImageClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.random((200, 8, 8)), np.arange(200) % 2
    >>> X[y == 1, :4] += 1  # bright above
    >>> found = ImageClassifier(4, epochs=5, batch_size=20, random_state=0).fit(X, y)
    >>> found.accuracy_, found.features(X).shape
    (1.0, (200, 16))
    """

    _kind = "classifier"
    _needs_y = True
    _reads_tables = False

    classes_: np.ndarray
    accuracy_: float
    loss_: np.ndarray
    shape_: tuple[int, ...]
    scale_: np.ndarray  # mean and standard deviation of the pixels
    weights_: tuple[np.ndarray, ...]  # of the network, in its order

    def __init__(
        self,
        width: int = 16,
        *,
        epochs: int = 5,
        rate: float = 1e-2,
        batch_size: int = 100,
        held_out: float = 0.1,
        shape: tuple[int, int] | None = None,
        seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.width, self.epochs, self.rate, self.batch_size = width, epochs, rate, batch_size
        self.held_out, self.shape, self.seconds, self.random_state = held_out, shape, seconds, random_state

    @noted
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from images (images, height, width), or rows of pixels, and their labels."""
        for name in ("width", "epochs", "batch_size"):
            check.whole(name, getattr(self, name), 1)
        check.in_range("held_out", self.held_out, 0, 1)
        check.at_least("rate", self.rate, 0)
        images, labels = self._images(X, self.shape), np.asarray(y)
        if labels.shape != (len(images),):
            raise DataError(f"y: expected {len(images)} labels, one per image, got shape {labels.shape}")
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y: expected at least two classes, got {self.classes_.tolist()}")
        rng = check.generator(self._seed(), "random_state")
        order = rng.permutation(len(images))
        held = order[: max(1, round(self.held_out * len(images)))]
        seen = order[len(held) :]
        if not len(seen):
            raise DataError(f"X: expected more than {len(held)} images, one to learn from, got {len(images)}")
        self.shape_ = images.shape[1:]
        spread = float(images[seen].std())
        self.scale_ = np.array([images[seen].mean(), spread if spread > 0 else 1.0])
        self._train(images[seen], numbers[seen].astype(np.int32), rng)
        self.accuracy_ = float((self.predict(images[held]) == labels[held]).mean())
        return self

    def _train(self, images: np.ndarray, numbers: np.ndarray, rng: np.random.Generator) -> None:
        network = _network(len(self.classes_), self.width, rng)
        import jax

        from ..nn.adam import Gradient, Rates, learned
        from ..nn.batches import Batches, CompiledRows
        from ..nn.chunks import Chunks, Phase
        from ..nn.image_network import cross_entropy

        batches = Batches(min(self.batch_size, len(images)), seed=int(rng.integers(2**31)))
        steps = self.epochs * batches.count(len(images))
        rates = Rates(self.rate, warm_up=steps / 20, half_life=steps / 8)
        carry = {"model": learned(network, rates, clip=_CLIP), "scale": self.scale_.astype(np.float32)}
        work = Chunks(phases=[Phase(Gradient(cross_entropy))], carry=carry, batches=batches, name="images")
        rows = CompiledRows.of({"x": images, "y": numbers})
        found = drive(work, rows, Budget(self.epochs, 0.0, self.seconds))
        if found.outcome.status is Status.DIVERGED:
            raise ConvergenceError("ImageClassifier: the loss left the finite range; use a smaller rate")
        self.loss_ = found.trace.get("loss", np.zeros(0))
        self.weights_ = tuple(map(np.asarray, jax.tree.leaves(found.carry["model"].parameters)))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each image."""
        chances = self.predict_proba(X)
        return self.classes_[chances.argmax(axis=1)]  # type: ignore[no-any-return]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, (images, classes)."""
        logits = self._seen(X)[1]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]

    def features(self, X: Any) -> np.ndarray:
        """What the last layer reads, (images, 4 width)."""
        return self._seen(X)[0]

    def score(self, X: Any, y: Any) -> float:
        """Share of the images that get their label."""
        return float((self.predict(X) == np.asarray(y)).mean())

    def _seen(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Features and logits, block by block, all of one size so that one program serves."""
        if not hasattr(self, "weights_"):
            self._refuse_unfitted()
        images, found = self._images(X, self.shape_), []
        network = self._network()
        from ..nn.image_network import shown

        for first in range(0, len(images), _BLOCK):
            block = images[first : first + _BLOCK]
            blank = np.zeros((_BLOCK - len(block), *self.shape_), np.float32)
            full = np.concatenate([block.astype(np.float32), blank])
            out = shown(network, self.scale_.astype(np.float32), full)
            found.append([np.asarray(part, np.float64)[: len(block)] for part in out])
        features, logits = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return features, logits

    def _network(self) -> ImageNetwork:
        like = _network(len(self.classes_), self.width, np.random.default_rng(0))
        import jax

        return jax.tree.unflatten(jax.tree.structure(like), self.weights_)

    def _images(self, X: Any, shape: tuple[int, ...] | None) -> np.ndarray:
        """Numbers (images, height, width); bytes stay bytes."""
        is_bytes = isinstance(X, np.ndarray) and X.dtype == np.uint8
        images = X if is_bytes else float_array("X", X, error=DataError).astype(np.float32)
        if images.ndim == 2:
            side = round(images.shape[1] ** 0.5)
            images = images.reshape(len(images), *_fitting(images.shape[1], shape or (side, side)))
        if images.ndim != 3 or not images.size or (shape is not None and images.shape[1:] != tuple(shape)):
            wanted = "height, width" if shape is None else f"{shape[0]}, {shape[1]}"
            raise DataError(f"X: expected images (images, {wanted}), or rows of pixels, got {np.shape(X)}")
        if not is_bytes and not np.isfinite(images).all():
            raise DataError("X: expected finite grey values, got others; fill in what is missing")
        return images


def _fitting(pixels: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) != 2 or shape[0] * shape[1] != pixels:
        raise OptionError(f"shape: expected (height, width) of {pixels} pixels, got {tuple(shape)}")
    return shape


def _network(classes: int, width: int, rng: np.random.Generator) -> ImageNetwork:
    try:
        from ..nn.image_network import ImageNetwork
    except ImportError:
        raise MissingExtraError("ImageClassifier needs JAX; install credo[neural]") from None
    return ImageNetwork(classes, width, rng)
