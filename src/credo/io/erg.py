"""Ergo files (`.erg`) of the early Bayesian-network tools and of the UAI 2006/2008 evaluations.

    2                       number of variables
    2 3                     their numbers of states
    0                       for each variable the number of its parents and their positions
    1 0
    /* Probabilities */
    2                       for each variable the number of table entries and the entries:
      0.2 0.8               parents in the order above, the variable's own states fastest
    6
      0.4 0.4 0.2
      0.1 0.3 0.6
    /* Names */             optional
    success forecast
    /* Labels */            optional, the state labels of each variable
    yes no
    good fair poor

Positions count from 0, or from 1 when only that gives a directed acyclic graph. As for UAI files,
tables whose rows do not sum to 1 (printed with few digits, or pruned by evidence) give a
`MarkovNet` with exactly the printed values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.domain import Discrete
from ..core.errors import FormatError, ModelError, UnsupportedError
from ..core.variable import Variable, Variables
from ..core.wiring import starts_of
from ..models.bayes_net import BayesNet
from ..models.mrf import MarkovNet
from .base import Format, register_format, wrong
from .scan import Numbers
from .tables import check_states, products, text_of
from .uai import directed_or_not, read_tables, read_uai

__all__ = ["read_erg", "write_erg"]

_SECTION = re.compile(rb"/\*\s*(\w+)[^*]*\*/")


def read_erg(content: bytes, file: str = "<bytes>") -> BayesNet | MarkovNet:
    """Read an Ergo model; a file in UAI form under this extension is recognised.

    Examples
    --------
    >>> from credo.io.erg import read_erg
    >>> read_erg(b"2  2 2  0  1 0 /* Probabilities */ 2 .2 .8  4 .5 .5 .1 .9 /* Names */ a b")
    BayesNet(2 variables, 1 edges: a -> b)
    """
    if re.match(rb"\s*(MARKOV|BAYES)\b", content, re.IGNORECASE):
        return read_uai(content, file)
    sections = _sections(content, file)
    numbers = Numbers(*_section(sections, "preamble", file))
    n = numbers.count("number of variables")
    sizes = numbers.integers(n, "numbers of states", low=1)
    check_states(file, sizes)
    found = numbers.records(n, "lists of parents")
    parents = numbers.as_integers(found.entries, found.place, "parents", 0, n + 1)
    numbers.end()
    variables = _variables(sections, sizes)
    scope_start, scope = _families(parents, found.lengths, file)
    tables = Numbers(*_section(sections, "probabilities", file))
    values = read_tables(tables, products(scope_start, sizes[scope]))
    tables.end()
    return directed_or_not(variables, scope_start, scope, values)


def _sections(content: bytes, file: str) -> dict[str, tuple[bytes, str, int]]:
    """Section name -> (text, file, line on which the text begins)."""
    found = {}
    name, start = "preamble", 0
    for mark in _SECTION.finditer(content):
        found[name] = (content[start : mark.start()], file, content.count(b"\n", 0, start) + 1)
        name, start = mark.group(1).decode("ascii", "replace").lower(), mark.end()
    found[name] = (content[start:], file, content.count(b"\n", 0, start) + 1)
    return found


def _section(sections: dict[str, tuple[bytes, str, int]], name: str, file: str) -> tuple[bytes, str, int]:
    if name not in sections:
        raise FormatError(f"{file}: expected a section /* {name.capitalize()} */, got {sorted(sections)}")
    return sections[name]


def _variables(sections: dict[str, tuple[bytes, str, int]], sizes: np.ndarray) -> Variables:
    names = _words(sections, "names", len(sizes), "names")
    labels = _words(sections, "labels", int(sizes.sum()), "state labels")
    if names is None and labels is None:
        return Variables.numbered(sizes)
    start = starts_of(sizes)
    return Variables.of(
        [
            Variable(
                f"x{i}" if names is None else names[i],
                Discrete.of(int(sizes[i]) if labels is None else labels[start[i] : start[i + 1]]),
            )
            for i in range(len(sizes))
        ]
    )


def _words(
    sections: dict[str, tuple[bytes, str, int]], section: str, count: int, what: str
) -> list[str] | None:
    if section not in sections:
        return None
    text, file, line = sections[section]
    words = [word.decode("utf-8", "backslashreplace") for word in text.split()]
    if len(words) != count:
        raise wrong(file, line, f"expected {count} {what}, got {len(words)}")
    return words


def _families(parents: np.ndarray, arity: np.ndarray, file: str) -> tuple[np.ndarray, np.ndarray]:
    """Scopes (parents..., child) in variable order, with positions counted from 0."""
    n = len(arity)
    child = np.repeat(np.arange(n), arity)
    for base in (0, 1):
        lowest, highest = base, n - 1 + base
        fits = not len(parents) or (parents.min() >= lowest and parents.max() <= highest)
        if fits and _is_acyclic(parents - base, child, n):
            break
    else:
        raise FormatError(f"{file}: expected a directed graph without cycles, got a cycle of parents")
    start = starts_of(arity + 1)
    scope = np.empty(start[-1], dtype=np.int64)
    scope[start[1:] - 1] = np.arange(n)
    scope[np.delete(np.arange(start[-1]), start[1:] - 1)] = parents - base
    return start, scope


def _is_acyclic(parents: np.ndarray, child: np.ndarray, n: int) -> bool:
    """Whether removing variables without remaining parents, again and again, removes all."""
    waiting = np.bincount(child, minlength=n)
    by_parent = np.argsort(parents, kind="stable")
    start = starts_of(np.bincount(parents, minlength=n))
    ready = np.flatnonzero(waiting == 0).tolist()
    removed = 0
    while ready:
        i = ready.pop()
        removed += 1
        for j in child[by_parent[start[i] : start[i + 1]]]:
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(int(j))
    return removed == n


def write_erg(model: Any) -> str:
    """Text of a Bayesian network in Ergo form; blanks in names and labels become underscores."""
    if not isinstance(model, BayesNet):
        raise UnsupportedError(
            f"Ergo files hold Bayesian networks, got a {type(model).__name__}; write it as .uai or .json"
        )
    graph, variables = model.to_factor_graph(), model.variables
    lines = [str(len(variables)), text_of(variables.sizes)]
    for i in range(len(variables)):
        mine = graph.scope_of(i)[:-1].tolist()
        lines.append(text_of([len(mine), *mine]))
    lines += ["", "/* Probabilities */"]
    for i, name in enumerate(variables.names):
        table = model.tables[name].reshape(-1, int(variables.sizes[i]))
        lines += [str(table.size), *(" " + text_of(row) for row in table), ""]
    lines += ["/* Names */", *_written(variables.names, "variables"), ""]
    lines += ["/* Labels */", *(" ".join(_written(v.states, f"states of '{v.name}'")) for v in variables)]
    return "\n".join(lines) + "\n"


def _written(names: Sequence[str], what: str) -> list[str]:
    """Names as single words; refuses those that would no longer differ."""
    words = ["_".join(name.split()).replace("*/", "*_") or "_" for name in names]
    if len(set(words)) < len(words):
        raise ModelError(f"save: the names of the {what} are equal without blanks; rename them")
    return words


register_format(Format("erg", (".erg",), read_erg, write_erg))
