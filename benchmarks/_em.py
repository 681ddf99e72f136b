"""EM on alarm with five hidden variables, side by side with pgmpy and pyAgrum, in one run.

    python benchmarks/em.py [--quick] [--seconds 600]

Rows are sampled from the network of 37 variables, five inner ones are never shown, and each library runs the
same number of EM iterations from tables of its own making, from a data frame to a model. What each reached is
the mean log-likelihood per row of its model, computed by credo's exact inference, so that speed is not bought
with worse tables. CPU seconds of one call, its reading of the frame included; the growth of the process's
memory shows whether it is bounded. In the case `scattered` one value in ten is missing, and nearly every row
has a pattern of its own; pgmpy drops such rows and is left out there. pyAgrum refuses parent states that
never occur, so it gets a millionth of a pseudo-count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np

HIDDEN = ("LVFAILURE", "HYPOVOLEMIA", "VENTLUNG", "CATECHOL", "INTUBATION")
ITERATIONS = 10
CASES = {"hidden": (200, 2000, 20_000, 100_000), "scattered": (2000, 100_000)}
LIBRARIES = ("credo", "pgmpy", "pyagrum")


def network() -> Any:
    import credo

    with tempfile.TemporaryDirectory() as folder:
        return credo.load(common.unpack(common.BIF_FOLDER / "alarm.bif.gz", Path(folder)))


def frame_of(case: str, rows: int) -> Any:
    """Labels in a data frame; NaN where missing."""
    truth = network()
    frame = truth.sample(rows, seed=0).to_frame().astype(object)
    if case == "hidden":
        frame[list(HIDDEN)] = np.nan
    else:
        frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.1)
    return frame


def with_credo(truth: Any, frame: Any) -> Any:
    import credo
    from credo.learning import fit

    states = {v.name: v.states for v in truth.variables}
    start = credo.BayesNet.random(states, dict(truth.parents), seed=0)
    fit(start, frame.head(50), "em", max_iter=2)  # compiled kernels are loaded once per process
    return lambda: fit(start, frame, "em", max_iter=ITERATIONS, tol=0.0).model


def with_pgmpy(truth: Any, frame: Any) -> Any:
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteEM

    import credo

    names = truth.variables.names
    model = DiscreteBayesianNetwork(truth.edges, latents=set(HIDDEN))
    sizes = {n: len(truth.variables[truth.variables.position(n)].states) for n in HIDDEN}
    states = {v.name: list(v.states) for v in truth.variables if v.name not in HIDDEN}
    shown = frame.drop(columns=list(HIDDEN))

    def learn() -> Any:
        made = DiscreteEM(
            state_names=states, latent_card=sizes, max_iter=ITERATIONS, atol=0.0, seed=0, show_progress=False
        ).fit(model, shown)
        tables = {}
        for cpd in made.parameters_:
            # Axes are (child, parents...) in an order of its own.
            order = [cpd.variables.index(n) for n in (*truth.parents[cpd.variable], cpd.variable)]
            tables[cpd.variable] = cpd.values.transpose(order)
        return credo.BayesNet(truth.variables, {n: truth.parents[n] for n in names}, tables)

    return learn


def with_pyagrum(truth: Any, frame: Any) -> Any:
    import pyagrum as gum

    import credo

    template = gum.BayesNet()
    for v in truth.variables:
        template.add(gum.LabelizedVariable(v.name, v.name, list(v.states)))
    for parent, child in truth.edges:
        template.addArc(parent, child)
    text = frame.fillna("?")

    def learn() -> Any:
        learner = gum.BNLearner(text, template, ["?"])
        learner.useSmoothingPrior(1e-6)
        learner.useEMWithDiffCriterion(1e-300)
        learner.EMsetMaxIter(ITERATIONS)
        found = learner.learnParameters(template)
        tables = {}
        for n in truth.variables.names:
            cpt = found.cpt(n)
            order = [n, *truth.parents[n]]
            rows = cpt.reorganize(order[:1] + order[:0:-1])  # the first name varies fastest
            tables[n] = rows.toarray()
        return credo.BayesNet(truth.variables, dict(truth.parents), tables)

    return learn


def work(task: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    truth, frame = network(), frame_of(task["case"], task["rows"])
    makers = {"credo": with_credo, "pgmpy": with_pgmpy, "pyagrum": with_pyagrum}
    learn = makers[task["library"]](truth, frame)
    before = common.memory_mb("VmRSS")
    if task["library"] == "credo":
        best, model = common.measure(learn)
    else:
        c, w = time.process_time(), time.perf_counter()
        model = learn()
        best = {"cpu": time.process_time() - c, "wall": time.perf_counter() - w, "repeats": 1}
    more = common.memory_mb("VmHWM") - before
    return {**best, "megabytes": more, "log_likelihood": _score(model, frame)}


def _score(model: Any, frame: Any) -> float | None:
    """Mean log-likelihood per row; None where a table makes a row impossible."""
    from credo.core.errors import CredoError
    from credo.learning import fit

    try:
        return float(fit(model, frame, "em(start=given)", max_iter=0, tol=0.0).objective[0])
    except CredoError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the smallest number of rows")
    parser.add_argument("--seconds", type=float, default=600.0, help="CPU seconds per process")
    options = parser.parse_args()
    about = common.machine()
    print(f"{about['cpus']} CPUs, load {about['load']:.1f}, {about['versions']}", file=sys.stderr)
    records = []
    for case, sizes in CASES.items():
        for rows in sizes[: 1 if options.quick else None]:
            for library in LIBRARIES:
                if (case, library) == ("scattered", "pgmpy"):
                    continue
                task = {"case": case, "rows": rows, "library": library}
                answer = common.in_subprocess(__file__, task, common.Limits(options.seconds))
                records.append({**task, **answer, "machine": about})
                print(f"{case:9} {rows:7} rows {library:8} {_shown(answer)}", flush=True)
                common.write_lines(common.OUT / "em.jsonl", records)


def _shown(answer: dict[str, Any]) -> str:
    if "none" in answer:
        return str(answer["none"])
    value = answer["log_likelihood"]
    reached = "impossible rows" if value is None else f"{value:.4f} per row"
    return f"{common.number(answer['cpu'])} CPU s, {reached}, {answer['megabytes']:.0f} MB"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    main()
