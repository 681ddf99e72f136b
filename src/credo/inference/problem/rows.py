"""Algorithms that answer hidden rows with data from their arrays, without a factor graph."""

from __future__ import annotations

import abc
import warnings
from typing import Any, ClassVar, TypeGuard

import numpy as np

from ...core import check
from ...core.errors import ConvergenceError, ConvergenceWarning, UnsupportedError
from ...core.instance import Instance
from ...core.registry import describe
from ...core.result import Result
from ...core.stopwatch import Stopwatch
from .base import Algorithm, Budget

__all__ = ["RowsAlgorithm", "reads_rows", "run_rows"]


class RowsAlgorithm(Algorithm):
    """An algorithm that treats some structures of hidden rows in a form of their own."""

    structures: ClassVar[tuple[str, ...]]  # of instances; the others are answered as factor graphs

    @abc.abstractmethod
    def why_not_rows(self, instance: Instance) -> str | None:
        """None if an instance of a declared structure can be treated, otherwise the reason."""

    @abc.abstractmethod
    def run_rows(
        self, instance: Instance, budget: Budget, rng: np.random.Generator, warm: Any = None
    ) -> Result:
        """Log Z, `Rows` as marginals, and expected counts by table; `warm` are marginals to begin at."""


def reads_rows(algorithm: Any, instance: Instance, maximise: Any) -> TypeGuard[RowsAlgorithm]:
    """Whether marginals of this instance are answered from its arrays."""
    known = isinstance(algorithm, RowsAlgorithm) and instance.structure in algorithm.structures
    return known and maximise != "all"


def run_rows(
    algorithm: RowsAlgorithm,
    instance: Instance,
    budget: Budget,
    *,
    seed: Any,
    strict: bool,
    keep: Any = None,
    warm: Any = None,
) -> Result:
    """The answer of a run; one that did not end well warns, or raises if `strict`.

    `keep` is the checkpoint, which is told what the run is about, `warm` the marginals of an earlier run.
    """
    reason = algorithm.why_not_rows(instance)
    if reason is not None:
        raise UnsupportedError(f"{algorithm.name} cannot treat these rows: {reason}")
    if keep is None:
        rng = check.generator(seed)
    else:
        from ...core.fingerprint import fingerprint

        rng = keep.generator(seed)
        keep.identify({"method": describe(algorithm), "rows": fingerprint(instance)})
    clock = Stopwatch()
    found = algorithm.run_rows(instance, budget, rng, warm)
    if not found.status.is_success:
        sentence = f"{algorithm.name}: {found.advice}"
        if strict:
            raise ConvergenceError(sentence)
        warnings.warn(sentence, ConvergenceWarning, stacklevel=5)
    return found.but(
        algorithm=describe(algorithm), seconds=clock.seconds, compile_seconds=clock.compile_seconds
    )
