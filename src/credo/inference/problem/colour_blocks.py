"""Variables that share no factor, and the factors around them: what can be updated at once.

The variables to update are coloured so that no factor holds two of one colour; the variables of a colour are
a block. Blocks are filled up to one length, as are the lists of factors around them, so that one program
treats every block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.wiring import starts_of
from ...kernels.colouring import greedy_colours

__all__ = ["ColourBlocks", "Meeting", "colour_blocks"]


@dataclass(frozen=True)
class Meeting:
    """Where the variables of the blocks are on one axis of one group of factors."""

    group: int  # position in `graph.batches`
    axis: int  # of the scope
    rows: np.ndarray  # (blocks, most) factors of the group; 0 where filled up
    slots: np.ndarray  # (blocks, most) place of the variable in its block; the block's length where filled up


@dataclass(frozen=True)
class ColourBlocks:
    """Variables to update, block by block."""

    members: np.ndarray  # (blocks, length) positions; the number of variables where filled up
    meetings: tuple[Meeting, ...]  # one for each axis of a group that holds some of them


def colour_blocks(graph: FactorGraph, chosen: np.ndarray) -> ColourBlocks:
    """Blocks of the variables flagged in `chosen`.

    Examples
    --------
    >>> import numpy as np
    >>> import credo
    >>> from credo.inference.problem.colour_blocks import colour_blocks
    >>> chain = credo.GaussianNet([[2, 1, 0], [1, 2, 1], [0, 1, 2]]).to_factor_graph()
    >>> colour_blocks(chain, np.ones(3, dtype=bool)).members.tolist()
    [[0, 2], [1, 3]]
    """
    n = len(graph.variables)
    colour = np.full(n, -1, dtype=np.int64)
    colour[chosen] = _colours(graph, np.flatnonzero(chosen))
    count = int(colour.max(initial=-1)) + 1
    length = int(np.bincount(colour[chosen], minlength=1).max(initial=0))
    members = np.full((count, length), n, dtype=np.int64)
    slot = np.zeros(n, dtype=np.int64)
    for c in range(count):
        mine = np.flatnonzero(colour == c)
        members[c, : len(mine)] = mine
        slot[mine] = np.arange(len(mine))
    meetings = []
    for g, group in enumerate(graph.batches):
        for axis in range(group.scopes.shape[1]):
            met = colour[group.scopes[:, axis]]
            if (met >= 0).any():
                meetings.append(_meeting(g, axis, met, slot[group.scopes[:, axis]], count, length))
    return ColourBlocks(members, tuple(meetings))


def _meeting(group: int, axis: int, met: np.ndarray, slot: np.ndarray, count: int, length: int) -> Meeting:
    most = int(np.bincount(met[met >= 0]).max())
    rows = np.zeros((count, most), dtype=np.int64)
    slots = np.full((count, most), length, dtype=np.int64)
    for c in range(count):
        mine = np.flatnonzero(met == c)
        rows[c, : len(mine)] = mine
        slots[c, : len(mine)] = slot[mine]
    return Meeting(group, axis, rows, slots)


def _colours(graph: FactorGraph, chosen: np.ndarray) -> np.ndarray:
    """A colour for each chosen variable; those that share a factor differ."""
    local = np.full(len(graph.variables), -1, dtype=np.int64)
    local[chosen] = np.arange(len(chosen))
    items = [np.sort(local[scope][local[scope] >= 0]) for scope in graph.scopes]
    item = np.concatenate([*items, np.empty(0, dtype=np.int64)])
    place = np.repeat(np.arange(len(items)), [len(i) for i in items])
    by_item = np.argsort(item, kind="stable")
    colour = np.empty(len(chosen), dtype=np.int64)
    greedy_colours(
        starts_of(np.bincount(item, minlength=len(chosen))),
        place[by_item].astype(np.int64),
        starts_of([len(i) for i in items]),
        item,
        colour,
    )
    return colour
