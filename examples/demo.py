"""A chest clinic in seven short scenes: load, ask, explain, compare, sample, draw.

Run it with `make demo`, or `python examples/demo.py`. Pictures go to `out/`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import credo
from credo.plotting import plot_beliefs, plot_model

WORDS = {
    "asia": "visited Asia",
    "tub": "tuberculosis",
    "smoke": "smokes",
    "lung": "lung cancer",
    "bronc": "bronchitis",
    "either": "tuberculosis or cancer",
    "xray": "abnormal X-ray",
    "dysp": "short of breath",
}
EVIDENCE = {"asia": "yes", "dysp": "yes"}
OUT = Path("out")
SAMPLES = 20_000

console = Console(width=100, highlight=False)


def main() -> None:
    model = load()
    before, after = ask(model)
    explain(model)
    compare(model)
    sample(model, after)
    draw(model, before, after)


def scene(number: int, title: str, call: str) -> None:
    console.print(f"\n[bold]{number}. {title}[/bold]")
    console.print(f"   >>> {call}", style="cyan", markup=False)


def load() -> credo.BayesNet:
    scene(1, "Load a network from a file", 'model = credo.load("asia.bif")')
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "asia.bif"
        credo.save(credo.datasets.asia(), path)
        model = credo.load(path)
    graph = model.to_factor_graph()
    console.print(
        f"   {len(graph.variables)} variables, {graph.n_factors} tables, {len(graph.log_tables)} numbers"
    )
    return model


def ask(model: credo.BayesNet) -> tuple[credo.Result, credo.Result]:
    scene(
        2,
        "A patient is back from Asia and short of breath",
        'credo.infer(model, evidence={"asia": "yes", "dysp": "yes"})',
    )
    before = credo.infer(model)
    after = credo.infer(model, evidence=EVIDENCE)
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("", "before", "", "after", ""):
        table.add_column(title, justify="right" if title else "left")
    for name, words in WORDS.items():
        p, q = before.marginal(name)["yes"], after.marginal(name)["yes"]
        style = "dim" if name in EVIDENCE else ""
        table.add_row(words, f"{p:.3f}", bar(p, "blue"), f"{q:.3f}", bar(q, "yellow"), style=style)
    console.print(table)
    assert before.log_z is not None and after.log_z is not None
    # A Bayesian network has Z = 1, so what is left given evidence is the evidence's probability.
    console.print(
        f"   Answered by {after.algorithm}. Probability of the evidence: {np.exp(after.log_z.value):.6f}"
    )
    return before, after


def explain(model: credo.BayesNet) -> None:
    scene(3, "The one most likely story (MAP)", 'credo.infer(model, evidence=..., maximise="all")')
    best = credo.infer(model, evidence=EVIDENCE, maximise="all")
    assert best.assignment is not None and best.log_z is not None
    found = [WORDS[name] for name, state in best.assignment.items() if state == "yes"]
    console.print(f"   {', '.join(found)}; log value {best.log_z.value:.4f}")

    diseases = ["tub", "lung", "bronc"]
    scene(
        4,
        "The most likely diagnosis (marginal MAP)",
        f"credo.infer(model, evidence=..., maximise={diseases})",
    )
    best = credo.infer(model, evidence=EVIDENCE, maximise=diseases)
    assert best.assignment is not None and best.log_z is not None
    words = ", ".join(f"{WORDS[name]}: {best.assignment[name]}" for name in diseases)
    console.print(f"   {words}; log value {best.log_z.value:.4f}")

    scene(5, "What an X-ray would tell", 'credo.query(model, "lung", given="xray", evidence=...)')
    joint = credo.query(model, "lung", given="xray", evidence=EVIDENCE)
    for words, state in (("normal", "no"), ("abnormal", "yes")):
        console.print(f"   lung cancer if the X-ray is {words:<8}  {joint['yes', state]:.4f}")


def compare(model: credo.BayesNet) -> None:
    scene(6, "Every method on the same question", "credo.compare(model, evidence=...)")
    for line in str(credo.compare(model, evidence=EVIDENCE)).splitlines():
        console.print(f"   {line}", markup=False, soft_wrap=True)


def sample(model: credo.BayesNet, exact: credo.Result) -> None:
    scene(7, "Exact samples agree", f"credo.sample(model, {SAMPLES}, evidence=..., seed=0)")
    samples = credo.sample(model, SAMPLES, evidence=EVIDENCE, seed=0)
    for name in ("tub", "bronc", "xray"):
        share, p = float(samples.column(name).mean()), exact.marginal(name)["yes"]
        spread = float(np.sqrt(p * (1 - p) / SAMPLES))
        console.print(
            f"   {WORDS[name]:<15} sampled {share:.4f}  exact {p:.4f}  (standard error {spread:.4f})"
        )


def draw(model: credo.BayesNet, before: credo.Result, after: credo.Result) -> None:
    OUT.mkdir(exist_ok=True)
    plot_model(model, evidence=EVIDENCE).savefig(OUT / "asia.png")
    plot_beliefs(before, compare=after, labels=("before", "after")).savefig(OUT / "beliefs.png")
    console.print(f"\n[bold]Pictures[/bold]: {OUT / 'asia.png'} and {OUT / 'beliefs.png'}")


def bar(share: float, colour: str) -> str:
    return f"[{colour}]{'█' * round(16 * share)}[/{colour}][bright_black]{'░' * (16 - round(16 * share))}[/]"


if __name__ == "__main__":
    main()
