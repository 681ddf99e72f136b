"""Normal-form graphs as index arrays: which message enters and leaves where, and in which order.

Made once per structure. A graph with a cycle is refused here, with the cycle named: messages are exact on
forests alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.errors import ModelError
from ..core.variable import Variables
from ..kernels.normal_form import BLOCK, DIVERTER, SOURCE
from .normal_form_parts import Block, Diverter, Part, Source

__all__ = ["NormalFormWiring", "check_parts", "joined"]

OPEN = -1


@dataclass(frozen=True)
class NormalFormWiring:
    """Messages 2i and 2i + 1 belong to branch i, along its arrow and against it."""

    message_start: np.ndarray  # (2 branches + 1,) of the flat layout
    kind: np.ndarray  # (parts,)
    arm_start: np.ndarray  # (parts + 1,)
    arm_in: np.ndarray  # (arms,) message that enters the part there
    arm_out: np.ndarray  # (arms,) message that leaves the part there
    tail: np.ndarray  # (branches,) part the arrow leaves, -1 for an open end
    head: np.ndarray  # (branches,) part the arrow enters, -1 for an open end
    order: np.ndarray  # parts from the roots outwards
    towards: np.ndarray  # (parts,) arm that leads to the root
    roots: np.ndarray  # a branch per tree
    diameter: int  # synchronous steps after which no message changes any more

    @classmethod
    def of(cls, variables: Variables, parts: Sequence[Part]) -> NormalFormWiring:
        """Compile; refuses cycles."""
        n = len(variables)
        tail, head = np.full(n, OPEN), np.full(n, OPEN)
        arm_in: list[int] = []
        arm_out: list[int] = []
        arm_start = [0]
        for u, part in enumerate(parts):
            for name in part.inputs:
                i = variables.position(name)
                head[i] = u
                arm_in.append(2 * i)
                arm_out.append(2 * i + 1)
            for name in part.outputs:
                i = variables.position(name)
                tail[i] = u
                arm_in.append(2 * i + 1)
                arm_out.append(2 * i)
            arm_start.append(len(arm_in))
        kinds = {Block: BLOCK, Source: SOURCE, Diverter: DIVERTER}
        arms = np.array(arm_in, dtype=np.int64), np.array(arm_out, dtype=np.int64)
        starts = np.array(arm_start, dtype=np.int64)
        _refuse_cycles(variables, parts, tail, head)
        order, towards, roots = _root(len(parts), starts, arms[0], tail, head)
        sizes = np.repeat(variables.sizes, 2)
        return cls(
            message_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            kind=np.array([kinds[type(part)] for part in parts], dtype=np.int64),
            arm_start=starts,
            arm_in=arms[0],
            arm_out=arms[1],
            tail=tail,
            head=head,
            order=order,
            towards=towards,
            roots=roots,
            diameter=_steps(len(sizes), starts, *arms, order, towards),
        )

    @property
    def open_messages(self) -> np.ndarray:
        """Messages that come in at open ends."""
        return np.concatenate([2 * np.flatnonzero(self.tail < 0), 2 * np.flatnonzero(self.head < 0) + 1])


def check_parts(variables: Variables, parts: Sequence[Part]) -> None:
    """Refuse what does not fit together, cycles excepted."""
    names: set[str] = set()
    ends: dict[tuple[str, str], str] = {}
    tied: dict[str, Block | Source] = {}
    for part in parts:
        if not isinstance(part, (Block, Source, Diverter)):
            raise ModelError(f"parts: expected Source, Block or Diverter, got {part!r:.80}")
        if part.name in names:
            raise ModelError(f"part {part.name} is declared twice; give one of them another name")
        names.add(part.name)
        for side, arms in (("enters", part.inputs), ("leaves", part.outputs)):
            for name in arms:
                if name not in variables:
                    raise ModelError(f"part {part.name}: no branch named '{name}'; declare it first")
                if (name, side) in ends:
                    raise ModelError(
                        f"branch '{name}' {side} both {ends[name, side]} and {part.name}; "
                        "put a diverter there, with a branch for each"
                    )
                ends[name, side] = part.name
        _check_sizes(variables, part)
        if not isinstance(part, Diverter):
            other = tied.setdefault(part.parameter, part)
            if not np.array_equal(other.theta, part.theta) or other.fixed != part.fixed:
                raise ModelError(f"{other.name} and {part.name} are tied, but differ")


def joined(variables: Variables, parts: Sequence[Part]) -> dict[str, str]:
    """Branch -> the first branch that diverters make equal to it."""
    leader = {name: name for name in variables.names}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for part in parts:
        if isinstance(part, Diverter):
            arms = sorted((find(name) for name in part.inputs + part.outputs), key=variables.position)
            leader.update({name: arms[0] for name in arms})
    return {name: find(name) for name in variables.names}


def _check_sizes(variables: Variables, part: Part) -> None:
    sizes = [int(variables.sizes[variables.position(name)]) for name in part.inputs + part.outputs]
    if isinstance(part, Diverter):
        if len(set(sizes)) > 1:
            raise ModelError(f"diverter {part.name}: expected branches of one size, got sizes {sizes}")
        return
    expected = (1, *sizes) if isinstance(part, Source) else tuple(sizes)
    if part.theta.shape != expected:
        raise ModelError(f"{part.name}: expected a matrix of shape {expected}, got {part.theta.shape}")


def _refuse_cycles(variables: Variables, parts: Sequence[Part], tail: np.ndarray, head: np.ndarray) -> None:
    """Join parts branch by branch; the first branch between parts already joined closes a cycle."""
    around: list[list[tuple[int, int]]] = [[] for _ in parts]  # (branch, part at its other end)
    group = list(range(len(parts)))

    def leader(u: int) -> int:
        while group[u] != u:
            group[u] = group[group[u]]
            u = group[u]
        return u

    for i in range(len(variables)):
        u, v = int(tail[i]), int(head[i])
        if u < 0 or v < 0:
            continue
        if leader(u) == leader(v):
            steps = [*_path(around, u, v), (v, i)]
            walk = "".join(f"{parts[w].name} -[{variables.names[j]}]- " for w, j in steps)
            raise ModelError(
                f"branches: expected no cycle, got {walk}{parts[u].name}; "
                "messages are exact on forests only: join the variables of the cycle in a product space"
            )
        group[leader(u)] = leader(v)
        around[u].append((i, v))
        around[v].append((i, u))


def _path(around: list[list[tuple[int, int]]], u: int, v: int) -> list[tuple[int, int]]:
    """(part, branch to the next part) on the way from `u` to `v` in a forest."""
    came: dict[int, tuple[int, int]] = {v: (-1, -1)}
    queue = [v]
    for w in queue:  # grows while it is read
        for i, x in around[w]:
            if x not in came:
                came[x] = (i, w)
                queue.append(x)
    found = []
    while u != v:
        i, following = came[u]
        found.append((u, i))
        u = following
    return found


def _root(
    count: int, arm_start: np.ndarray, arm_in: np.ndarray, tail: np.ndarray, head: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parts of a forest from a root branch of each tree outwards, and the arm of each that leads back."""
    towards = np.full(count, -1, dtype=np.int64)
    seen = np.zeros(len(tail), dtype=bool)
    order: list[int] = []
    roots: list[int] = []
    for root in range(len(tail)):
        if seen[root]:
            continue
        roots.append(root)
        seen[root] = True
        queue = [(int(u), root) for u in (tail[root], head[root]) if u >= 0]
        for u, through in queue:  # grows while it is read
            branches = [int(d) // 2 for d in arm_in[arm_start[u] : arm_start[u + 1]]]
            towards[u] = branches.index(through)
            order.append(u)
            for i in branches:
                if not seen[i]:
                    seen[i] = True
                    beyond = int(head[i] if tail[i] == u else tail[i])
                    if beyond >= 0:
                        queue.append((beyond, i))
    return np.array(order, dtype=np.int64), towards, np.array(roots, dtype=np.int64)


def _steps(
    count: int,
    arm_start: np.ndarray,
    arm_in: np.ndarray,
    arm_out: np.ndarray,
    order: np.ndarray,
    towards: np.ndarray,
) -> int:
    """The longest chain of messages each of which needs the one before."""
    depth = np.zeros(count, dtype=np.int64)
    for u in order[::-1]:
        arms = slice(int(arm_start[u]), int(arm_start[u + 1]))
        others = np.delete(depth[arm_in[arms]], towards[u])
        depth[arm_out[arms][towards[u]]] = 1 + others.max(initial=0)
    for u in order:
        arms = slice(int(arm_start[u]), int(arm_start[u + 1]))
        entering = depth[arm_in[arms]]
        if len(entering) < 2:
            continue
        deepest = int(entering.argmax())
        behind = 1 + np.full(len(entering), entering[deepest])
        behind[deepest] = 1 + np.delete(entering, deepest).max()
        kept = depth[arm_out[arms][towards[u]]]
        depth[arm_out[arms]] = behind
        depth[arm_out[arms][towards[u]]] = kept
    return int(depth.max(initial=0))
