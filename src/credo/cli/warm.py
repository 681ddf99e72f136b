"""`credo warm`: compile kernels ahead, so that nothing is left to compile when it matters.

Every method is asked each kind of question about three small models, in as many processes as there are
cores; what they compile lies on disk afterwards.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from .completion import complete_method
from .output import note

__all__ = ["ask_all", "run", "warm_up"]


def run(
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD]...",
            help="Only these, and options like bp(damping=0.5).",
            autocompletion=complete_method,
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes; all cores if absent.")
    ] = None,
) -> None:
    """Compile the kernels of methods ahead of use, in parallel; all methods if none is named."""
    from ..inference.problem.base import algorithms
    from ..inference.problem.contents import methods as known

    for spec in methods or ():
        algorithms.resolve(spec)
    # What JAX compiles depends on the structure of a model, so there is nothing to compile ahead.
    specs = methods or [name for name, method in known().items() if not method.compiles]
    clock = time.perf_counter()
    warm_up(specs, jobs or os.cpu_count() or 1)
    note(f"compiled what {len(specs)} methods need, in {time.perf_counter() - clock:.0f} s")


def warm_up(specs: Iterable[str], jobs: int) -> None:
    """Compile what these methods need, in so many processes."""
    from ..core.progress import Progress

    # Variants of one method use the same kernels: they stay together.
    groups: dict[str, list[str]] = {}
    for spec in specs:
        groups.setdefault(spec.partition("(")[0], []).append(spec)
    context = multiprocessing.get_context("spawn")  # a forked process may inherit a lock of the compiler
    before = os.environ.get("CREDO_KERNELS")
    os.environ["CREDO_KERNELS"] = "compiled"
    try:
        with context.Pool(min(jobs, len(groups))) as pool, Progress("warm", len(groups)) as bar:
            for done, name in enumerate(pool.imap_unordered(ask_all, groups.values()), 1):
                bar.update(done, name)
    finally:
        os.environ.pop("CREDO_KERNELS")
        if before is not None:
            os.environ["CREDO_KERNELS"] = before


def ask_all(specs: Sequence[str]) -> str:
    """Ask every question; a method that refuses one, or fails, has compiled what it got to."""
    warnings.simplefilter("ignore")
    for spec in specs:
        for model in _models():
            for ask in _questions(model.variables.names[:2]):
                with contextlib.suppress(Exception):
                    ask(model, spec)
    return specs[0].partition("(")[0]


def _models() -> Iterable[Any]:
    """Models whose factors have two and three variables, with and without cycles."""
    from ..datasets import ising_grid, random_factor_graph, random_tree

    yield random_tree(5, 3)
    yield ising_grid(3)
    yield random_factor_graph(5, 5, states=3)


def _questions(names: Sequence[str]) -> Iterable[Callable[[Any, str], Any]]:
    from ..inference.portfolio.question import infer, query, sample

    asked: list[dict[str, Any]] = [
        {},
        {"evidence": {names[0]: 0}},
        {"maximise": "all"},
        {"maximise": names[:1]},
        {"temperatures": {names[0]: 0.5}},
    ]
    for question in asked:
        yield partial(infer, max_iter=20, seed=0, **question)
    yield lambda model, spec: query(model, names, method=spec)
    yield lambda model, spec: sample(model, 2, method=spec, seed=0)
