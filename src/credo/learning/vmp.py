r"""Variational message passing on directed conjugate models.

    log q_i = E[log p(x_i | parents)] + sum_children E[log p(child | its parents)] + const

Each node adds the messages of its Markov blanket to the natural parameters that its parents give it. Nodes
are updated one after the other, so the free energy F = E[log p] + H[q] rises with every update and stays
below the log evidence. Models are built of the nodes of `vmp_nodes.py`:

    mean = vmp.GaussianNode(0.0, 0.01, shape=3)
    precision = vmp.GammaNode(1.0, 1.0, shape=3)
    weights = vmp.DirichletNode(np.ones(3))
    choice = vmp.CategoricalNode(weights, shape=len(x))
    data = vmp.GaussianNode(mean, precision, choose=choice, observed=x)
    found = vmp.fit([data], seed=0)
    found.posterior[mean]                                        # E[x], E[x^2]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ConvergenceError, ConvergenceWarning, DataError, ModelError
from ..core.stopwatch import Stopwatch
from ..families.natural import Parts
from ..inference.problem.base import Budget
from .base import Fit
from .em_data import Expected
from .em_steps import EMProblem, EMStart, fit_of, run_em
from .vb_steps import posterior_fit
from .vmp_base import MessageNode, RandomNode
from .vmp_nodes import CategoricalNode, DirichletNode, DotNode, GammaNode, GaussianNode, VectorNode

__all__ = [
    "CategoricalNode",
    "DirichletNode",
    "DotNode",
    "GammaNode",
    "GaussianNode",
    "MessageModel",
    "MessageNode",
    "VectorNode",
    "fit",
]

Inner = RandomNode | DotNode  # what a model consists of, besides constants


class MessageModel(EMProblem):
    """A model as a list of nodes, parents first."""

    def __init__(
        self, nodes: Iterable[MessageNode], first: Mapping[MessageNode, Parts] | None = None
    ) -> None:
        self.nodes, self._first = _with_parents(nodes), first or {}
        self.random = [n for n in self.nodes if isinstance(n, RandomNode)]
        self.hidden = [n for n in self.random if n.observed is None]
        self._children: dict[MessageNode, list[Inner]] = {n: [] for n in self.nodes}
        for node in self.nodes:
            for parent in node.parents:
                self._children[parent].append(node)
        if len(self.hidden) == len(self.random):
            raise DataError("nodes: expected an observed one, got none; give data with observed=")
        for node in self.nodes:
            if node.observed is not None and self._children[node]:
                raise ModelError("observed nodes: expected no children, got one; give the data as a constant")

    @property
    def rows(self) -> float:  # type: ignore[override]
        """How many numbers are observed."""
        seen = sum(np.sum(n.seen * np.ones(n.shape)) for n in self.random if n.observed is not None)
        return max(float(seen), 1.0)

    def start(self, rng: np.random.Generator, number: int = 1) -> EMStart:
        """Natural parameters of all hidden nodes: those of the prior, or random ones."""
        q: dict[MessageNode, Parts] = {}
        for node in self.hidden:
            q[node] = node.start(node.prior(self.lookup(q)), rng)
        return EMStart({**q, **self._first} if number == 0 else q)

    def lookup(self, q: Mapping[MessageNode, Parts]) -> Callable[[Any], Parts]:
        """The moments of any node, computed once."""
        known: dict[MessageNode, Parts] = {}

        def at(node: Any) -> Parts:
            if node.observed is not None:
                return node.observed
            if node not in known:
                known[node] = node.family.mean(q[node]) if isinstance(node, RandomNode) else node.value(at)
            return known[node]

        return at

    def message(self, child: Inner, node: MessageNode, at: Callable[[Any], Parts]) -> Parts:
        """What a child tells a node; a `DotNode` passes on what its own children say."""
        if isinstance(child, RandomNode):
            return child.to_parent(node, at)
        heard = [self.message(grandchild, child, at) for grandchild in self._children[child]]
        total = tuple(np.broadcast_to(sum(part), child.shape) for part in zip(*heard, strict=True))
        return child.pass_on(node, total, at)

    def updated(self, q: dict[MessageNode, Parts], node: RandomNode) -> dict[MessageNode, Parts]:
        """The same with one node renewed."""
        at = self.lookup(q)
        parts = [node.prior(at), *(self.message(child, node, at) for child in self._children[node])]
        return {**q, node: tuple(np.sum(part, axis=0) for part in zip(*parts, strict=True))}

    def free_energy(self, q: dict[MessageNode, Parts]) -> float:
        """E[log p(all)] + H[q]."""
        at = self.lookup(q)
        energy = sum(node.expected_log(at) for node in self.random)
        return energy + sum(node.entropy(q[node]) for node in self.hidden)

    def expect(self, q: dict[MessageNode, Parts]) -> Expected:
        """The free energy; nothing else is needed."""
        return Expected(self.free_energy(q), None)

    def movement(self, q: dict[MessageNode, Parts], new: dict[MessageNode, Parts]) -> float:
        """Root of the symmetric divergence KL(q, new) + KL(new, q) of a node per entry, the largest one."""
        return max((node.distance(q[node], new[node]) for node in self.hidden), default=0.0)

    def made(self, q: dict[MessageNode, Parts]) -> None:
        """There is no model besides the nodes."""

    def maximise(self, statistics: None, q: dict[MessageNode, Parts]) -> dict[MessageNode, Parts]:
        """Every hidden node once, parents first."""
        for node in self.hidden:
            q = self.updated(q, node)
        return q


@dataclass(frozen=True)
class NodeBeliefs(Mapping[MessageNode, Parts]):
    """Node -> moments E[u] under q."""

    model: MessageModel  # the nodes
    natural: dict[MessageNode, Parts]  # natural parameters of q

    def __getitem__(self, node: MessageNode) -> Parts:
        if node not in self.model._children:
            raise ModelError("posterior: expected a node of this model, got another one")
        return self.model.lookup(self.natural)(node)

    def __iter__(self) -> Any:
        return iter(self.natural)

    def __len__(self) -> int:
        return len(self.natural)


def fit(
    nodes: Iterable[MessageNode],
    *,
    restarts: int = 1,
    max_iter: int = 1000,
    tol: float = 1e-5,
    seconds: float | None = None,
    seed: int | None = None,
    start: Mapping[MessageNode, Parts] | None = None,
    strict: bool = False,
) -> Fit:
    """Pass messages until the free energy stands.

    Parameters
    ----------
    nodes
        The observed nodes, or more; their parents are found by themselves.
    restarts, max_iter, tol, seconds, seed, strict
        As in `credo.fit`; `tol` is the distance between two beliefs about a node that counts as none, as a
        root of their divergence: about their difference in standard deviations.
    start
        Natural parameters of some hidden nodes in the first run.

    Returns
    -------
    Fit
        `posterior` maps nodes to moments; its `natural` are the parameters of q. There is no `model`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning import vmp
    >>> mean, precision = vmp.GaussianNode(0.0, 0.01), vmp.GammaNode(1.0, 1.0)
    >>> data = vmp.GaussianNode(mean, precision, observed=np.array([1.0, 2.0, 3.0]))
    >>> found = vmp.fit([data])
    >>> found.converged, round(float(found.posterior[mean][0]), 2)
    (True, 1.99)
    """
    watch = Stopwatch()
    model = MessageModel(nodes, start)
    check.whole("restarts", restarts, 1)
    best = run_em(model, Budget(max_iter, tol, seconds), check.generator(seed), name="vmp", restarts=restarts)
    found = replace(
        posterior_fit(fit_of(model, best), best), posterior=NodeBeliefs(model, best.parameters),
        learner="vmp", seconds=watch.seconds, compile_seconds=watch.compile_seconds,
    )  # fmt: skip
    if not found.status.is_success:
        if strict:
            raise ConvergenceError(f"vmp: {found.advice}")
        warnings.warn(f"vmp: {found.advice}", ConvergenceWarning, stacklevel=2)
    return found


def _with_parents(nodes: Iterable[MessageNode]) -> list[Inner]:
    """The nodes and all their ancestors, parents first."""
    found: list[Inner] = []

    def visit(node: MessageNode) -> None:
        if not isinstance(node, (RandomNode, DotNode)):
            raise ModelError(f"nodes: expected nodes of vmp, got {type(node).__name__}")
        if node in found:
            return
        for parent in node.parents:
            visit(parent)
        found.append(node)

    for node in nodes:
        visit(node)
    return found
