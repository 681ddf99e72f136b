"""What all nodes of variational message passing share."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from ..core.errors import DataError, ModelError

__all__ = [
    "Constant",
    "Moments",
    "Node",
    "Random",
    "Root",
    "check_broadcast",
    "check_kind",
    "fold",
    "nodes_among",
    "shape_of",
]

Moments = tuple[np.ndarray, ...]


def fold(message: np.ndarray, full: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """A message with the full shape summed over the axes along which the parent was broadcast."""
    wide = np.broadcast_to(message, full)
    extra = wide.ndim - len(shape)
    wide = wide.sum(axis=tuple(range(extra))) if extra else wide
    axes = tuple(k for k, size in enumerate(shape) if size == 1 and wide.shape[k] != 1)
    return wide.sum(axis=axes, keepdims=True) if axes else wide


class Node:
    """A node; immutable. What is believed about it lies in the state of a run."""

    shape: tuple[int, ...] = ()  # of the node's plates
    observed: Moments | None = None  # moments of the data
    parents: tuple[Any, ...] = ()  # nodes only


class Constant(Node):
    """A fixed parent; `u` are its moments."""

    observed: Moments

    def __init__(self, *u: np.ndarray) -> None:
        self.observed = u
        self.shape = u[0].shape


class Random(Node, abc.ABC):
    """A node with a distribution given its parents, of an exponential family with statistics u."""

    seen: np.ndarray | float = 1.0  # 0 where a value is missing
    choose: Any = None  # the categorical node that selects a component

    @abc.abstractmethod
    def prior(self, at: Any) -> Moments:
        """Natural parameters given the moments of the parents; `at(node)` looks moments up."""

    @abc.abstractmethod
    def to_parent(self, parent: Node, at: Any) -> Moments:
        """Coefficients of the parent's statistics, in the parent's shape."""

    @abc.abstractmethod
    def moments(self, natural: Moments) -> Moments:
        """E[u] for natural parameters."""

    @abc.abstractmethod
    def log_normaliser(self, natural: Moments) -> np.ndarray:
        """A of natural parameters, per entry of the shape."""

    @abc.abstractmethod
    def expected_log(self, at: Any) -> float:
        """E[log p(node | parents)] summed over the observed or hidden entries."""

    def start(self, natural: Moments, rng: np.random.Generator) -> Moments:
        """Natural parameters to start from, given those of the prior."""
        return natural

    def distance(self, natural: Moments, new: Moments) -> float:
        """How far two beliefs are apart: the root of KL both ways, per entry of the shape."""
        gaps = zip(natural, new, self.moments(natural), self.moments(new), strict=True)
        with np.errstate(invalid="ignore"):  # what is impossible in both has no difference
            both = sum(float(np.nansum((b - a) * (v - u))) for a, b, u, v in gaps)
        return float(np.sqrt(max(both, 0.0) / max(1, int(np.prod(self.shape)))))

    def entropy(self, natural: Moments) -> float:
        """Of q with these natural parameters."""
        return float(self.log_normaliser(natural).sum()) - _inner(natural, self.moments(natural))


class Root(Random):
    """A random node whose parents are constants."""

    def to_parent(self, parent: Node, at: Any) -> Moments:
        """Nothing: a constant has no statistics to inform."""
        return ()

    def expected_log(self, at: Any) -> float:
        """Under q."""
        natural = self.prior(at)
        normaliser = np.broadcast_to(self.log_normaliser(natural), self.shape)
        return _inner(natural, at(self)) - float(normaliser.sum())


def _inner(natural: Moments, u: Moments) -> float:
    """Natural parameters times moments, summed."""
    return sum(float((a * b).sum()) for a, b in zip(natural, u, strict=True))


def check_kind(name: str, node: Node, kinds: tuple[type, ...]) -> None:
    """Refuse a parent that is not conjugate."""
    if not isinstance(node, (*kinds, Constant)):
        words = " or ".join(kind.__name__ for kind in kinds)
        raise ModelError(
            f"{name}: expected {words} or numbers, which are conjugate, got {type(node).__name__}"
        )


def nodes_among(*candidates: Any) -> tuple[Any, ...]:
    """Those that are nodes, constants left out."""
    return tuple(n for n in candidates if isinstance(n, Node) and not isinstance(n, Constant))


def shape_of(given: Any, data: np.ndarray | None, fallback: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a node: the one given, or that of its data."""
    wanted = fallback if given is None else (given,) if isinstance(given, int) else tuple(given)
    if data is None:
        return wanted
    if given is not None and data.shape != wanted:
        raise DataError(f"observed: expected shape {wanted}, got {data.shape}")
    return data.shape


def check_broadcast(shape: tuple[int, ...], parent: tuple[int, ...], full: tuple[int, ...]) -> None:
    """Refuse a parent that does not broadcast against its child."""
    try:
        fits = np.broadcast_shapes(parent, full) == full
    except ValueError:
        fits = False
    if not fits:
        raise ModelError(f"node of shape {shape}: a parent of shape {parent} does not broadcast to {full}")
