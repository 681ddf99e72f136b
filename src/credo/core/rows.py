"""What is known about hidden rows: one array per hidden variable, cut into sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from .display import Listing, Shown

__all__ = ["Rows"]


class Rows(Shown, Mapping[str, Any]):
    """Name of a hidden variable -> an array with one row per step; a list of those for several sequences."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = dict(parts)

    @classmethod
    def of(cls, rows: np.ndarray, begin: np.ndarray, shape: tuple[int, ...], name: str) -> Rows:
        """Probabilities (rows, states) or states (rows,); with a `shape` a state stands for several chains.

        Parameters
        ----------
        rows
            Of all sequences, one after the other.
        begin
            Sequence i owns the rows begin[i]:begin[i+1].
        shape
            States of each of several chains; empty for one.
        name
            Of the hidden variable; those of several chains are numbered.
        """
        if not shape:
            return cls.of_parts([rows], begin, name, is_chain=True)
        if rows.ndim == 1:
            return cls.of_parts(list(np.unravel_index(rows, shape)), begin, name)
        joint, axes = rows.reshape(-1, *shape), range(len(shape))
        sums = [joint.sum(axis=tuple(a + 1 for a in axes if a != m)) for m in axes]
        return cls.of_parts(sums, begin, name)

    @classmethod
    def of_parts(
        cls, parts: list[np.ndarray], begin: np.ndarray, name: str, *, is_chain: bool = False, axis: int = 0
    ) -> Rows:
        """One array per hidden chain, whose rows lie along `axis`."""
        names = [name] if is_chain else [f"{name}{m}" for m in range(len(parts))]
        one = len(begin) == 2
        cut = [part if one else np.split(part, begin[1:-1], axis=axis) for part in parts]
        return cls(dict(zip(names, cut, strict=True)))

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def _shown(self) -> Iterable[str | Listing]:
        for name, part in self._parts.items():
            shapes = [p.shape for p in part] if isinstance(part, list) else part.shape
            yield f"{name}: {f'{len(shapes)} sequences' if isinstance(part, list) else f'array {shapes}'}"
