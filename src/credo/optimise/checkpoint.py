"""Checkpoints of runs: what a driven run has come to, in a file, and the way on from there.

A call that is repeated does everything up to the first step of its driven run again, with the same random
numbers; then the state from the file takes the place of the first one. So plans and compiled programs
are made, not kept, and what follows is equal to the last bit to what an uninterrupted run would have done.
Kernels are compiled from the beginning, because the two tiers agree to 1e-12 and not to the last bit.

Only the outermost driven run of a call is kept: runs inside are parts of its steps. What an interrupted step
did to generators and other objects that change in place is not kept: they are packed before every step.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import check
from ..core.container import read_container, write_container
from ..core.errors import FormatError, OptionError, UnsupportedError
from ..core.packing import changing_parts, needs_like, pack
from ..core.result import Status
from ..core.unpacking import unpack
from ..kernels.jit import current_tier, settle

if TYPE_CHECKING:
    from .driver import Outcome, Work

__all__ = ["Checkpoint"]

_FORMAT = 1
_KIND = "run of credo"
_WAY_OUT = "give another file name, or delete it"


class Checkpoint:
    """The file of one call, and what was in it.

    Parameters
    ----------
    path
        Of the file; read if it exists.
    every
        Seconds between two writes at least.
    """

    def __init__(self, path: str | os.PathLike[str], every: float) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise OptionError(f"checkpoint: expected the name of a file, got {path!r:.80}")
        check.at_least("every", every, 0)
        self._path, self._every = Path(path), float(every)
        if not self._path.parent.is_dir():
            raise OptionError(f"checkpoint: there is no folder '{self._path.parent}'; make it first")
        self._identity: dict[str, str] = {}
        self._entropy: int | None = None  # of a run without a seed
        self._saved: tuple[Any, list[np.ndarray]] | None = None
        self.is_taken = False
        self._due = -np.inf
        self._frozen: dict[int, Any] = {}  # packed objects that change in place, as of the last whole step
        self._parts: list[Any] = []  # these objects
        self._of: Outcome | None = None  # the start that they belong to
        self._before: Any = None  # the generator, packed, before that start
        self._kept: Any = None  # what is to be written: values, best and present outcome, its status
        self._is_written = True
        self._ended: Outcome | None = None  # a start that the file knows to have ended
        settle(1)

    def close(self) -> None:
        """Let kernels choose their tier again."""
        settle(-1)

    # Before a run.

    def generator(self, seed: Any) -> np.random.Generator:
        """The generator of the call: that of the seed, or of the run in the file where there is no seed."""
        rng = check.generator(seed)
        told = str(seed) if not isinstance(seed, np.random.Generator) else str(pack(seed)[0])
        self._identity = {"seed": told}
        if self._path.exists():
            self._saved = self._read()
            saved = self._saved[0]
            if seed is None and saved["identity"].get("seed") == told:
                rng = np.random.default_rng(saved["entropy"])
        if seed is None:
            self._entropy = rng.bit_generator.seed_seq.entropy  # type: ignore[attr-defined]
        return rng

    def _read(self) -> tuple[Any, list[np.ndarray]]:
        try:
            content, arrays = read_container(self._path)
        except OSError as error:
            raise OptionError(f"checkpoint '{self._path}' could not be read: {error}; {_WAY_OUT}") from None
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise FormatError(f"checkpoint '{self._path}': expected a {_KIND}, got another file; {_WAY_OUT}")
        if content.get("format") != _FORMAT:
            raise FormatError(
                f"checkpoint '{self._path}': expected format {_FORMAT}, got {content.get('format')!r:.20}, "
                f"of another version of credo; {_WAY_OUT}"
            )
        parts = {"identity": dict, "run": dict, "max_iter": int, "tol": float, "seconds": float}
        if any(type(content.get(name)) is not kind for name, kind in parts.items()):
            raise FormatError(f"checkpoint '{self._path}': it is damaged; {_WAY_OUT}")
        return content, arrays

    def identify(self, parts: Mapping[str, str]) -> None:
        """Say what the run is about; a file about something else is refused."""
        self._identity = {**parts, **self._identity, "tier": current_tier()}
        if self._saved is None:
            return
        before = self._saved[0]["identity"]
        for name, mine in self._identity.items():
            if before.get(name) != mine:
                told = f" (expected {mine}, got {before.get(name)!s:.80})" if name in _TOLD else ""
                raise FormatError(
                    f"checkpoint '{self._path}' belongs to another run: the {name} differs{told}; {_WAY_OUT}"
                )

    # At its beginning.

    def before_start(self, rng: Any) -> None:
        """Note the generator as a start finds it."""
        self._before = pack(rng)

    def resume(self, work: Work, like: Any) -> Outcome | None:
        """Where the run in the file had come to; None without one."""
        if self._saved is None:
            return None
        content, arrays = self._saved
        self._saved = None  # its arrays are those of the state from here on
        try:
            return self._resume(work, content, arrays, like)
        except FormatError as error:
            raise FormatError(f"checkpoint '{self._path}': {error}; {_WAY_OUT}") from None

    def _resume(self, work: Work, content: Any, arrays: list[np.ndarray], like: Any) -> Outcome:
        from .driver import Outcome

        def read(tree: Any, like: Any = None) -> Any:
            return unpack(tree, arrays, like)

        run = content["run"]
        try:
            work.run.rng = read(run["before"], work.run.rng)
            first = work.begin(read(run["at"]["number"]), like).state
            read(run["memory"], work.memory)
            at = Outcome(**{n: read(t, first if n == "state" else None) for n, t in run["at"].items()})
            work.run.rng = read(run["rng"], work.run.rng)
            work.values = read(run["values"])
            work.run.began -= float(content["seconds"])
            if run["best"] is not None:
                work.best = Outcome(**{n: read(t) for n, t in run["best"].items()})
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"it lacks a part of the run ({error})") from None
        self._reopen(work, at, content["max_iter"], content["tol"])
        self._due = perf_counter() + self._every
        self._ended = at if at.status is not None else None
        return at

    def _reopen(self, work: Work, at: Outcome, max_iter: int, tol: float) -> None:
        """Let a run that had ended go on where the budget now allows more."""
        budget = work.run.budget
        if at.number and (budget.max_iter, budget.tol) != (max_iter, tol):
            raise FormatError(
                f"its starts had max_iter={max_iter} and tol={tol:g}, got {budget.max_iter} and "
                f"{budget.tol:g}: starts that have ended do not go on, so leave these as they were"
            )
        was_short = at.status is Status.OUT_OF_ITERATIONS and len(at.residuals) < budget.max_iter
        was_loose = at.status is Status.CONVERGED and isfinite(at.last) and budget.tol <= at.last < tol
        if was_short or was_loose:
            at.status = None

    # While it goes on.

    def look(self, work: Work, at: Outcome) -> None:
        """Between two steps: note what the next one may change in place, and write if it is time."""
        if at is self._ended:
            return
        if at is not self._of:
            self._of, self._parts = at, [*changing_parts((at.state, work.memory, work.run.rng))]
        self._frozen = {id(part): _copy(pack(part)) for part in self._parts}
        self._kept, self._is_written = (list(work.values), work.best, at, at.status), False
        if perf_counter() >= self._due:
            self._write(work, strict=self._due == -np.inf)

    def end(self, work: Work, at: Outcome, is_cut: bool) -> None:
        """A start has ended; one that somebody cut goes on later from its last whole step."""
        if not is_cut:
            stopped, status = at.was_stopped, at.status
            at.status = None if stopped else status
            self.look(work, at)
            at.status = status

    def finish(self, work: Work) -> None:
        """The run has ended, well or not."""
        if not self._is_written:
            self._write(work, strict=False)

    def _write(self, work: Work, strict: bool) -> None:
        """Write the file; after the first time, what goes wrong is no reason to lose the run."""
        told = ""
        try:
            write_container(self._path, *self._content(work))
        except UnsupportedError as error:
            told = (
                f"{work.algorithm.name} cannot keep a checkpoint of this run: {error}; leave out checkpoint"
            )
            if strict:
                raise UnsupportedError(told) from None
        except OSError as error:
            told = f"checkpoint '{self._path}' could not be written: {error}; give another file name"
            if strict:
                raise OptionError(told) from None
        if told:
            warnings.warn(told, RuntimeWarning, stacklevel=2)
        self._due, self._is_written = perf_counter() + self._every, True

    def _content(self, work: Work) -> tuple[dict[str, Any], list[np.ndarray]]:
        values, best, at, status = self._kept
        frozen = {**self._frozen, id(_BEFORE): self._before}
        parts = {
            "values": values, "best": _summary(best, best and best.status), "at": _summary(at, status),
            "before": _BEFORE, "memory": work.memory, "rng": work.run.rng,
        }  # fmt: skip
        tree, arrays = pack(parts, frozen)
        run = {name: part for name, part in tree["dict"]}
        for name in ("best", "at"):
            run[name] = run[name] and dict(run[name]["dict"])
        if work.restarts > 1 and needs_like(run["at"]["state"]):
            raise UnsupportedError("each of its starts makes plans of its own, so restarts must be 1")
        budget = work.run.budget
        head = {"kind": _KIND, "format": _FORMAT, "identity": self._identity, "entropy": self._entropy}
        return {
            **head,
            "max_iter": budget.max_iter,
            "tol": float(budget.tol),
            "seconds": work.run.elapsed,
            "run": run,
        }, arrays


_TOLD = ("method", "learner", "seed", "inference", "tier")  # parts of an identity that can be read
_BEFORE = object()  # stands for the generator before a start


def _summary(at: Outcome | None, status: Status | None) -> dict[str, Any] | None:
    if at is None:
        return None
    return {
        "state": at.state, "status": status, "residuals": at.residuals, "trace": at.trace,
        "number": at.number, "values": at.values,
    }  # fmt: skip


def _copy(packed: tuple[Any, list[np.ndarray]]) -> tuple[Any, list[np.ndarray]]:
    tree, arrays = packed
    return tree, [array.copy(order="K") for array in arrays]
