r"""What flows in a normal-form graph: messages of every branch for every sample, and what is read off them.

belief           p(x) ~ f(x) b(x)
local            log f_X' theta b_Y of one block, from the two messages that enter it
log_z            log of the weight of the evidence; the same through every block but for constants that
                 do not depend on that block
pseudo           sum over observed ends of log sum_x f(x) b(x): log p(end | all other evidence) each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import QueryError, ZeroProbabilityError
from ..core.numbers import float_array
from .normal_form_parts import Block, Diverter, Source
from .normal_form_wiring import NormalFormWiring

if TYPE_CHECKING:
    from .normal_form import NormalForm

__all__ = ["Messages", "started"]


class _ByBranch(Mapping[str, np.ndarray]):
    """Branch name -> array, made when asked for."""

    def __init__(self, graph: NormalForm, read: Callable[[int], np.ndarray]) -> None:
        self._graph, self._read = graph, read

    def __getitem__(self, name: str) -> np.ndarray:
        return self._read(self._graph.branches.position(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._graph.branches.names)

    def __len__(self) -> int:
        return len(self._graph.branches)


@dataclass(frozen=True, repr=False)
class Messages:
    """All messages of a graph, normalised; made by `NormalForm.messages`."""

    graph: NormalForm  # whose messages they are
    flat: np.ndarray  # (samples, flat) laid out as the graph's wiring says
    log_z: np.ndarray  # (samples,) log weight of the evidence of each sample
    observed: np.ndarray  # (samples, branches) whether there is evidence at an end of the branch

    def __len__(self) -> int:
        return len(self.flat)

    def _message(self, d: int) -> np.ndarray:
        start = self.graph.wiring.message_start
        return self.flat[:, start[d] : start[d + 1]]

    @property
    def forward(self) -> Mapping[str, np.ndarray]:
        """Branch -> (samples, states) messages along the arrow."""
        return _ByBranch(self.graph, lambda i: self._message(2 * i))

    @property
    def backward(self) -> Mapping[str, np.ndarray]:
        """Branch -> (samples, states) messages against the arrow."""
        return _ByBranch(self.graph, lambda i: self._message(2 * i + 1))

    @property
    def beliefs(self) -> Mapping[str, np.ndarray]:
        """Branch -> (samples, states) marginals given the evidence."""
        return _ByBranch(self.graph, self._belief)

    def _belief(self, i: int) -> np.ndarray:
        product = self._message(2 * i) * self._message(2 * i + 1)
        sums = product.sum(axis=1, keepdims=True)
        if not sums.all():
            n, name = int(np.flatnonzero(sums == 0)[0]), self.graph.branches.names[i]
            raise ZeroProbabilityError(
                f"sample {n}: the messages of branch '{name}' contradict each other; they have not met yet, "
                "or the evidence is impossible"
            )
        return product / sums

    def incoming(self, block: str) -> tuple[np.ndarray, np.ndarray]:
        """The two messages (samples, states) a block sees: forward at its input, backward at its output.

        The input of a source is a constant with one state.
        """
        part = self.graph.part(block)
        if isinstance(part, Source):
            return np.ones((len(self), 1)), self.backward[part.output]
        if not isinstance(part, Block):
            raise QueryError(f"'{block}' is a diverter; only blocks and sources have parameters to learn")
        return self.forward[part.input], self.backward[part.output]

    def local(self, block: str) -> np.ndarray:
        """(samples,) log f' theta b of one block."""
        f, b = self.incoming(block)
        with np.errstate(divide="ignore"):
            return np.log(((f @ self.graph.part(block).theta) * b).sum(axis=1))  # type: ignore[union-attr]

    def pseudo(self) -> np.ndarray:
        """(samples,) sum over observed ends of log p(end | all other evidence), for hard evidence.

        With soft evidence each term is the log of the sum of f b, both normalised.
        """
        total = np.zeros(len(self))
        for i in np.flatnonzero(self.observed.any(axis=0)):
            meet = (self._message(2 * int(i)) * self._message(2 * int(i) + 1)).sum(axis=1)
            with np.errstate(divide="ignore"):
                total += np.where(self.observed[:, i], np.log(meet), 0.0)
        return total

    def settled_log_z(self) -> np.ndarray:
        """(samples,) log weight from what meets in every part, less what meets on every inner branch.

        Right once the messages are; relative to the normalised messages of the open ends.
        """
        w = self.graph.wiring
        total = np.zeros(len(self))
        with np.errstate(divide="ignore", invalid="ignore"):
            for u, part in enumerate(self.graph.parts):
                if isinstance(part, Diverter):
                    arms = w.arm_in[w.arm_start[u] : w.arm_start[u + 1]]
                    total += np.log(np.prod([self._message(int(d)) for d in arms], axis=0).sum(axis=1))
                else:
                    total += self.local(part.name)
            for i in range(len(self.graph.branches)):
                inner = int(w.tail[i] >= 0) + int(w.head[i] >= 0)
                if inner != 1:
                    meet = np.log((self._message(2 * i) * self._message(2 * i + 1)).sum(axis=1))
                    total += meet if inner == 0 else -meet
        return np.where(np.isnan(total), -np.inf, total)

    def __repr__(self) -> str:
        return f"Messages({len(self)} samples, {len(self.graph.branches)} branches)"


def started(wiring: NormalFormWiring, flat: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """A copy of messages where those not from open ends are replaced by given ones, normalised."""
    if start is None:
        return flat.copy()
    if np.shape(start) != flat.shape or not (np.asarray(start) >= 0).all():
        raise QueryError(f"start: expected {flat.shape} non-negative numbers, got shape {np.shape(start)}")
    made = float_array("start", start, error=QueryError, copy=True)
    edges = wiring.message_start
    for d in range(len(edges) - 1):
        piece = made[:, edges[d] : edges[d + 1]]
        piece /= np.maximum(piece.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    for d in wiring.open_messages:
        made[:, edges[d] : edges[d + 1]] = flat[:, edges[d] : edges[d + 1]]
    return made
