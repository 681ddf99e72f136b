"""What all pictures share: how a figure is made, and its colours.

The categorical colours are the eight of Okabe and Ito, which stay apart under the common
forms of colour blindness; the first ones used are also apart in grey.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..core.errors import MissingExtraError

__all__ = ["COLOURS", "FAINT", "INK", "new_figure", "require", "tidy"]

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
INK = "#222222"  # text and outlines
FAINT = "#B8B8B8"  # grid lines and edges that should not shout


def require(module: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"pictures need the package '{package}', which is not installed; run: pip install 'credo[plot]'"
        ) from None


def new_figure(width: float, height: float, *, arranged: bool = True) -> Any:
    """An empty figure of this size in inches; `arranged` keeps panels and labels apart."""
    layout = "constrained" if arranged else "none"
    figure = require("matplotlib.figure").Figure(figsize=(width, height), dpi=150, layout=layout)
    if arranged:
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    return figure


def tidy(axes: Any) -> None:
    """Remove what is not information: the top and right frame lines."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8)
