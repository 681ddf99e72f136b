"""Ask every algorithm each kind of question once, so that compiled kernels are on disk.

Run before the tests are spread over processes; see the Makefile. Two processes share the work: compiling
is most of what a first run of the tests does.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import warnings
from pathlib import Path

import credo
from conformance.subjects import SUBJECTS, compiles, promises
from zoo import case

QUESTIONS = (
    credo.infer,
    lambda graph, spec: credo.infer(graph, spec, evidence={graph.variables.names[0]: 0}),
    lambda graph, spec: credo.infer(graph, spec, maximise="all"),
    lambda graph, spec: credo.infer(graph, spec, maximise=graph.variables.names[:1]),
    lambda graph, spec: credo.infer(graph, spec, temperatures={graph.variables.names[0]: 0.5}),
    lambda graph, spec: credo.query(graph, graph.variables.names[:2], method=spec),
    lambda graph, spec: credo.sample(graph, 2, method=spec, seed=0),
)


def warm(specs: list[str]) -> None:
    """Failures are the tests' business, not the warm-up's."""
    warnings.simplefilter("ignore")
    for spec in specs:
        for name in ("chain", "grid 3x3", "three-way factors"):
            for question in QUESTIONS:
                with contextlib.suppress(Exception):
                    question(case(name).graph, spec)


def main() -> None:
    """Share the methods out by name, so that variants, which use the same kernels, stay together.

    The exact methods, and a third of the others, go to the first process: it compiles most at the start.
    """
    if len(sys.argv) > 1:
        warm(sys.argv[1:])
        return
    specs = [s for s in SUBJECTS if not compiles(s)]
    # Exact methods first: what they compile, most of the others use.
    specs.sort(key=lambda s: "exact" not in promises(s))
    names = list(dict.fromkeys(s.partition("(")[0] for s in specs))
    exact = sum("exact" in promises(n) for n in names)
    shares: tuple[list[str], list[str]] = ([], [])
    for spec in specs:
        at = names.index(spec.partition("(")[0]) - exact
        shares[0 if at < 0 or at % 3 == 0 else 1].append(spec)
    command = [sys.executable, str(Path(__file__).resolve())]
    running = [subprocess.Popen([*command, *share]) for share in shares]
    for process in running:
        process.wait()


if __name__ == "__main__":
    main()
