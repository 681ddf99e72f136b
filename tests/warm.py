"""Compile what the tests will use: compiled kernels are on disk before tests spread over processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from itertools import groupby

JOBS = 2


def run(task: tuple[str, ...]) -> None:
    """Ask the methods of these specifications, or do the small work of this name."""
    from credo.cli.warm import ask_all
    from small_work import WORK

    gc.freeze()  # compilers make many small objects, among which there is little garbage in rings
    gc.set_threshold(50_000, 10, 100)
    named = {work.__name__: work for work in WORK}
    if task[0] in named:
        named[task[0]]()
    else:
        ask_all(task)


def main() -> None:
    """Share methods and small work out to processes; variants, which use the same kernels, stay together."""
    os.environ["CREDO_KERNELS"] = "compiled"
    from conformance.subjects import SUBJECTS, compiles
    from small_work import WORK

    specs = [spec for spec in SUBJECTS if not compiles(spec)]
    tasks = [tuple(group) for _, group in groupby(specs, key=lambda spec: spec.partition("(")[0])]
    tasks += [(work.__name__,) for work in WORK[1:]]  # the first asks all methods
    with multiprocessing.get_context("spawn").Pool(JOBS) as pool:
        for _ in pool.imap_unordered(run, tasks):
            pass


if __name__ == "__main__":
    sys.exit(main())
