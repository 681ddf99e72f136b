"""UAI model files (`.uai`), of type MARKOV or BAYES.

    MARKOV                  or BAYES
    3                       number of variables
    2 2 3                   their numbers of states
    2                       number of factors
    2 0 1                   scope of each factor: its size, then variable positions
    2 1 2
    4                       table of each factor: number of entries, then the entries
      1 2 3 4               (last variable of the scope fastest)
    6
      1 2 3 4 5 6

Line breaks mean nothing; lines that begin with `#` or with a single `c` are comments. Variables
are called x0, x1, ... A BAYES file names the child last in each scope. It becomes a `BayesNet`
when every row of every table sums to 1 within 1e-9; otherwise, and for MARKOV files, it becomes a
`MarkovNet` with exactly the printed values, so that published answers are reproduced.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..core.wiring import starts_of
from ..models.bayes_net import BayesNet
from ..models.mrf import MarkovNet
from .base import Format, register_format, wrong
from .scan import Numbers, strip_comments
from .tables import check_states, graph_of, products, text_of, weights

__all__ = ["directed_or_not", "read_scopes", "read_tables", "read_uai", "undirected", "write_uai"]

ROWS_ARE_EXACT = 1e-9  # looser sums come from printed digits; normalising would change the answers

_WORD = re.compile(rb"\s*(\S+)")


def read_uai(content: bytes, file: str = "<bytes>") -> BayesNet | MarkovNet:
    """Read a UAI model.

    Examples
    --------
    >>> from credo.io.uai import read_uai
    >>> model = read_uai(b"MARKOV 2  2 3  1  2 0 1  6  1 2 3 4 5 6")
    >>> model.to_factor_graph().factors[0].table.round(9)
    array([[1., 2., 3.],
           [4., 5., 6.]])
    """
    if b"#" in content or b"c" in content:
        content = strip_comments(content, "#", r"(?m)^[ \t]*c(?![^\s])")
    kind, body, line = _preamble(content, file)
    numbers = Numbers(body, file, line)
    n = numbers.count("number of variables")
    sizes = numbers.integers(n, "numbers of states", low=1)
    check_states(file, sizes)
    m = numbers.count("number of factors")
    scope_start, scope = read_scopes(numbers, n, m)
    tables = read_tables(numbers, products(scope_start, sizes[scope]))
    numbers.end()
    variables = Variables.numbered(sizes)
    if kind == b"BAYES":
        return directed_or_not(variables, scope_start, scope, tables)
    return undirected(variables, scope_start, scope, tables)


def _preamble(content: bytes, file: str) -> tuple[bytes, bytes, int]:
    """The type of the network, the rest of the text, and the line on which the rest begins."""
    found = _WORD.match(content)
    word = found.group(1).upper() if found else b""
    if found is None or word not in (b"MARKOV", b"BAYES"):
        line = content.count(b"\n", 0, found.start(1)) + 1 if found else 1
        shown = word[:40].decode("ascii", "backslashreplace") or "nothing"
        raise wrong(file, line, f"expected MARKOV or BAYES, got {shown}")
    end = found.end()
    return word, content[end:], content.count(b"\n", 0, end) + 1


def read_scopes(numbers: Numbers, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """CSR arrays of the next `m` scopes over `n` variables."""
    found = numbers.records(m, "factor scopes")
    scope = numbers.as_integers(found.entries, found.place, "variables of a scope", 0, n)
    return starts_of(found.lengths), scope


def read_tables(numbers: Numbers, expected: np.ndarray) -> np.ndarray:
    """Entries of the next tables, each with the expected length."""
    found = numbers.records(len(expected), "factor tables")
    unequal = np.flatnonzero(found.lengths != expected)
    if len(unequal):
        a = int(unequal[0])
        raise numbers.error(
            int(found.starts[a]),
            f"factor {a}: expected {expected[a]:.15g} table entries, got {found.lengths[a]}",
        )
    if len(found.entries) and found.entries.min() < 0:
        k = int(np.flatnonzero(found.entries < 0)[0])
        got = found.entries[k]
        raise numbers.error(found.place(k), f"expected non-negative table entries, got {got:.15g}")
    return found.entries


def undirected(
    variables: Variables, scope_start: np.ndarray, scope: np.ndarray, tables: np.ndarray
) -> MarkovNet:
    """A `MarkovNet` with exactly these weights."""
    with np.errstate(divide="ignore"):
        logs = np.log(tables)
    return MarkovNet.from_graph(FactorGraph.from_flat(variables, scope_start, scope, logs))


def directed_or_not(
    variables: Variables, scope_start: np.ndarray, scope: np.ndarray, tables: np.ndarray
) -> BayesNet | MarkovNet:
    """A `BayesNet` if the tables (child last) are conditional probabilities, else a `MarkovNet`."""
    if _is_directed(variables, scope_start, scope, tables):
        return BayesNet.from_flat(variables, scope_start, scope, tables)
    return undirected(variables, scope_start, scope, tables)


def _is_directed(
    variables: Variables, scope_start: np.ndarray, scope: np.ndarray, tables: np.ndarray
) -> bool:
    n = len(variables)
    arity = np.diff(scope_start)
    if len(arity) != n or (arity == 0).any():
        return False
    children = scope[scope_start[1:] - 1]
    if len(np.unique(children)) < n:
        return False
    sizes = variables.sizes[children]
    rows = products(scope_start, variables.sizes[scope]).astype(np.int64) // sizes
    row_start = starts_of(np.repeat(sizes, rows))
    sums = np.add.reduceat(tables, row_start[:-1]) if n else np.empty(0)
    return bool((np.abs(sums - 1) <= ROWS_ARE_EXACT).all())


def write_uai(model: Any) -> str:
    """Text of a model in UAI form; names and labels have no place in it.

    Examples
    --------
    >>> import credo
    >>> from credo.io.uai import write_uai
    >>> print(write_uai(credo.FactorGraph({"a": 2}, {("a",): [0.25, 3]})))
    MARKOV
    1
    2
    1
    1 0
    <BLANKLINE>
    2
     0.25 3.0
    <BLANKLINE>
    """
    graph = graph_of(model)
    directed = isinstance(model, BayesNet)
    values = model.flat_tables if directed else weights(graph)
    lines = [
        "BAYES" if directed else "MARKOV",
        str(len(graph.variables)),
        text_of(graph.variables.sizes),
        str(graph.n_factors),
    ]
    scope, start = graph.scope.tolist(), graph.scope_start.tolist()
    for a in range(graph.n_factors):
        mine = scope[start[a] : start[a + 1]]
        lines.append(text_of([len(mine), *mine]))
    for first, size in zip(graph.table_start.tolist(), graph.table_size.tolist(), strict=True):
        lines += ["", str(size), " " + text_of(values[first : first + size])]
    return "\n".join(lines) + "\n"


register_format(Format("uai", (".uai",), read_uai, write_uai))
