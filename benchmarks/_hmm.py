"""Hidden Markov models beside hmmlearn's C++, in one run.

    python benchmarks/hmm.py [--quick] [--seconds 120]

Every case runs in a process of its own per library, one thread each, best of repeats: forward-backward with
marginals, Viterbi, and ten iterations of Baum-Welch from the same start. hmmlearn has two implementations,
"log" (its default) and "scaling" (faster, may underflow); both are shown. Differences of log-likelihoods,
marginals and learned parameters between the libraries are printed.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import common
import numpy as np

LIBRARIES = ("credo", "hmmlearn-log", "hmmlearn-scaling")
TASKS = ("forward-backward", "viterbi", "baum-welch")
LAYOUTS = {"long": [20_000], "many": [50] * 400, "short": [5] * 4000}
ITERATIONS, DIMENSION, SYMBOLS = 10, 4, 32


def parameters(kind: str, states: int) -> dict[str, np.ndarray]:
    """A sticky chain with overlapping emissions; the same numbers for every library."""
    rng = np.random.default_rng(states)
    step = rng.dirichlet(np.ones(states), size=states)
    step = 0.5 * step + 0.5 * np.eye(states)
    found = {"start": rng.dirichlet(np.ones(states)), "step": step}
    if kind == "categorical":
        return {**found, "table": rng.dirichlet(np.full(SYMBOLS, 0.5), size=states)}
    root = rng.normal(size=(states, DIMENSION, DIMENSION)) / 2
    covariance = root @ root.swapaxes(1, 2) + np.eye(DIMENSION)
    if kind == "diagonal":
        covariance = covariance * np.eye(DIMENSION)
    return {**found, "mean": 3 * rng.normal(size=(states, DIMENSION)), "covariance": covariance}


def credo_model(kind: str, p: dict[str, np.ndarray]) -> Any:
    from credo.families import Categorical, DiagonalGaussian, Gaussian
    from credo.models.hmm import HMM

    if kind == "categorical":
        return HMM(p["start"], p["step"], Categorical(p["table"]))
    if kind == "diagonal":
        variances = np.einsum("kii->ki", p["covariance"])
        return HMM(p["start"], p["step"], DiagonalGaussian(p["mean"], variances))
    return HMM(p["start"], p["step"], Gaussian(p["mean"], p["covariance"]))


def data(kind: str, states: int, layout: str) -> tuple[np.ndarray, list[int]]:
    import credo

    lengths = LAYOUTS[layout]
    return credo.sample(credo_model(kind, parameters(kind, states)), lengths=lengths, seed=1)[0], lengths


def disturbed(p: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Where learning starts."""
    rng = np.random.default_rng(0)
    step = p["step"] + 0.5 / len(p["step"])
    out = {**p, "step": step / step.sum(axis=1, keepdims=True)}
    if "mean" in p:
        out["mean"] = p["mean"] + 0.3 * rng.normal(size=p["mean"].shape)
    else:
        table = p["table"] + 0.01
        out["table"] = table / table.sum(axis=1, keepdims=True)
    return out


# ---------------------------------------------------------------------------------------------
# In the child: one library, one case
# ---------------------------------------------------------------------------------------------


def work(task: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    x, lengths = data(task["kind"], task["states"], task["layout"])
    p = parameters(task["kind"], task["states"])
    p = disturbed(p) if task["task"] == "baum-welch" else p
    make = with_credo if task["library"] == "credo" else with_hmmlearn
    call, numbers = make(task, p, x, lengths)
    call()  # compiled code is loaded, or compiled, outside the clock
    best, value = common.measure(call)
    return {**best, "numbers": numbers(value)}


def _flat(part: Any) -> np.ndarray:
    return np.concatenate(part) if isinstance(part, list) else part


def with_credo(task: dict[str, Any], p: dict[str, np.ndarray], x: np.ndarray, lengths: list[int]) -> Any:
    import credo

    model = credo_model(task["kind"], p)
    if task["task"] == "forward-backward":
        return lambda: credo.infer(model, data=x, lengths=lengths), lambda v: [
            v.log_z.value,
            *_some(_flat(v.marginals["state"])),
        ]
    if task["task"] == "viterbi":
        return lambda: credo.infer(model, data=x, lengths=lengths, maximise="all"), lambda v: [
            v.score.value,
            *_flat(v.assignment["state"])[:50].tolist(),
        ]
    return (
        lambda: credo.fit(model, x, lengths=lengths, max_iter=ITERATIONS, tol=0),
        lambda v: [v.trace["log_likelihood"][-2] * len(x), *_some(v.model.transition)],
    )


def with_hmmlearn(task: dict[str, Any], p: dict[str, np.ndarray], x: np.ndarray, lengths: list[int]) -> Any:
    from hmmlearn import hmm

    common_options: dict[str, Any] = {
        "n_components": len(p["start"]),
        "implementation": task["library"].split("-")[1],
        "n_iter": ITERATIONS,
        "tol": -np.inf,
        "init_params": "",
    }

    def fresh() -> Any:
        if task["kind"] == "categorical":
            model = hmm.CategoricalHMM(**common_options)
            model.n_features, model.emissionprob_ = SYMBOLS, p["table"]
        else:
            kind = "full" if task["kind"] == "full" else "diag"
            weight = DIMENSION if kind == "full" else 1
            model = hmm.GaussianHMM(
                covariance_type=kind, covars_prior=0, covars_weight=weight, **common_options
            )
            model.means_ = p["mean"]
            model.covars_ = p["covariance"] if kind == "full" else np.einsum("kii->ki", p["covariance"])
        model.startprob_, model.transmat_ = p["start"], p["step"]
        return model

    rows = x[:, None] if task["kind"] == "categorical" else x
    model = fresh()
    if task["task"] == "forward-backward":
        return lambda: model.score_samples(rows, lengths), lambda v: [float(v[0]), *_some(v[1])]
    if task["task"] == "viterbi":
        return lambda: model.decode(rows, lengths), lambda v: [float(v[0]), *v[1][:50].tolist()]
    return (
        lambda: fresh().fit(rows, lengths),
        lambda v: [float(v.monitor_.history[-1]), *_some(v.transmat_)],
    )


def _some(table: np.ndarray) -> list[float]:
    return [float(v) for v in np.ravel(table)[:500]]


# ---------------------------------------------------------------------------------------------
# In the parent: the table
# ---------------------------------------------------------------------------------------------


def cases(quick: bool) -> list[dict[str, Any]]:
    kinds = ("full",) if quick else ("full", "diagonal", "categorical")
    layouts = ("long", "many") if quick else tuple(LAYOUTS)
    return [
        {"kind": kind, "states": states, "layout": layout, "task": task}
        for kind in kinds
        for states in (8, 64)
        for layout in layouts
        for task in TASKS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="Gaussians with full covariances only")
    parser.add_argument("--seconds", type=float, default=120.0, help="CPU seconds per case and library")
    options = parser.parse_args()
    limits = common.Limits(seconds=options.seconds)
    records = []
    titles = ("emission", "states", "steps", "task", "credo s", "hmmlearn log", "hmmlearn scaling", "gaps")
    print(f"| {' | '.join(titles)} |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases(options.quick):
        print(f"{case}", file=sys.stderr)
        answers = {
            library: common.in_subprocess(__file__, {**case, "library": library}, limits)
            for library in LIBRARIES
        }
        records.append({**case, "answers": answers, **common.machine()})
        print(line(case, answers), flush=True)
    common.write_lines(common.OUT / "hmm.jsonl", records)


def line(case: dict[str, Any], answers: dict[str, Any]) -> str:
    base = answers["credo"]
    cells = [f"{case['kind']:11}", str(case["states"]), case["layout"], case["task"], common.seconds(base)]
    gaps = []
    for library in LIBRARIES[1:]:
        found = answers[library]
        cells.append(f"{common.seconds(found)} ({common.ratio(found, base)})")
        if "numbers" in found and "numbers" in base:
            one, two = np.array(base["numbers"]), np.array(found["numbers"])
            gaps.append(f"{np.abs(one - two).max():.0e}")
    return f"| {' | '.join([*cells, ', '.join(gaps)])} |"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    else:
        main()
