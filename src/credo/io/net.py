"""Hugin's NET language (`.net`).

    net { }
    node rain { states = ("no" "yes"); }
    node wet { states = ("no" "yes"); }
    potential (rain) { data = (0.8 0.2); }
    potential (wet | rain) { data = ((0.9 0.1)(0.05 0.95)); }

In `data` the first parent is slowest and the child fastest; the inner brackets, one pair per
row, may be left out. Comments run from `%` to the end of the line. Fields other than `states`
and `data` (labels, positions, ...) are skipped. Continuous, decision and utility nodes, potentials
given by an expression, and networks made of instances of other classes are refused.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from ..core.errors import FormatError
from ..models.bayes_net import BayesNet
from .base import Format, register_format, wrong
from .directed import Draft, NodeFamily, check_names, network_of, rows_of
from .lexer import SourceText

__all__ = ["read", "write"]

_HEAD = re.compile(r"([^{}();]*+)(?:\(([^{}();]*+)\)\s*)?\{")
_GROUP = re.compile(r"\(([^()]*+)\)")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def read(content: bytes, file: str) -> BayesNet:
    """Read a Bayesian network from the bytes of a file, whose name is for messages.

    Examples
    --------
    >>> from credo.io.net import read
    >>> text = b'net { } node a { states = ("no" "yes"); } potential (a) { data = (0.8 0.2); }'
    >>> read(text, "a.net").tables["a"]
    array([0.8, 0.2])
    """
    return _NetReader(SourceText(content, file, r"%[^\n]*+", ("%",), escapes=True)).run()


class _NetReader:
    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.draft = Draft(source.file)
        self.depth = 0  # of enclosing classes

    def run(self) -> BayesNet:
        source, text = self.source, self.source.text
        potentials = []
        at = 0
        while (at := source.skip_blanks(at)) < len(text):
            if text.startswith("}", at) and self.depth:
                self.depth -= 1
                at += 1
                continue
            head = _HEAD.match(text, at)
            words = head[1].split() if head else []
            if head is None or not words:
                at = self._field(at)
                continue
            if words[0] == "class" and len(words) == 2 and not self.depth:
                self.depth += 1
                at = head.end()
                continue
            end = text.find("}", head.end())
            if end < 0:
                raise self._unclosed_error(at)
            if words == ["potential"]:
                potentials.append((at, head[2] or "", head.end(), end))
            elif words != ["net"] or head[2] is not None:
                self._node(words if head[2] is None else [*words, "("], at, head.end(), end)
            at = end + 1
        if self.depth:
            raise source.error(len(text), "the class is not closed; is the file cut off?")
        for start, names, begin, end in potentials:
            self._potential(names, start, begin, end)
        return self.draft.finish()

    def _field(self, at: int) -> int:
        """Skip a field of the class; anything else outside a block is refused."""
        text, end = self.source.text, self.source.text.find(";", at)
        statement = text[at : end if end >= 0 else at + 60]
        if self.depth and end >= 0 and re.match(r"\w+\s*=", statement):
            return end + 1
        if re.match(r"(?:net|node|discrete|potential|class)\b[^{}]*+\Z", text[at:]):
            raise self._unclosed_error(at)
        shown = self.source.readable(statement)
        if statement.startswith("instance"):
            raise self.source.error(at, f"{shown!r}: instances of other classes cannot be read")
        raise self.source.error(at, f"expected a net, node or potential block, got {shown!r}")

    def _unclosed_error(self, at: int) -> FormatError:
        shown = self.source.readable(self.source.text[at : at + 60])
        return self.source.error(at, f"block {shown!r} is not closed; is the file cut off?")

    def _node(self, words: list[str], at: int, begin: int, end: int) -> None:
        source = self.source
        line, name = source.line(at), source.name(words[-1])
        if words[:-1] not in (["node"], ["discrete", "node"]):
            kind = " ".join(words[:-1])
            if kind not in _REFUSED:
                shown = source.readable(" ".join(words))
                raise wrong(source.file, line, f"expected a net, node or potential block, got {shown!r}")
            raise wrong(
                source.file, line, f"'{name}' is a {_REFUSED[kind]}; only discrete chance nodes can be read"
            )
        states = self._fields(f"node '{name}'", begin, end).get("states")
        if states is None:
            raise wrong(source.file, line, f"node '{name}': expected states = (...), got none")
        at, value = states
        inner = _GROUP.fullmatch(value)
        if inner is None:
            shown = source.readable(value)
            raise source.error(at, f"node '{name}': expected states in brackets, got {shown!r}")
        self.draft.declare(name, [source.name(label) for label in inner[1].split()], line)

    def _fields(self, what: str, begin: int, end: int) -> dict[str, tuple[int, str]]:
        """Fields `key = value;` of a block: key -> (position, value)."""
        source = self.source
        found: dict[str, tuple[int, str]] = {}
        at = begin
        *fields, rest = source.text[begin:end].split(";")
        for field in fields:
            key, equals, value = field.partition("=")
            key = key.strip()
            if not equals or not key:
                shown = source.readable(field)
                raise source.error(source.skip_blanks(at), f"{what}: expected 'key = value;', got {shown!r}")
            if key in found and key in ("states", "data"):
                raise source.error(source.skip_blanks(at), f"{what}: {key} is given twice")
            found[key] = (source.skip_blanks(at), value.strip())
            at += len(field) + 1
        if rest.strip():
            shown = source.readable(rest)
            raise source.error(source.skip_blanks(at), f"{what}: expected ';' after {shown!r}")
        return found

    def _potential(self, names: str, start: int, begin: int, end: int) -> None:
        source, line = self.source, self.source.line(start)
        left, _, right = names.partition("|")
        children = [source.name(n) for n in left.split()]
        if len(children) != 1 or "|" in right:
            shown = source.readable(names)
            raise wrong(
                source.file,
                line,
                f"potential ({shown}): expected one child before the bar, got {len(children)}; "
                "chain graphs cannot be read",
            )
        family = self.draft.family(children[0], [source.name(n) for n in right.split()], line)
        fields = self._fields(f"table of '{family.name}'", begin, end)
        if "data" not in fields:
            given = "an expression" if "model_data" in fields else "none"
            raise wrong(source.file, line, f"table of '{family.name}': expected data = (...), got {given}")
        at, value = fields["data"]
        tokens = self._entries(family, at, value)
        self.draft.add(self.draft.tabulate(family, tokens, source.line(at)))

    def _entries(self, family: NodeFamily, at: int, value: str) -> list[str]:
        """Numbers in nested brackets; where inner brackets show the shape, it must be the right one."""
        what = f"table of '{family.name}'"
        rows = [group.split() for group in _GROUP.findall(value)]
        skeleton = "".join(_GROUP.sub("", value).split())
        nested = ""
        for size in reversed(family.sizes):
            nested = f"({nested * size})"
        if len(rows) > 1 or skeleton:
            if skeleton not in (nested, "()"):
                shown = self.source.readable(value)
                raise self.source.error(
                    at, f"{what}: expected matching brackets around numbers, got {shown!r}"
                )
            if len(rows) != family.rows:
                raise self.source.error(at, f"{what}: expected {family.rows} rows, got {len(rows)}")
            odd = next((row for row in rows if len(row) != family.size), None)
            if odd is not None:
                raise self.source.error(
                    at, f"{what}: expected {family.size} entries in a row, got {len(odd)}"
                )
        return [token for row in rows for token in row]


_REFUSED = {
    "continuous node": "continuous node",
    "continuous chance node": "continuous node",
    "decision": "decision node",
    "discrete decision": "decision node",
    "continuous decision": "decision node",
    "utility": "utility node",
    "function": "function node",
    "continuous function": "function node",
    "discrete function": "function node",
}


def write(model: Any) -> str:
    """Write a `BayesNet`; variable names must be identifiers, states may be any text.

    Examples
    --------
    >>> from credo import BayesNet
    >>> from credo.io.net import write
    >>> print(write(BayesNet({"a": ["no", "yes"]}, {}, {"a": [0.8, 0.2]})))
    net
    {
    }
    node a
    {
        states = ("no" "yes");
    }
    potential (a)
    {
        data = (0.8 0.2);
    }
    <BLANKLINE>
    """
    model = network_of(model, "NET")
    rule = "variable names of letters, digits and underscores, and states without control characters"
    check_names(model, "NET", _IDENTIFIER.fullmatch, rule, states=_printable)
    parts = ["net\n{\n}\n"]
    for variable in model.variables:
        states = " ".join(map(_quote, variable.states))
        parts.append(f"node {variable.name}\n{{\n    states = ({states});\n}}\n")
    for name, table in model.tables.items():
        parents = model.parents[name]
        rows = [f"({row})" for row in rows_of(table, " ")]
        for k, size in enumerate(table.shape[-2::-1]):
            between = "\n           " if k == 0 else ""
            rows = [f"({between.join(rows[i : i + size])})" for i in range(0, len(rows), size)]
        scope = f"{name} | {' '.join(parents)}" if parents else name
        parts.append(f"potential ({scope})\n{{\n    data = {rows[0]};\n}}\n")
    return "".join(parts)


def _quote(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _printable(label: str) -> bool:
    return not any(unicodedata.category(c) == "Cc" for c in label)


FORMAT = register_format(Format("net", (".net",), read, write))
