"""What all nodes of variational message passing share."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np

from ..core.errors import DataError, ModelError
from ..families.natural import NaturalFamily, Parts

__all__ = [
    "ConstantNode",
    "MessageNode",
    "RandomNode",
    "RootNode",
    "check_broadcast",
    "check_kind",
    "fold",
    "nodes_among",
    "shape_of",
]


def fold(message: np.ndarray, full: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """A message with the full shape summed over the axes along which the parent was broadcast."""
    wide = np.broadcast_to(message, full)
    extra = wide.ndim - len(shape)
    wide = wide.sum(axis=tuple(range(extra))) if extra else wide
    axes = tuple(k for k, size in enumerate(shape) if size == 1 and wide.shape[k] != 1)
    return wide.sum(axis=axes, keepdims=True) if axes else wide


class MessageNode:
    """A node; immutable. What is believed about it lies in the state of a run."""

    shape: tuple[int, ...] = ()  # of the node's plates
    observed: Parts | None = None  # moments of the data
    parents: tuple[Any, ...] = ()  # nodes only


class ConstantNode(MessageNode):
    """A fixed parent; `u` are its moments."""

    observed: Parts

    def __init__(self, *u: np.ndarray) -> None:
        self.observed = u
        self.shape = u[0].shape


class RandomNode(MessageNode, abc.ABC):
    """A node with a distribution given its parents, of an exponential family with statistics u."""

    family: ClassVar[NaturalFamily]
    seen: np.ndarray | float = 1.0  # 0 where a value is missing
    choose: Any = None  # the categorical node that selects a component

    @abc.abstractmethod
    def prior(self, at: Any) -> Parts:
        """Natural parameters given the moments of the parents; `at(node)` looks moments up."""

    @abc.abstractmethod
    def to_parent(self, parent: MessageNode, at: Any) -> Parts:
        """Coefficients of the parent's statistics, in the parent's shape."""

    @abc.abstractmethod
    def expected_log(self, at: Any) -> float:
        """E[log p(node | parents)] summed over the observed or hidden entries."""

    def start(self, natural: Parts, rng: np.random.Generator) -> Parts:
        """Natural parameters to start from, given those of the prior."""
        return natural

    def distance(self, natural: Parts, new: Parts) -> float:
        """How far two beliefs are apart: the root of KL both ways, per entry of the shape."""
        both = float(self.family.symmetric_kl(natural, new).sum())
        return float(np.sqrt(max(both, 0.0) / max(1, int(np.prod(self.shape)))))

    def entropy(self, natural: Parts) -> float:
        """Of q with these natural parameters, summed over the entries."""
        return float(self.family.entropy(natural).sum())


class RootNode(RandomNode):
    """A random node whose parents are constants."""

    def to_parent(self, parent: MessageNode, at: Any) -> Parts:
        """Nothing: a constant has no statistics to inform."""
        return ()

    def expected_log(self, at: Any) -> float:
        """E[log p(this node | its parents)] under q, summed over the entries."""
        natural = self.prior(at)
        return float((self.family.inner(natural, at(self)) - self.family.log_normaliser(natural)).sum())


def check_kind(name: str, node: MessageNode, kinds: tuple[type, ...]) -> None:
    """Refuse a parent that is not conjugate."""
    if not isinstance(node, (*kinds, ConstantNode)):
        words = " or ".join(kind.__name__ for kind in kinds)
        raise ModelError(
            f"{name}: expected {words} or numbers, which are conjugate, got {type(node).__name__}"
        )


def nodes_among(*candidates: Any) -> tuple[Any, ...]:
    """Those that are nodes, constants left out."""
    return tuple(n for n in candidates if isinstance(n, MessageNode) and not isinstance(n, ConstantNode))


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
