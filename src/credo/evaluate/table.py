"""The printed form of every table of the library: aligned plain text, and values JSON can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["align", "finite"]


def align(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Columns padded to a common width; `right[k]` puts column k flush right.

    Examples
    --------
    >>> from credo.evaluate.table import align
    >>> print(align(["name", "states"], [["rain", "2"], ["weather", "12"]], [False, True]))
    name     states
    rain          2
    weather      12
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    padded = (
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def finite(value: Any) -> Any:
    """Infinite numbers as text ("inf", "-inf"), because JSON knows none; anything else unchanged."""
    return str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
