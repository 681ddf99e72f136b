"""Ask every algorithm each kind of question once, so that compiled kernels are on disk.

Run before the tests are spread over processes; see the Makefile.
"""

from __future__ import annotations

import contextlib
import warnings

import credo
from conformance.subjects import SUBJECTS
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


def main() -> None:
    """Failures are the tests' business, not the warm-up's."""
    warnings.simplefilter("ignore")
    for spec in SUBJECTS:
        for name in ("chain", "grid 3x3", "three-way factors"):
            for question in QUESTIONS:
                with contextlib.suppress(Exception):
                    question(case(name).graph, spec)


if __name__ == "__main__":
    main()
