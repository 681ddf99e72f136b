"""A cold house in seven short scenes: describe, ask, explain, weigh, compare, sample, draw.

Run it with `make demo`, or `python examples/demo.py`. Pictures go to `out/`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import credo
from credo.plotting import plot_beliefs, plot_model

FAULTS = [
    "refrigerant_leak",
    "compressor_worn",
    "coil_dirty",
    "fan_fault",
    "valve_stuck",
    "defrost_fault",
    "pump_worn",
    "filter_clogged",
    "pipe_leak",
    "sensor_drift",
    "power_failure",
    "control_fault",
]
# What the owner says, what the engineer sees, what the gauge reads.
FOUND = {"cold_rooms": "yes", "ice_on_unit": "yes", "suction_pressure": "low"}
METHODS = ["junction-tree", "wmb", "bp", "trw", "mean-field"]
OUT = Path("out")
SAMPLES = 2_000

console = Console(width=110, highlight=False)


def main() -> None:
    model = describe()
    stages = ask(model)
    explain(model)
    weigh(model)
    compare(model)
    sample(model, stages[-1])
    draw(model, stages[0], stages[-1])


def scene(number: int, title: str, call: str) -> None:
    console.print(f"\n[bold]{number}. {title}[/bold]")
    console.print(f"   >>> {call}", style="cyan", markup=False)


def show(item: object) -> None:
    for line in str(item).splitlines():
        console.print(f"   {line}", markup=False, soft_wrap=True)


def describe() -> credo.BayesNet:
    scene(1, "Why does a heat pump not heat?", "model = credo.datasets.heating()")
    model = credo.datasets.heating()
    show(f"{len(model.variables)} variables, {len(FAULTS)} of them faults; {len(model.edges)} edges")
    return model


def ask(model: credo.BayesNet) -> list[credo.Result]:
    scene(2, "Three findings, one after the other", "credo.infer(model, evidence={...})")
    found = list(FOUND.items())
    stages = [credo.infer(model, evidence=dict(found[:k])) for k in range(len(found) + 1)]
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("fault", "nothing known", *(f"+ {name}\n= {state}" for name, state in found), ""):
        table.add_column(title, justify="right" if title not in ("fault", "") else "left")
    for name in sorted(FAULTS, key=lambda name: -stages[-1].marginals[name]["yes"])[:6]:
        shares = [stage.marginals[name]["yes"] for stage in stages]
        table.add_row(name, *(f"{p:.1%}" for p in shares), bar(shares[-1]))
    console.print(table)
    # A Bayesian network has Z = 1, so what is left given evidence is the evidence's probability.
    chance = np.exp(float(stages[-1].log_z))
    show(f"By {stages[-1].algorithm}; the findings together have probability {chance:.4f}.")
    return stages


def explain(model: credo.BayesNet) -> None:
    scene(3, "The most likely diagnosis (marginal MAP)", "credo.infer(model, evidence=..., maximise=faults)")
    best = credo.infer(model, evidence=FOUND, maximise=FAULTS)
    broken = [name for name in FAULTS if best.assignment[name] == "yes"]
    show(f"{', '.join(broken) or 'nothing'} is at fault, all else is sound; log value {best.log_z}")


def weigh(model: credo.BayesNet) -> None:
    scene(
        4,
        "What a thermometer on the gas line would tell",
        'credo.query(model, "refrigerant_leak", given="gas_temperature", evidence=...)',
    )
    show(credo.query(model, "refrigerant_leak", given="gas_temperature", evidence=FOUND))


def compare(model: credo.BayesNet) -> None:
    scene(5, "Exact and approximate methods, asked the same", "credo.compare(model, [...], evidence=...)")
    show(credo.compare(model, METHODS, evidence=FOUND))


def sample(model: credo.BayesNet, exact: credo.Result) -> None:
    scene(6, "Exact samples agree", f"credo.sample(model, {SAMPLES}, evidence=..., seed=1)")
    samples = credo.sample(model, SAMPLES, evidence=FOUND, seed=1)
    for name in ("refrigerant_leak", "coil_dirty", "defrost_fault"):
        share, p = float((samples[name] == "yes").mean()), exact.marginals[name]["yes"]
        spread = float(np.sqrt(p * (1 - p) / SAMPLES))
        show(f"{name:<17} sampled {share:.4f}   exact {p:.4f}   standard error {spread:.4f}")


def draw(model: credo.BayesNet, before: credo.Result, after: credo.Result) -> None:
    scene(7, "Pictures", "plot_model(model, evidence=..., beliefs=result)")
    OUT.mkdir(exist_ok=True)
    plot_model(model, evidence=FOUND, beliefs=after).savefig(OUT / "heating.png")
    plot_beliefs(before, FAULTS, after, labels=("before", "after")).savefig(OUT / "faults.png")
    show(f"{OUT / 'heating.png'} and {OUT / 'faults.png'}")


def bar(share: float) -> str:
    return f"[blue]{'█' * round(16 * share)}[/blue][bright_black]{'░' * (16 - round(16 * share))}[/]"


if __name__ == "__main__":
    main()
