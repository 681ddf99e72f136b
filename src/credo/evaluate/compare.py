"""Several methods, one question, one table.

Errors are relative to the first method that answers; put the one to be trusted first. A method
that cannot treat the problem keeps its row, with the reason in place of the numbers.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core.display import Listing, Shown, data_frame, finite
from ..core.errors import ConvergenceWarning, OptionError, UnsupportedError, ZeroProbabilityError
from ..core.factor_graph import FactorGraph, Model
from ..core.instance import Template
from ..core.registry import describe
from ..core.result import Result, Status
from ..inference.portfolio.question import graph_of, infer, without_data
from ..inference.portfolio.templates import template_of
from ..inference.problem.base import Algorithm, algorithms
from .errors import hamming, log_z_error, marginal_errors
from .scoring import value_of

__all__ = ["Comparison", "Row", "compare"]


@dataclass(frozen=True)
class Row:
    """One method's line of the table; None where there is nothing to say."""

    method: str
    seconds: float | None = None  # wall time of the run, without compiling
    compile_seconds: float | None = None  # spent on compiling, once
    iterations: int | None = None  # steps of an iterative method
    log_z: float | None = None  # log Z, or the value claimed for the maximum
    kind: str | None = None  # what that number guarantees
    log_z_error: float | None = None  # signed, relative to the reference
    max_tv: float | None = None  # largest total variation of a marginal
    mean_tv: float | None = None  # mean total variation of the marginals
    score: float | None = None  # log value of the assignment found
    distance: int | None = None  # variables assigned differently from the reference
    status: str = ""  # why the run stopped, or "refused"
    reason: str | None = None  # why the method refused
    result: Result | None = field(default=None, repr=False, compare=False)  # the whole answer

    @property
    def answered(self) -> bool:
        """Whether the method gave an answer."""
        return self.reason is None


@dataclass(frozen=True)
class _Column:
    title: str
    key: str  # field of Row
    form: str  # format of the number, empty for text


_SUMS = (
    _Column("method", "method", ""),
    _Column("seconds", "seconds", ".4f"),
    _Column("iters", "iterations", "d"),
    _Column("log Z", "log_z", ".6f"),
    _Column("kind", "kind", ""),
    _Column("log Z error", "log_z_error", ".2e"),
    _Column("max TV", "max_tv", ".2e"),
    _Column("mean TV", "mean_tv", ".2e"),
    _Column("status", "status", ""),
)
_MAXIMA = (
    *_SUMS[:3],
    _Column("value", "log_z", ".6f"),
    _Column("kind", "kind", ""),
    _Column("value error", "log_z_error", ".2e"),
    _Column("score", "score", ".6f"),
    _Column("differs", "distance", "d"),
    _SUMS[-1],
)


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The table made by `compare`; print it, or read `rows`."""

    rows: tuple[Row, ...]
    maximised: bool = False  # whether the question was MAP or marginal MAP
    reference: str | None = None  # the method the errors refer to

    @property
    def columns(self) -> list[str]:
        """Titles of the columns."""
        return [c.title for c in self._layout]

    @property
    def _layout(self) -> tuple[_Column, ...]:
        return _MAXIMA if self.maximised else _SUMS

    def cells(self) -> list[list[str]]:
        """The text of every cell, row by row."""
        return [[_cell(row, column) for column in self._layout] for row in self.rows]

    @property
    def flush_right(self) -> list[bool]:
        """Which columns hold numbers."""
        return [bool(c.form) for c in self._layout]

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary of plain values per row; infinite numbers become text."""
        drop = {"max_tv", "mean_tv"} if self.maximised else {"score", "distance"}
        return [{k: finite(v) for k, v in _fields(row).items() if k not in drop} for row in self.rows]

    def to_json(self) -> str:
        """The rows as a JSON list."""
        return json.dumps(self.to_dicts(), indent=2)

    def to_frame(self) -> Any:
        """A pandas data frame with the method as index."""
        columns = {key: [getattr(row, key) for row in self.rows] for key in _fields(Row(""))}
        return data_frame(columns).set_index("method")

    def __getitem__(self, method: str) -> Row:
        for row in self.rows:
            if row.method == method:
                return row
        raise OptionError(f"no row '{method}'; there are {[row.method for row in self.rows]}")

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def _shown(self) -> Iterable[str | Listing]:
        yield Listing(self.cells(), self.flush_right, self.columns)
        if self.reference is not None and self.rows[0].method != self.reference:
            yield f"errors are relative to {self.reference}, the first method that answered"
        compiling = sum(row.compile_seconds or 0.0 for row in self.rows)
        if compiling > 0.1:
            yield f"compiling, once, took {compiling:.2g} s more"


def compare(  # noqa: PLR0913, the options of one call
    model: Model | Template,
    methods: str | Algorithm | Iterable[str | Algorithm] | None = None,
    *,
    evidence: Mapping[str, Any] | None = None,
    maximise: Literal["all"] | Iterable[str] = (),
    max_iter: int = 1000,
    tol: float = 1e-8,
    seconds: float | None = None,
    seed: int | None = 0,
    progress: bool | None = None,
    data: Any = None,
    lengths: Any = None,
    mask: Any = None,
    groups: str | None = None,
    columns: Any = None,
) -> Comparison:
    """Ask several methods the same question.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    methods
        Names with options, or algorithm objects; the first is the reference. None takes every
        registered method made for the domains of the model that starts at once, those that promise
        exactness first; name those that compile for every new structure to have them too.
    evidence, maximise, max_iter, tol, seconds, seed
        As in `credo.infer`; every method gets the same budget and the same seed.
    progress
        Show which method is running; None does so on a terminal only.
    data, lengths, mask, groups, columns
        Of a template such as `HMM`: its sequences, as in `infer`. The methods are asked about the factor
        graph of the hidden rows, `model.instantiate(data).to_factor_graph()`.

    Returns
    -------
    Comparison
        Printing it gives an aligned table; `rows`, `to_frame()` and `to_json()` give the numbers.

    Examples
    --------
    >>> import credo
    >>> table = credo.compare(credo.datasets.sprinkler(), ["enumerate"], evidence={"wet": "yes"})
    >>> table.rows[0].max_tv, table.rows[0].status
    (0.0, 'exact')
    """
    reading = {"lengths": lengths, "mask": mask, "groups": groups, "columns": columns}
    if data is not None:
        model = template_of(model).instantiate(data, **reading)
    else:
        without_data(**reading)
    chosen = _chosen(methods, graph_of(model).condition(evidence or {}))
    if isinstance(maximise, Iterable) and not isinstance(maximise, str):
        maximise = tuple(maximise)
    question = {"evidence": evidence, "maximise": maximise}
    budget = {"max_iter": max_iter, "tol": tol, "seconds": seconds, "seed": seed}
    found: list[tuple[str, Result | Exception]] = []
    with _spinner(sys.stderr.isatty() if progress is None else progress) as show:
        for k, algorithm in enumerate(chosen, start=1):
            show(f"{describe(algorithm)} ({k} of {len(chosen)})")
            answer = _ask(model, algorithm, {**question, **budget})
            found.append((describe(algorithm), answer))
            if isinstance(answer, Result) and answer.status is Status.INTERRUPTED:
                break  # Ctrl-C ends the comparison; what was found so far is the answer
    if all(isinstance(answer, ZeroProbabilityError) for _, answer in found):
        raise found[0][1]  # type: ignore[misc]
    return _tabulate(model, found, evidence, maximised=bool(maximise))


def _is_for(entry: Any, is_tables: bool) -> bool:
    """Whether a method is made for tables, its first kind of factors, or reads others too."""
    return bool(entry.groups[0] == "tables" if is_tables else entry.groups != ("tables",))


def _chosen(methods: Any, graph: FactorGraph) -> list[Algorithm]:
    """Algorithm objects, made before anything runs so that a misspelt name costs no time."""
    if methods is None:
        known, is_tables = algorithms.entries(), graph.as_tables() is not None
        names = [n for n, entry in known.items() if not entry.compiles and _is_for(entry, is_tables)]
        methods = sorted(names, key=lambda n: ("exact" not in known[n].promises, n))
    if isinstance(methods, (str, Algorithm)):
        methods = [methods]
    made = [algorithms.resolve(m) for m in methods]
    if not made:
        raise OptionError(f"methods: expected at least one, got none; there are {algorithms.names()}")
    for item in made:
        if not isinstance(item, Algorithm):
            raise OptionError(f"methods: expected names or Algorithms, got {item!r}")
    return made


def _ask(model: Model | Template, algorithm: Algorithm, arguments: dict[str, Any]) -> Result | Exception:
    try:
        with warnings.catch_warnings():
            # The status column says the same for every row.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return infer(model, algorithm, **arguments)
    except (UnsupportedError, ZeroProbabilityError) as error:
        return error


def _tabulate(
    model: Model | Template,
    found: list[tuple[str, Result | Exception]],
    evidence: Mapping[str, Any] | None,
    *,
    maximised: bool,
) -> Comparison:
    truth = next((pair for pair in found if isinstance(pair[1], Result)), None)
    rows = []
    for method, answer in found:
        if isinstance(answer, Exception):
            rows.append(Row(method, status="refused", reason=_reason(method, answer)))
            continue
        assert truth is not None and isinstance(truth[1], Result)
        scored = _score(model, answer, truth, evidence) if maximised else {}
        rows.append(_row(method, answer, truth[1], scored))
    return Comparison(tuple(rows), maximised, None if truth is None else truth[0])


def _row(method: str, answer: Result, truth: Result, scored: dict[str, Any]) -> Row:
    change = answer.trace.get("change")
    errors: dict[str, Any] = {}
    if answer.log_z is not None and truth.log_z is not None:
        errors["log_z_error"] = log_z_error(answer.log_z, truth.log_z)
    if answer.marginals is not None and truth.marginals is not None:
        distances = marginal_errors(answer.marginals, truth.marginals)
        errors |= {"max_tv": distances.max_tv, "mean_tv": distances.mean_tv}
    return Row(
        method,
        seconds=answer.seconds,
        compile_seconds=answer.compile_seconds,
        iterations=0 if change is None else len(change),
        log_z=None if answer.log_z is None else answer.log_z.value,
        kind=None if answer.log_z is None else answer.log_z.kind,
        status=answer.status.value,
        result=answer,
        **errors,
        **scored,
    )


def _score(
    model: Model | Template, answer: Result, truth: tuple[str, Any], evidence: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The true value of the assignment, and how far it is from the reference's."""
    found, (method, reference) = answer.assignment, truth
    if found is None:
        return {}
    scored: dict[str, Any] = {}
    complete = len(found) == len(found._variables)
    if complete or (reference.log_z is not None and reference.log_z.kind == "exact"):
        scored["score"] = value_of(model, found, evidence=evidence, method=method)
    if reference.assignment is not None:
        scored["distance"] = hamming(found, reference.assignment)
    return scored


def _reason(method: str, error: Exception) -> str:
    """The reason alone; the row already names the method."""
    text = str(error)
    lead = f"{method.partition('(')[0]} cannot treat this problem: "
    return text.removeprefix(lead)


def _fields(row: Row) -> dict[str, Any]:
    return {k: getattr(row, k) for k in Row.__dataclass_fields__ if k != "result"}


def _cell(row: Row, column: _Column) -> str:
    value = getattr(row, column.key)
    if column.key == "status" and row.reason is not None:
        return f"refused: {row.reason}"
    if value is None:
        return "-"
    # "z" writes a value that rounds to zero without a sign.
    return format(value, "z" + column.form) if column.form[-1:] in ("e", "f") else str(value)


@contextmanager
def _spinner(wanted: bool) -> Iterator[Any]:
    """A function that shows a line of progress on standard error, and nothing if not wanted."""
    if not wanted:
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("comparing") as status:
        yield status.update
