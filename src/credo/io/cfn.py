"""Cost function networks of toulbar2 (`.cfn`), reading only.

    { problem: { name: test, mustbe: "<12.5" },
      variables: { v1: [a b c], v2: 2 },
      functions: {
        f12: { scope: [v1 v2], costs: [4.2, 3.6, -12.1, 7.1, -3.1, 100.2] },
        f21: { scope: [v2 v1], defaultcost: 0.5, costs: [0 a 5,  1 c 6.25] },
        g:   { scope: [v1 v2], costs: f12 } } }

JSON with freedoms: quotes, commas and colons may be left out, braces and brackets are the same, a
line that begins with # is a comment. Variables may come without names, functions too; scopes and
tuples name variables and states or give their positions; costs are listed with the last variable
fastest, or as tuples over a default cost, or by the name of a function with the same table.

Units: with `mustbe: "<k"` a cost c becomes the log weight -c (natural logarithm); with `">k"`,
where the largest total wins, a value c becomes +c. What cannot stay on the right side of the bound
k whatever the other functions do is forbidden, weight zero; without negative costs this is a cost
of at least k. A sum of allowed costs that reaches k is not excluded. Functions with a `type`
(arithmetic or global) and interval variables (negative sizes) are refused by name.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import UnsupportedError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variable, Variables
from ..core.wiring import starts_of
from ..models.mrf import MarkovNet
from .base import Format, register_format, wrong
from .scan import NotANumber, read_numbers
from .tables import check_dense, check_states, products
from .wcsp import log_weights

__all__ = ["read_cfn"]

_BRACKET = re.compile(rb"([\[\]{}])")
_NUMERIC = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TAGS = ("scope", "defaultcost", "costs", "type", "params", "parameters")


class _Bracket(NamedTuple):
    """What stands between two brackets: words (one chunk of text each) and inner groups."""

    items: list[Any]  # bytes or _Bracket
    line: int  # of the opening bracket

    def words(self) -> list[Any]:
        """Single words and groups, in order."""
        found: list[Any] = []
        for item in self.items:
            found += [item] if isinstance(item, _Bracket) else _words(item)
        return found

    def flat(self) -> bytes:
        """All words, inner brackets ignored."""
        return b" ".join(item.flat() if isinstance(item, _Bracket) else item for item in self.items)


class _Function(NamedTuple):
    line: int
    scope: list[int]
    default: float | None
    costs: _Bracket | str


def read_cfn(content: bytes, file: str = "<bytes>") -> MarkovNet:
    """Read a cost function network.

    Examples
    --------
    >>> from credo.io.cfn import read_cfn
    >>> model = read_cfn(b"{ {t <9} {a:[no yes] b:2} { {scope:[a b] costs:[1 2 3 9]} } }")
    >>> model.to_factor_graph().log_table(0)
    array([[ -1.,  -2.],
           [ -3., -inf]])
    """
    outer = [g for g in _parse(content, file).items if isinstance(g, _Bracket)]
    parts = [g for g in (outer[0].items if outer else []) if isinstance(g, _Bracket)]
    if len(parts) < 3:
        raise wrong(file, 1, f"expected the groups problem, variables and functions, got {len(parts)}")
    bound, sign = _bound(parts[0], file)
    variables = _variables(parts[1], file)
    named = _functions(parts[2], variables, file)
    return _build(named, variables, bound, sign, file)


def _words(chunk: bytes) -> list[str]:
    text = chunk.decode("utf-8", "backslashreplace")
    return [word.strip('"') for word in re.split(r"[\s,:]+", text) if word]


def _parse(content: bytes, file: str) -> _Bracket:
    """Nested groups; only the outermost closing bracket may be missing, as in some public files."""
    content = re.sub(rb"(?m)^#[^\n]*", b"", content)
    stack = [_Bracket([], 1)]
    line = 1
    for part in _BRACKET.split(content):
        if part in (b"[", b"{"):
            group = _Bracket([], line)
            stack[-1].items.append(group)
            stack.append(group)
        elif part in (b"]", b"}"):
            if len(stack) == 1:
                raise wrong(file, line, f"expected an opening bracket before '{part.decode()}'")
            stack.pop()
        elif part:
            if part.strip(b" \t\r\n,:"):
                stack[-1].items.append(part)
            line += part.count(b"\n")
    if len(stack) > 2:
        raise wrong(file, line, f"expected {len(stack) - 1} closing brackets, got the end of the file")
    return stack[0]


def _bound(problem: _Bracket, file: str) -> tuple[float, int]:
    """The bound on the total cost, and the sign that turns a minimum into a maximum."""
    for word in reversed(problem.words()):
        if isinstance(word, str) and word[:1] in ("<", ">"):
            if not _NUMERIC.fullmatch(word[1:]):
                raise wrong(
                    file, problem.line, f"mustbe: expected a number after '{word[0]}', got {word[:40]!r}"
                )
            sign = 1 if word[0] == "<" else -1
            return sign * float(word[1:]), sign
    raise wrong(file, problem.line, "expected a bound such as mustbe: <10.0 in the group problem, got none")


def _variables(group: _Bracket, file: str) -> Variables:
    made: list[Variable] = []
    name: str | None = None
    for item in group.words():
        if isinstance(item, str) and not _NUMERIC.fullmatch(item):
            if name is not None:
                raise wrong(file, group.line, f"variable '{name}': expected its states, got {item[:40]!r}")
            name = item
            continue
        title = f"x{len(made)}" if name is None else name
        states = item.words() if isinstance(item, _Bracket) else _size(item, title, group, file)
        if isinstance(states, list) and not all(isinstance(s, str) for s in states):
            raise wrong(file, item.line, f"variable '{title}': expected state names, got inner brackets")
        made.append(Variable(title, states))
        name = None
    return Variables.of(made)


def _size(word: str, name: str, group: _Bracket, file: str) -> int:
    size = float(word)
    if size < 0:
        raise UnsupportedError(
            f"{file}, line {group.line}: variable '{name}' is an interval ({word}); "
            "credo reads variables with listed states only"
        )
    if size % 1 or size < 1:
        raise wrong(file, group.line, f"variable '{name}': expected a number of states, got {word[:40]}")
    check_states(file, np.array([size]))
    return int(size)


def _functions(group: _Bracket, variables: Variables, file: str) -> dict[str, _Function]:
    found: dict[str, _Function] = {}
    known = {name: i for i, name in enumerate(variables.names)}
    name: str | None = None
    for item in group.words():
        if isinstance(item, str):
            name = item
            continue
        title = f" {len(found)}" if name is None else name  # a blank cannot occur in a name
        if title in found:
            raise wrong(file, item.line, f"the function '{title}' is defined twice")
        found[title] = _function(item, title.strip(), known, file)
        name = None
    return found


def _function(group: _Bracket, name: str, known: dict[str, int], file: str) -> _Function:
    words = group.words()
    if "type" in words[:-1]:
        kind = words[words.index("type") + 1]
        raise UnsupportedError(
            f"{file}, line {group.line}: the function '{name}' is of type {str(kind)[:40]!r}; "
            "credo reads cost tables only"
        )
    rest = [w for w in words if not (isinstance(w, str) and w in _TAGS)]
    fits = 2 <= len(rest) <= 3 and isinstance(rest[0], _Bracket)
    if not fits or (len(rest) == 3 and not (isinstance(rest[1], str) and _NUMERIC.fullmatch(rest[1]))):
        raise wrong(file, group.line, f"function '{name}': expected a scope and costs, got {len(rest)} parts")
    default = float(rest[1]) if len(rest) == 3 else None
    if default is not None and math.isinf(default):
        raise wrong(file, group.line, f"function '{name}': the default cost is too large for a double")
    scope = [_position(w, known, rest[0], file) for w in rest[0].words()]
    if len(set(scope)) < len(scope):
        raise wrong(file, group.line, f"function '{name}': a variable appears twice in the scope")
    return _Function(group.line, scope, default, rest[-1])


def _position(word: Any, known: dict[str, int], group: _Bracket, file: str) -> int:
    """Position of a variable given by its name or position."""
    if isinstance(word, str):
        if word in known:
            return known[word]
        if re.fullmatch("[0-9]{1,9}", word) and int(word) < len(known):
            return int(word)
    raise wrong(file, group.line, f"expected a variable in the scope, got {word!r:.40}")


def _build(
    named: dict[str, _Function], variables: Variables, bound: float, sign: int, file: str
) -> MarkovNet:
    functions = list(named.values())
    scope_start = starts_of([len(f.scope) for f in functions])
    scope = np.array([i for f in functions for i in f.scope], dtype=np.int64)
    check_states(file, variables.sizes)
    table_size = products(scope_start, variables.sizes[scope])
    owners = {name: _owner(name, named, file) for name in named}
    own = np.array([owners[name] == name for name in named], dtype=bool)
    check_dense(file, table_size[own])
    tables, begin, length = {}, {}, 0
    for name, f in named.items():
        if owners[name] == name:
            tables[name] = sign * _table(f, name.strip(), variables, file)
            begin[name] = length
            length += tables[name].size
    for name, f in named.items():
        wanted, got = ([variables.sizes[i] for i in g.scope] for g in (f, named[owners[name]]))
        if wanted != got:
            raise wrong(file, f.line, f"function '{name.strip()}': the shared table has another shape")
    # What the other functions can at best contribute decides whether an entry can still stay
    # below the bound; it is zero when no cost is negative.
    least = {name: min(0.0, float(table.min())) for name, table in tables.items()}
    total = sum(least[owners[name]] for name in named)
    logs = [log_weights(table, bound - (total - least[name])) for name, table in tables.items()]
    graph = FactorGraph.from_flat(
        variables,
        scope_start,
        scope,
        np.concatenate(logs) if logs else np.empty(0),
        table_start=np.array([begin[owners[name]] for name in named], dtype=np.int64),
    )
    return MarkovNet.from_graph(graph)


def _owner(name: str, named: dict[str, _Function], file: str) -> str:
    """The function whose own table is used, following references."""
    seen = [name]
    while isinstance(reference := named[seen[-1]].costs, str):
        if reference not in named or reference in seen:
            shown = f"function '{name.strip()}': expected costs or another function, got {reference[:40]!r}"
            raise wrong(file, named[name].line, shown)
        seen.append(reference)
    return seen[-1]


def _table(f: _Function, name: str, variables: Variables, file: str) -> np.ndarray:
    """Costs in C order."""
    assert isinstance(f.costs, _Bracket)
    shape = [int(variables.sizes[i]) for i in f.scope]
    text = re.sub(rb'[,:"]', b" ", f.costs.flat())
    size = math.prod(shape)
    if f.default is None:
        costs = _costs(text, f, name, file)
        if len(costs) != size:
            raise wrong(file, f.line, f"function '{name}': expected {size} costs, got {len(costs)}")
        return costs
    width = len(shape) + 1
    words = text.split()
    if len(words) % width:
        raise wrong(file, f.line, f"function '{name}': expected tuples of {width} words, got {len(words)}")
    place = np.zeros(len(words) // width, dtype=np.int64)
    for k, i in enumerate(f.scope):
        states = _states(words[k::width], variables[i], f, file)
        place = place * shape[k] + np.array(states, dtype=np.int64)
    costs = np.full(size, f.default)
    costs[place] = _costs(b" ".join(words[width - 1 :: width]), f, name, file)
    return costs


def _states(words: list[bytes], variable: Variable, f: _Function, file: str) -> list[int]:
    """State positions of words that are state names or positions."""
    known = {str(k).encode(): k for k in range(variable.size)}
    known |= {label.encode(): k for k, label in enumerate(variable.states)}
    try:
        return [known[word] for word in words]
    except KeyError as error:
        shown = error.args[0][:40].decode("ascii", "backslashreplace")
        raise wrong(file, f.line, f"variable '{variable.name}' has no state {shown!r}") from None


def _costs(text: bytes, f: _Function, name: str, file: str) -> np.ndarray:
    try:
        costs = read_numbers(text)
    except NotANumber as error:
        raise wrong(file, f.line, f"function '{name}': {error}") from None
    if np.isinf(costs).any():
        raise wrong(file, f.line, f"function '{name}': a cost is too large for a double")
    return costs


register_format(Format("cfn", (".cfn",), read_cfn))
