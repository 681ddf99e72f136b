"""How variables look in a drawing: dots, ovals with a name, boxes with a name and bars of beliefs.

Each kind knows its `size` in inches and paints itself; `scale` is inches on paper per inch of the drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ..core.belief import Density
from .style import COLOURS, FAINT, INK, require

__all__ = ["BeliefBox", "DotMark", "Node", "Oval", "mixed_colour", "palette", "rows_of"]

CHARACTER = 0.078  # inches per character of a name
SMALL_CHARACTER = 0.062  # of a state
HEIGHT = 0.34  # of an oval, and of the name in a box
ROW = 0.17  # height of a row of a box
BAR = 0.62  # length of a bar for probability one
NUMBER = 0.36  # width of the number beside it
DOT = 0.11
MOST_ROWS = 6
LONGEST_STATE = 14  # characters
PLAIN = "#DCEBF7"
DARK = "#5A5A5A"
PALE = 0.93  # grey of what is undecided

Row = tuple[str, float | None]  # a state and its probability, or a text alone


class Node(Protocol):
    """What a drawing asks of a variable."""

    norm: ClassVar[float]  # in which its rim is the unit circle: 2 for ovals, infinity for boxes

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""

    def paint(self, axes: Any, x: float, y: float, scale: float) -> None:
        """Draw it around this point."""


@dataclass(frozen=True)
class DotMark:
    """A variable among hundreds."""

    norm: ClassVar[float] = 2  # its rim is round
    is_observed: bool  # drawn with a dark rim
    colour: Any = None  # None where no beliefs are shown
    size: tuple[float, float] = (DOT, DOT)  # width and height

    def paint(self, axes: Any, x: float, y: float, scale: float) -> None:
        """A disc; the rim of an observed variable is thick and dark."""
        _oval(axes, (x, y), self.size, self.is_observed, self.colour, 0.6 * scale)


@dataclass(frozen=True)
class Oval:
    """A variable with its name."""

    norm: ClassVar[float] = 2  # its rim is round
    label: str  # the name
    is_observed: bool  # drawn with a dark rim
    colour: Any = None  # None where no beliefs are shown

    @property
    def size(self) -> tuple[float, float]:
        """Room for the name."""
        return max(HEIGHT, CHARACTER * len(self.label) + 0.26), HEIGHT

    def paint(self, axes: Any, x: float, y: float, scale: float) -> None:
        """An oval around the name."""
        face = _oval(axes, (x, y), self.size, self.is_observed, self.colour, scale)
        _write(axes, x, y, self.label, 8.5 * scale, color=_ink_on(face), ha="center")


@dataclass(frozen=True)
class BeliefBox:
    """A variable with its name and a row per state: label, bar, number."""

    norm: ClassVar[float] = np.inf  # its rim is a rectangle
    label: str  # the name
    is_observed: bool  # drawn with a dark rim
    rows: tuple[Row, ...]  # what is shown below the name

    @property
    def size(self) -> tuple[float, float]:
        """Room for the name and the rows."""
        bars = self._state_width() + BAR + NUMBER if any(p is not None for _, p in self.rows) else 0.0
        alone = max((SMALL_CHARACTER * len(text) for text, p in self.rows if p is None), default=0.0)
        width = max(CHARACTER * len(self.label), bars, alone) + 0.2
        return width, HEIGHT + ROW * len(self.rows) + 0.06

    def _state_width(self) -> float:
        return (
            max((SMALL_CHARACTER * len(text) for text, p in self.rows if p is not None), default=0.0) + 0.08
        )

    def paint(self, axes: Any, x: float, y: float, scale: float) -> None:
        """A box; the first state is on top, the bars begin in one column."""
        rectangle = require("matplotlib.patches").Rectangle
        width, height = self.size
        left, top = x - width / 2, y + height / 2
        rim = INK if self.is_observed else COLOURS[0]
        band = DARK if self.is_observed else PLAIN
        axes.add_patch(
            rectangle((left, top - height), width, height, facecolor="white", edgecolor="none", zorder=3)
        )
        axes.add_patch(rectangle((left, top - HEIGHT + 0.06), width, HEIGHT - 0.06, facecolor=band, zorder=3))
        axes.add_patch(
            rectangle(
                (left, top - height), width, height, fill=False, edgecolor=rim, linewidth=scale, zorder=3.2
            )
        )
        _write(axes, x, top - 0.14, self.label, 8.5 * scale, color=_ink_on(band), ha="center")
        for k, row in enumerate(self.rows):
            self._paint_row(axes, left + 0.1, top - HEIGHT - ROW * (k + 0.5), row, scale)

    def _paint_row(self, axes: Any, left: float, y: float, row: Row, scale: float) -> None:
        rectangle = require("matplotlib.patches").Rectangle
        text, probability = row
        _write(axes, left, y, text, 7 * scale, color=INK, ha="left")
        if probability is None:
            return
        start = left + self._state_width()
        for length, colour in ((BAR, "#EEEEEE"), (BAR * probability, COLOURS[0])):
            axes.add_patch(rectangle((start, y - 0.05), length, 0.1, facecolor=colour, zorder=3.1))
        number = f"{100 * probability:.1f}"
        _write(axes, start + BAR + NUMBER, y, number, 7 * scale, color=INK, ha="right")


def rows_of(states: Sequence[str], belief: Any) -> tuple[Row, ...]:
    """What a box says: a bar per state, the rarest ones together; mean and deviation of a real variable."""
    if isinstance(belief, Density):
        pairs = list(zip(np.atleast_1d(belief.mean), np.atleast_1d(belief.sd), strict=True))
        told = [f"{mean:.4g} ± {sd:.2g}" if sd > 0 else f"{mean:.4g}" for mean, sd in pairs]
        rest = [f"and {len(told) - MOST_ROWS + 1} more"] if len(told) > MOST_ROWS else []
        return tuple((text, None) for text in told[: MOST_ROWS - len(rest)] + rest)
    values = np.asarray(belief, dtype=np.float64)
    shown = list(range(len(values)))
    others: list[Row] = []
    if len(values) > MOST_ROWS:
        shown = sorted(np.argsort(-values, kind="stable")[: MOST_ROWS - 1].tolist())
        missing = len(values) - len(shown)
        others = [(f"{missing} others", float(values.sum() - values[shown].sum()))]
    return (*((_short(states[k]), float(values[k])) for k in shown), *others)


def palette(count: int) -> np.ndarray:
    """A colour (red, green, blue) per state; the categorical ones while they last."""
    if count < len(COLOURS):
        return np.array([require("matplotlib.colors").to_rgb(colour) for colour in COLOURS[:count]])
    return np.asarray(require("matplotlib").colormaps["viridis"](np.linspace(0, 1, count))[:, :3])


def mixed_colour(belief: Any, count: int) -> np.ndarray | None:
    """The colours of the first of `count` states mixed by their probabilities, pale where undecided.

    Real variables have none.
    """
    if isinstance(belief, Density):
        return None
    values = np.asarray(belief, dtype=np.float64)
    sure = (values.max() - 1 / len(values)) / (1 - 1 / len(values)) if len(values) > 1 else 1.0
    return np.clip(sure * (values @ palette(count)[: len(values)]) + (1 - sure) * PALE, 0, 1)


def _short(state: str) -> str:
    return state if len(state) <= LONGEST_STATE else f"{state[: LONGEST_STATE - 1]}…"


def _oval(
    axes: Any, centre: tuple[float, float], size: tuple[float, float], seen: bool, colour: Any, line: float
) -> Any:
    """A filled oval; returns its colour. Beliefs keep theirs when observed, and get a dark rim."""
    face = colour if colour is not None else DARK if seen else PLAIN
    rim = INK if seen else COLOURS[0] if colour is None else FAINT
    ellipse = require("matplotlib.patches").Ellipse
    thick = 2 * line if seen and colour is not None else line
    axes.add_patch(ellipse(centre, *size, facecolor=face, edgecolor=rim, linewidth=thick, zorder=3))
    return face


def _ink_on(face: Any) -> str:
    red, green, blue = require("matplotlib.colors").to_rgb(face)
    return INK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.45 else "white"


def _write(axes: Any, x: float, y: float, text: str, size: float, **looks: Any) -> None:
    axes.text(x, y, text, va="center_baseline", fontsize=size, zorder=4, **looks)
