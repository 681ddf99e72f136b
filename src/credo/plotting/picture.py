"""A figure that notebooks show by themselves. Importing this file imports Matplotlib."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

__all__ = ["Picture"]

MOST_PIXELS = 1800  # of the longer side on a screen; files get the full resolution


class Picture(Figure):
    """A Matplotlib figure without pyplot: notebooks show it when it is the value of a cell."""

    def _repr_png_(self) -> bytes:
        """The picture as notebooks ask for it, where no backend has told them how to show figures."""
        inches = max(*self.get_size_inches())
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=min(self.dpi, MOST_PIXELS / inches))
        return buffer.getvalue()
