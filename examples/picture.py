"""The picture on the first page: what is believed about a patient before and after the evidence.

Run it with `python examples/picture.py`; it writes `docs/images/asia.png`.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

import credo
from credo.plotting import plot_model

OUT = Path(__file__).resolve().parents[1] / "docs" / "images" / "asia.png"
EVIDENCE = {"asia": "yes", "dysp": "yes"}


def main() -> None:
    model = credo.datasets.asia()
    figure = Figure(figsize=(10, 4.7), layout="constrained")
    stages = {"before": {}, "back from Asia, short of breath": EVIDENCE}
    for axes, (title, evidence) in zip(figure.subplots(1, 2), stages.items(), strict=True):
        plot_model(model, evidence=evidence, beliefs=credo.infer(model, evidence=evidence), ax=axes)
        axes.set_title(title, fontsize=10, fontweight="bold")
    figure.savefig(OUT, dpi=150)
    print(f"wrote {OUT.name}, {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
