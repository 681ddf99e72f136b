"""How answers, models and tables look: aligned text in terminals, HTML in notebooks.

What is shown is described once, as parts: sentences and `Listing`s. `Shown` makes both forms of them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .errors import MissingExtraError

__all__ = [
    "LIMIT",
    "WIDTH",
    "Axis",
    "Listing",
    "Share",
    "Shown",
    "align",
    "beyond",
    "data_frame",
    "finite",
    "grid",
    "html_of",
    "numbers",
    "shares",
    "text_of",
    "told",
]

LIMIT = 40  # rows shown of anything; a line below says how many there are beyond
WIDTH = 100  # characters of a line that is still easily read
_ACROSS = 8  # states that still stand side by side in a grid


class Share(str):
    """A cell of which notebooks show the probability as a bar behind the text."""

    part: float  # between 0 and 1

    def __new__(cls, text: str, part: float) -> Share:
        """The text with its bar."""
        made = super().__new__(cls, text)
        made.part = part
        return made


@dataclass(frozen=True)
class Listing:
    """Rows of cells under titles; without titles where the cells speak for themselves."""

    rows: Sequence[Sequence[str]]  # one cell per column
    right: Sequence[bool]  # which columns are flush right
    header: Sequence[str] = ()  # titles of the columns
    title: str = ""  # a line above
    more: str = ""  # a line below about what is left out
    gap: int = 2  # spaces between columns of text

    def text(self) -> str:
        """The table as lines of text with aligned columns, title above and remark below."""
        lines = [self.title] if self.title else []
        lines += [align(self.header, self.rows, self.right, self.gap)] if self.header or self.rows else []
        return "\n".join([*lines, *([self.more] if self.more else [])])

    def html(self) -> str:
        """The table as an HTML element, all texts escaped."""
        from html import escape

        found = ["<table>"]
        if self.title:
            found.append(f'<caption style="text-align:left">{escape(self.title)}</caption>')
        if self.header:
            found.append(f"<thead>{self._row(self.header, 'th')}</thead>")
        found.append(f"<tbody>{''.join(self._row(row, 'td') for row in self.rows)}</tbody></table>")
        return "".join([*found, f"<div>{escape(self.more)}</div>" if self.more else ""])

    def _row(self, cells: Sequence[str], tag: str) -> str:
        made = (_cell(cell, tag, flush) for cell, flush in zip(cells, self.right, strict=True))
        return f"<tr>{''.join(made)}</tr>"


def _cell(cell: str, tag: str, flush: bool) -> str:
    from html import escape

    style = f"text-align:{'right' if flush else 'left'}"
    if isinstance(cell, Share):
        end = f"{100 * min(max(cell.part, 0.0), 1.0):.1f}%"
        colour = "rgba(70,130,180,.35)"  # seen on light and on dark pages
        style += f";background:linear-gradient(to right,{colour} {end},transparent {end})"
    return f'<{tag} style="{style}">{escape(cell)}</{tag}>'


def align(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], gap: int = 2) -> str:
    """Columns padded to a common width; `right[k]` puts column k flush right.

    Examples
    --------
    >>> from credo.core.display import align
    >>> print(align(["name", "states"], [["rain", "2"], ["weather", "12"]], [False, True]))
    name     states
    rain          2
    weather      12
    """
    lines = [*([list(header)] if header else []), *map(list, rows)]
    widths = [max((len(line[k]) for line in lines), default=0) for k in range(len(right))]
    padded = (
        (" " * gap).join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def text_of(parts: Iterable[str | Listing]) -> str:
    """The parts below each other."""
    return "\n".join(part if isinstance(part, str) else part.text() for part in parts)


def html_of(parts: Iterable[str | Listing]) -> str:
    """The parts below each other, everything escaped; nothing is loaded from elsewhere."""
    from html import escape

    found = []
    for part in parts:
        if isinstance(part, str):
            found += [f"<div>{escape(line)}</div>" for line in part.splitlines()]
        else:
            found.append(part.html())
    return f"<div>{''.join(found)}</div>"


class Shown(abc.ABC):
    """Something that is printed as text and shown in notebooks, both made of the same parts."""

    @abc.abstractmethod
    def _shown(self) -> Iterable[str | Listing]:
        """Sentences and listings, from top to bottom."""

    def __repr__(self) -> str:
        return text_of(self._shown())

    def _repr_html_(self) -> str:
        return html_of(self._shown())


def numbers(values: Any, digits: int = 4) -> list[str]:
    """Numbers with equally many decimals, as few as show them to `digits`; tiny ones by their magnitude.

    Examples
    --------
    >>> from credo.core.display import numbers
    >>> numbers([0.25, 0.75]), numbers([1 / 3, 2 / 3]), numbers([1e-9, 1.0])
    (['0.25', '0.75'], ['0.3333', '0.6667'], ['1.0e-09', '1.0'])
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    tiny = (values != 0) & (np.abs(values) < 0.5 * 10.0**-digits)
    plain = np.round(values[~tiny & np.isfinite(values)], digits)
    few = next((d for d in range(1, digits) if np.array_equal(np.round(plain, d), plain)), max(digits, 1))
    return [f"{v:.1e}" if small else f"{v:z.{few}f}" for v, small in zip(values, tiny, strict=True)]


def told(value: Any) -> str:
    """A label, a number or a vector, numbers to five digits."""
    if isinstance(value, str):
        return value
    return f"{float(value):.5g}" if np.ndim(value) == 0 else np.array2string(np.asarray(value), precision=5)


class Axis(NamedTuple):
    """What stands along one axis of a table."""

    name: str
    labels: Sequence[str]


def shares(values: np.ndarray) -> list[str]:
    """Cells of probabilities."""
    flat = np.ravel(values)
    return [Share(text, float(part)) for text, part in zip(numbers(flat), flat, strict=True)]


def grid(
    axes: Sequence[Axis], values: np.ndarray, show: Callable[[np.ndarray], list[str]], what: str
) -> Listing:
    """A table of numbers with names: the last axis side by side if it is short, all others downwards.

    Parameters
    ----------
    axes
        One per axis of `values`.
    values
        The numbers.
    show
        Makes cells of numbers; it is given those that are shown.
    what
        What a number is, the title of the column where all axes go downwards.
    """
    across = len(axes) > 1 and len(axes[-1].labels) <= _ACROSS
    down = axes[:-1] if across else axes
    heads = [f"{axes[-1].name}={label}" for label in axes[-1].labels] if across else [what]
    shape = [len(axis.labels) for axis in down]
    count = int(np.prod(shape, dtype=np.int64))
    cells = show(values.reshape(count, len(heads))[:LIMIT])
    rows = []
    for k in range(min(count, LIMIT)):
        where = np.unravel_index(k, shape) if down else ()
        labels = (axis.labels[int(i)] for axis, i in zip(down, where, strict=True))
        rows.append([*labels, *cells[k * len(heads) : (k + 1) * len(heads)]])
    right = [False] * len(down) + [True] * len(heads)
    return Listing(rows, right, [*(axis.name for axis in down), *heads], more=beyond(count, "rows"))


def beyond(count: int, what: str, limit: int = LIMIT) -> str:
    """A line about what is beyond the limit, empty if nothing is."""
    return f"... and {count - limit} more {what}" if count > limit else ""


def data_frame(columns: dict[str, Any]) -> Any:
    """A pandas data frame of columns; a pair (labels, indices) is a categorical column."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError('to_frame needs pandas: pip install "credo[data]"') from None
    return pd.DataFrame(
        {
            name: pd.Categorical.from_codes(column[1], categories=list(column[0]))
            if isinstance(column, tuple)
            else column
            for name, column in columns.items()
        }
    )


def finite(value: Any) -> Any:
    """Infinite numbers as text ("inf", "-inf"), because JSON knows none; anything else unchanged."""
    return str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
