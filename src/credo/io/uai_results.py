"""The files around a UAI model: evidence, query and results.

    evidence   "k  variable state  variable state ..."; empty or "0" for none. The files of
               2006-2010 begin with the number of samples, and each sample has this form.
    query      "k  variable variable ...": the variables of a marginal MAP question.
    results    the task (PR, MAR, MAP or MMAP; MPE is an older name of MAP) on the first line, then
               PR    log10 of the partition function
               MAR   "n  size p p ...  size p p ..."
               MAP   "n  state state ..."
               MMAP  "k  variable state  variable state ..."; the reference files of 2014 hold
                     only the states, by rising position of the query variables.
               Anytime solvers append better answers after a line "-BEGIN-"; the last one counts.

Line breaks mean nothing. Variables and states are written as positions.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.content import bare_name, content_of
from ..core.errors import FormatError
from ..core.evidence import Evidence
from ..core.variable import Variables
from .base import wrong
from .scan import Numbers, strip_comments
from .tables import text_of

__all__ = [
    "UaiAnswer",
    "read_answer",
    "read_evidence",
    "read_evidence_samples",
    "read_query",
    "write_evidence",
    "write_map",
    "write_mar",
    "write_mmap",
    "write_pr",
    "write_query",
]

Source = str | os.PathLike[str] | bytes
TASKS = {"PR": "PR", "MAR": "MAR", "MAP": "MAP", "MPE": "MAP", "MMAP": "MMAP"}


def read_evidence(source: Source, variables: Variables) -> dict[str, int]:
    """Read an evidence file with one sample.

    Parameters
    ----------
    source
        A path, or the bytes of the file.
    variables
        The variables of the model.

    Returns
    -------
    evidence
        Variable name -> state position.

    Examples
    --------
    >>> from credo.core.variable import Variables
    >>> from credo.io.uai_results import read_evidence
    >>> read_evidence(b"2  0 1  2 0", Variables.numbered([2, 2, 2]))
    {'x0': 1, 'x2': 0}
    """
    samples = read_evidence_samples(source, variables)
    if len(samples) > 1:
        raise FormatError(
            f"{_name(source)}: expected one sample of evidence, got {len(samples)}; "
            "read them with read_evidence_samples and ask one question each"
        )
    return samples[0] if samples else {}


def read_evidence_samples(source: Source, variables: Variables) -> list[dict[str, int]]:
    """Read an evidence file with any number of samples, each as name -> state position."""
    numbers = _numbers(source)
    if len(numbers) == 0:
        return []
    k = numbers.count("number of observed variables")
    if len(numbers) == 1 + 2 * k:
        return [_sample(numbers, k, variables)]
    samples = []
    for _ in range(k):
        samples.append(_sample(numbers, numbers.count("number of observed variables"), variables))
    numbers.end()
    return samples


def _sample(numbers: Numbers, k: int, variables: Variables) -> dict[str, int]:
    found: dict[str, int] = {}
    for _ in range(k):
        i = numbers.count("observed variable", 0, len(variables))
        name, place = variables.names[i], numbers.at
        state = numbers.count(f"observed state of variable {i}", 0, int(variables.sizes[i]))
        if found.setdefault(name, state) != state:
            raise numbers.error(place, f"variable {i} is observed in the states {found[name]} and {state}")
    return found


def write_evidence(evidence: Mapping[str, Any], variables: Variables) -> str:
    """Text of an evidence file; likelihood vectors have no place in it."""
    checked = Evidence.of(variables, evidence)
    if checked.likelihoods:
        name = variables.names[checked.likelihoods[0][0]]
        raise FormatError(f"evidence files hold observed states only, got a likelihood vector for '{name}'")
    seen = np.flatnonzero(checked.states >= 0)
    pairs = np.stack([seen, checked.states[seen]], axis=1)
    return text_of([len(seen), *pairs.ravel().tolist()]) + "\n"


def read_query(source: Source, variables: Variables) -> list[str]:
    """Read the names of the variables of a marginal MAP question."""
    numbers = _numbers(source)
    if len(numbers) == 0:
        return []
    k = numbers.count("number of query variables")
    asked = numbers.integers(k, "query variables", 0, len(variables))
    numbers.end()
    if len(np.unique(asked)) < k:
        raise FormatError(f"{_name(source)}: expected different query variables, got one twice")
    return [variables.names[int(i)] for i in asked]


def write_query(names: Iterable[str], variables: Variables) -> str:
    """Text of a query file."""
    asked = variables.positions(names).tolist()
    return text_of([len(asked), *asked]) + "\n"


@dataclass(frozen=True)
class UaiAnswer:
    """What a result file says."""

    task: str  # PR, MAR, MAP or MMAP
    log10_z: float | None = None  # PR: as printed
    marginals: tuple[np.ndarray, ...] | None = None  # MAR: one vector per variable
    states: dict[int, int] | None = None  # MAP, MMAP: variable position -> state position

    @property
    def log_z(self) -> float | None:
        """PR: natural logarithm of the partition function."""
        return None if self.log10_z is None else self.log10_z * math.log(10)


def read_answer(source: Source, task: str | None = None, query: Sequence[int] | None = None) -> UaiAnswer:
    r"""Read a result file.

    Parameters
    ----------
    source
        A path, or the bytes of the file.
    task
        PR, MAR, MAP or MMAP, for files that do not say so; by default the file's extension.
    query
        Positions of the query variables in any order, for MMAP files that hold only states.

    Examples
    --------
    >>> from credo.io.uai_results import read_answer
    >>> read_answer(b"MMAP\n2 4 0 1 3").states
    {4: 0, 1: 3}
    """
    content, file = content_of(source)
    words = content.split(maxsplit=1)
    first = words[0].decode("ascii", "replace").upper() if words else ""
    if first in TASKS:
        start = content.upper().index(first.encode()) + len(first)
        line = content.count(b"\n", 0, start) + 1
        content = content[start:]
    else:
        first, line = task or Path(bare_name(file)).suffix[1:].upper(), 1
    if first not in TASKS:
        raise wrong(file, 1, f"expected a task out of {sorted(TASKS)} on the first line, got {first[:40]!r}")
    last = content.rfind(b"-BEGIN-")
    if last >= 0:
        line += content.count(b"\n", 0, last)
        content = content[last + len(b"-BEGIN-") :]
    return _READ[TASKS[first]](content, file, line, query)


def _read_pr(content: bytes, file: str, line: int, query: Any) -> UaiAnswer:
    words = content.split()
    if len(words) == 2 and words[0] == b"1":
        words = words[1:]  # the number of samples
    try:
        (value,) = map(float, words)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        shown = content[:60].decode("ascii", "backslashreplace").strip()
        raise wrong(file, line, f"expected log10 of the partition function, got {shown!r}")
    return UaiAnswer("PR", log10_z=value)


def _read_mar(content: bytes, file: str, line: int, query: Any) -> UaiAnswer:
    numbers = Numbers(content, file, line)
    _skip_samples(numbers, lambda at: _mar_length(numbers.values, at))
    n = numbers.count("number of variables")
    found = numbers.records(n, "marginals")
    numbers.end()
    flat = found.entries
    if len(flat) and not (flat.min() >= 0 and flat.max() <= 1 + 1e-6):
        raise FormatError(f"{file}: expected probabilities, got values from {flat.min():g} to {flat.max():g}")
    cut = np.cumsum(found.lengths)[:-1]
    return UaiAnswer("MAR", marginals=tuple(np.split(flat, cut)) if n else ())


def _mar_length(values: np.ndarray, at: int) -> int:
    """Where the marginals that begin at `at` end, -1 if they do not fit."""
    n, at = int(values[at]), at + 1
    for _ in range(n):
        if at >= len(values) or values[at] < 0:
            return -1
        at += 1 + int(values[at])
    return at


def _read_map(content: bytes, file: str, line: int, query: Any) -> UaiAnswer:
    numbers = Numbers(content, file, line)
    _skip_samples(numbers, lambda at: at + 1 + int(numbers.values[at]))
    n = numbers.count("number of variables")
    states = numbers.integers(n, "states")
    numbers.end()
    return UaiAnswer("MAP", states=dict(enumerate(states.tolist())))


def _read_mmap(content: bytes, file: str, line: int, query: Sequence[int] | None) -> UaiAnswer:
    numbers = Numbers(content, file, line)
    k = numbers.count("number of query variables")
    if len(numbers) == 1 + 2 * k:
        found = dict(numbers.integers(2 * k, "variables and states").reshape(k, 2).tolist())
        if len(found) < k:
            raise FormatError(f"{file}: expected the states of {k} variables, got one twice")
        return UaiAnswer("MMAP", states=found)
    states = numbers.integers(k, "states")
    numbers.end()
    if query is None or len(query) != k:
        got = "no query" if query is None else f"a query of {len(query)}"
        raise FormatError(f"{file}: expected the positions of its {k} query variables, got {got}")
    return UaiAnswer("MMAP", states=dict(zip(sorted(map(int, query)), states.tolist(), strict=True)))


def _skip_samples(numbers: Numbers, end: Any) -> None:
    """Step over a leading 1, the number of samples, when only then the answer ends with the file."""
    if len(numbers) > 1 and numbers.values[0] == 1 and end(0) != len(numbers) == end(1):
        numbers.at = 1


_READ = {"PR": _read_pr, "MAR": _read_mar, "MAP": _read_map, "MMAP": _read_mmap}


def write_pr(log_z: float) -> str:
    """Text of a PR file from the natural logarithm of the partition function."""
    return f"PR\n{float(log_z) / math.log(10)!r}\n"


def write_mar(marginals: Iterable[Any]) -> str:
    r"""Text of a MAR file from one vector of probabilities per variable.

    Examples
    --------
    >>> from credo.io.uai_results import write_mar
    >>> write_mar([[0.25, 0.75], [1.0]])
    'MAR\n2 2 0.25 0.75 1 1.0\n'
    """
    parts = [np.asarray(p, dtype=np.float64).tolist() for p in marginals]
    return f"MAR\n{text_of([len(parts), *(x for p in parts for x in (len(p), *p))])}\n"


def write_map(states: Iterable[int]) -> str:
    """Text of a MAP file from one state position per variable."""
    found = [int(k) for k in states]
    return f"MAP\n{text_of([len(found), *found])}\n"


def write_mmap(states: Mapping[int, int]) -> str:
    """Text of an MMAP file from query variable position -> state position."""
    pairs = [int(x) for pair in states.items() for x in pair]
    return f"MMAP\n{text_of([len(states), *pairs])}\n"


def _numbers(source: Source) -> Numbers:
    content, file = content_of(source)
    return Numbers(strip_comments(content, "#") if b"#" in content else content, file)


def _name(source: Source) -> str:
    return "<bytes>" if isinstance(source, bytes) else str(source)
