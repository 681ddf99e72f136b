"""Curves of learning beside a table: kept line by line, drawn at the end of every run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from _common import OUT

__all__ = ["draw_curves", "keep_curve"]


def keep_curve(name: str, label: str, epochs: Sequence[int], curves: Mapping[str, Sequence[float]]) -> None:
    """One more line of `<name>-curves.jsonl`."""
    OUT.mkdir(parents=True, exist_ok=True)
    told = {
        "label": label,
        "epochs": list(epochs),
        "curves": {k: list(map(float, v)) for k, v in curves.items()},
    }
    with (OUT / f"{name}-curves.jsonl").open("a") as file:
        file.write(json.dumps(told) + "\n")


def draw_curves(name: str, ylabel: str) -> None:
    """One panel per curve, one line per label, the last one kept of each; `<name>-curves.png`."""
    from credo.plotting import plot_curves
    from credo.plotting.style import new_figure

    file = OUT / f"{name}-curves.jsonl"
    if not file.is_file():
        return
    found: dict[str, dict[str, tuple[Any, Any]]] = {}
    for line in file.read_text().splitlines():
        told = json.loads(line)
        for curve, values in told["curves"].items():
            found.setdefault(curve, {})[told["label"]] = (told["epochs"], values)
    figure = new_figure(4.5 * len(found), 3.4)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (curve, lines) in zip(panels, found.items(), strict=True):
        for label, (epochs, values) in lines.items():
            plot_curves({label: values}, x=epochs[: len(values)], ylabel=ylabel, ax=axes)
            axes.lines[-1].set_color(f"C{len(axes.lines) - 1}")
        axes.set_title(curve, fontsize=9)
        axes.legend(fontsize=5, frameon=False)
    figure.savefig(OUT / f"{name}-curves.png")
