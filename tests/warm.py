"""Compile what the tests will use: compiled kernels are on disk before tests spread over processes."""

from __future__ import annotations

from conformance.subjects import SUBJECTS, compiles
from credo.cli.warm import warm_up
from credo.kernels import jit
from small_work import WORK

if __name__ == "__main__":
    warm_up([spec for spec in SUBJECTS if not compiles(spec)], 2)
    jit._Process.tier = "compiled"
    for work in WORK[1:]:  # the first asks all methods
        work()
