"""BIF, the Interchange Format for Bayesian networks (`.bif`).

    network unknown { }
    variable rain { type discrete [ 2 ] { no, yes }; }
    variable wet { type discrete [ 2 ] { no, yes }; }
    probability ( rain ) { table 0.8, 0.2; }
    probability ( wet | rain ) { (no) 0.9, 0.1; (yes) 0.05, 0.95; }

A row starts with the states of the parents in brackets. `default` fills the rows that are not
listed. `table` lists everything with the child's axis slowest and the last parent fastest, as
the format's description says. Commas and bars only separate; names and states may stand in
double quotes; `//` and `/* */` are comments; `property` lines are skipped.

Each block is found by one compiled expression, rows are split by the string methods, and the
numbers of a block are converted together, so the time is a small multiple of that conversion.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import product
from typing import Any

import numpy as np

from ..core.errors import FormatError
from ..models.bayes_net import BayesNet
from .base import Format, register_format, wrong
from .directed import Draft, NodeFamily, check_names, network_of, rows_of
from .lexer import MARK, SourceText

__all__ = ["read", "write"]

# `://` belongs to an address in a property and starts no comment.
_COMMENT = r"//(?<!://)[^\n]*+|/\*.*?\*/"
_HEAD = re.compile(
    r"(?:network\b[^{}]*+|variable\s+([^\s{}()\[\],;|]++)\s*|probability\s*\(([^{}()]*+)\)\s*)\{"
)
_UNOPENED = re.compile(r"(?:network|variable|probability)\b[^{}]*+\Z")
_TYPE = re.compile(r"type\s+(\w+)\s*\[\s*(\d{1,9})\s*\]\s*\{([^{}]*+)\}\Z")
Statement = tuple[int, list[str]]  # its number in the block, and its words without the keyword

_BARE = re.compile(r"(?!.*//|.*/\*)[\w.+<>/-]+")


def read(content: bytes, file: str) -> BayesNet:
    """Read a Bayesian network from the bytes of a file, whose name is for messages.

    Examples
    --------
    >>> from credo.io.bif import read
    >>> text = b"variable a { type discrete [2] { no, yes }; } probability ( a ) { table 0.8, 0.2; }"
    >>> read(text, "a.bif").tables["a"]
    array([0.8, 0.2])
    """
    return _BifReader(SourceText(content, file, _COMMENT, ("//", "/*"))).run()


class _BifReader:
    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.draft = Draft(source.file)

    def run(self) -> BayesNet:
        source, text = self.source, self.source.text
        tables = []
        at = 0
        while (at := source.skip_blanks(at)) < len(text):
            head = _HEAD.match(text, at)
            if head is None:
                raise self._no_block(at)
            if head[1]:
                at = self._variable(at, head)
                continue
            end = text.find("}", head.end())
            if end < 0:
                raise self._unclosed_error(at)
            # Tables wait for the last variable: blocks may come in any order.
            if head[2] is not None:
                tables.append((at, head[2], head.end(), end))
            at = end + 1
        for start, names, begin, end in tables:
            family = self._family(names, source.line(start))
            _ProbabilityBlock(source, self.draft, family, begin, end).read()
        return self.draft.finish()

    def _no_block(self, at: int) -> FormatError:
        if _UNOPENED.match(self.source.text, at):
            return self._unclosed_error(at)
        shown = self.source.readable(self.source.text[at : at + 60])
        return self.source.error(at, f"expected a network, variable or probability block, got {shown!r}")

    def _unclosed_error(self, at: int) -> FormatError:
        shown = self.source.readable(self.source.text[at : at + 60])
        return self.source.error(at, f"block {shown!r} is not closed; is the file cut off?")

    def _variable(self, start: int, head: re.Match[str]) -> int:
        """Declare the variable of a block; returns the position after it."""
        source, text = self.source, self.source.text
        name, at = source.name(head[1]), source.skip_blanks(head.end())
        states = None
        while not text.startswith("}", at):
            is_type = text.startswith("type", at)
            end = text.find(";", text.find("}", at) if is_type else at)
            if end < 0:
                raise self._unclosed_error(start)
            statement = text[at:end].rstrip()
            if is_type and states is None:
                states = self._states(name, statement, at)
            elif not statement.startswith("property") or "}" in statement:
                shown = source.readable(statement)
                raise source.error(at, f"variable '{name}': expected one type, or a property, got {shown!r}")
            at = source.skip_blanks(end + 1)
        if states is None:
            raise source.error(
                start, f"variable '{name}': expected 'type discrete [ n ] {{ ... }};', got none"
            )
        self.draft.declare(name, states, source.line(start))
        return at + 1

    def _states(self, name: str, statement: str, at: int) -> list[str]:
        source = self.source
        found = _TYPE.match(statement)
        if found is None:
            shown = source.readable(statement)
            raise source.error(
                at, f"variable '{name}': expected 'type discrete [ n ] {{ ... }};', got {shown!r}"
            )
        if found[1] != "discrete":
            raise source.error(
                at, f"variable '{name}' is {found[1]}; only discrete ones can be read from BIF"
            )
        count = int(found[2])
        labels = _split(found[3], count)
        if len(labels) != count:
            raise source.error(at, f"variable '{name}': expected {count} states, got {len(labels)}")
        return [source.name(label) for label in labels]

    def _family(self, names: str, line: int) -> NodeFamily:
        tokens = names.replace("|", " ").replace(",", " ").split()
        if not tokens:
            raise wrong(self.source.file, line, "probability block: expected ( child | parents ), got none")
        child, *parents = map(self.source.name, tokens)
        return self.draft.family(child, parents, line)


class _ProbabilityBlock:
    """The body of one probability block, text[begin:end]."""

    def __init__(self, source: SourceText, draft: Draft, family: NodeFamily, begin: int, end: int) -> None:
        self.source, self.draft, self.family, self.begin = source, draft, family, begin
        self.statements = source.text[begin:end].split(";")
        self.where: list[int] = []  # number of the statement each row comes from
        self.brackets: list[str] = []  # "(" and the states of the parents, per row
        self.values: list[list[str]] = []  # tokens per row

    def read(self) -> None:
        """Convert the statements and hand the table over."""
        draft, family = self.draft, self.family
        whole, default = self._sort_statements()
        if whole:
            number, tokens = whole
            if default or self.values:
                raise self._wrong(number, "expected either a table or rows, got both")
            values = draft.tabulate(family, tokens, self._line(number))
            draft.add(values.reshape(family.size, family.rows).T)
            return
        if not default and len(self.values) < family.rows:
            raise self._wrong(None, f"expected {family.rows} rows, got {len(self.values)} and no default")
        draft.check_size(family)
        order = self._row_numbers()
        if default:
            self.where.append(default[0])
            self.values.append(default[1])
        for number, tokens in zip(self.where, self.values, strict=True):
            if len(tokens) != family.size:
                raise self._wrong(number, f"expected {family.size} entries in a row, got {len(tokens)}")
        rows = draft.numbers(f"table of '{family.name}'", self.values, lambda k: self._line(self.where[k]))
        table = np.empty((family.rows, family.size))
        if default:
            table[:] = rows[-1]
        table[order] = rows[: len(order)]
        draft.add(table)

    def _sort_statements(self) -> tuple[Statement | None, Statement | None]:
        """Collect the rows; returns the statements `table` and `default` where there are any."""
        found: dict[str, Statement] = {}
        last = len(self.statements) - 1
        for number, statement in enumerate(self.statements):
            bracket, closed, rest = statement.partition(")")
            if closed and number < last:
                self.where.append(number)
                self.brackets.append(bracket)
                self.values.append(rest.replace(",", " ").split())
                continue
            words = statement.replace(",", " ").split()
            if number == last:
                if words:
                    raise self._wrong(number, f"expected ';' after {self.source.readable(statement)!r}")
            elif words and words[0] in ("table", "default") and words[0] not in found:
                found[words[0]] = (number, words[1:])
            elif not words or words[0] != "property":
                shown = self.source.readable(statement)
                raise self._wrong(number, f"expected a row, one table or one default, got {shown!r}")
        return found.get("table"), found.get("default")

    def _row_numbers(self) -> np.ndarray:
        """Row of the table that each bracket means."""
        arity = len(self.family.parents)
        labels = [b.replace("(", " ").replace(",", " ").split() for b in self.brackets]
        if any(b.lstrip()[:1] != "(" for b in self.brackets) or any(len(b) != arity for b in labels):
            labels = [self._labels(number, b) for number, b in zip(self.where, self.brackets, strict=True)]
        order = np.zeros(len(labels), dtype=np.int64)
        for k, column in enumerate(zip(*labels, strict=True)):
            place = self._places(k)
            try:
                states = list(map(place.__getitem__, column))
            except KeyError:
                row = next(row for row, label in enumerate(column) if label not in place)
                raise self._unknown_state(self.where[row], k, self.source.name(column[row])) from None
            order = order * self.family.sizes[k] + states
        if len(set(order.tolist())) < len(order):
            self._refuse_repeats(order.tolist())
        return order

    def _refuse_repeats(self, order: list[int]) -> None:
        seen: set[int] = set()
        for row, number in enumerate(order):
            if number in seen:
                shown = self.source.readable(self.brackets[row].strip() + ")")
                raise self._wrong(self.where[row], f"row {shown} is given twice")
            seen.add(number)

    def _labels(self, number: int, bracket: str) -> list[str]:
        """States in one bracket, with room for labels that contain blanks."""
        arity = len(self.family.parents)
        if bracket.lstrip()[:1] != "(":
            shown = self.source.readable(bracket)
            raise self._wrong(number, f"expected a row '(states) values', got {shown!r}")
        labels = _split(bracket.lstrip()[1:], arity)
        if len(labels) != arity:
            raise self._wrong(number, f"expected {arity} states in brackets, got {len(labels)}")
        return labels

    def _places(self, k: int) -> dict[str, int]:
        """Index of each state of a parent, under every token that stands for it."""
        labels = self.draft.labels[self.family.parents[k]]
        return {token: i for i, label in enumerate(labels) for token in self.source.spellings(label)}

    def _unknown_state(self, number: int, k: int, label: str) -> FormatError:
        parent = self.family.parents[k]
        states = list(self.draft.labels[parent][:12])
        return self._wrong(
            number, f"'{self.draft.names[parent]}' has no state '{label}'; its states are {states}"
        )

    def _line(self, number: int) -> int:
        """Line on which one of the statements starts."""
        at = self.begin + sum(len(s) + 1 for s in self.statements[:number])
        return self.source.line(self.source.skip_blanks(at))

    def _wrong(self, number: int | None, message: str) -> FormatError:
        line = self.family.line if number is None else self._line(number)
        return wrong(self.source.file, line, f"table of '{self.family.name}': {message}")


def _split(text: str, count: int) -> list[str]:
    """Tokens between commas or blanks; by commas alone if that gives the expected count."""
    tokens = text.replace(",", " ").split()
    # What stands next to a quoted name is no part of it.
    if len(tokens) != count and MARK not in text:
        by_comma = [" ".join(part.split()) for part in text.split(",")]
        if len(by_comma) == count and all(by_comma):
            return by_comma
    return tokens


def write(model: Any) -> str:
    """Write a `BayesNet`; names that need it are quoted.

    Examples
    --------
    >>> from credo import BayesNet
    >>> from credo.io.bif import write
    >>> print(write(BayesNet({"a": ["no", "yes"]}, {}, {"a": [0.8, 0.2]})))
    network unknown {
    }
    variable a {
      type discrete [ 2 ] { no, yes };
    }
    probability ( a ) {
      table 0.8, 0.2;
    }
    <BLANKLINE>
    """
    model = network_of(model, "BIF")
    check_names(model, "BIF", _fits, "names without double quotes and control characters")
    quoted = {v.name: (_quote(v.name), [_quote(s) for s in v.states]) for v in model.variables}
    parts = ["network unknown {\n}\n"]
    for name, states in quoted.values():
        parts.append(
            f"variable {name} {{\n  type discrete [ {len(states)} ] {{ {', '.join(states)} }};\n}}\n"
        )
    for name, table in model.tables.items():
        parents = model.parents[name]
        child = quoted[name][0]
        if not parents:
            parts.append(f"probability ( {child} ) {{\n  table {rows_of(table, ', ')[0]};\n}}\n")
            continue
        given = ", ".join(quoted[p][0] for p in parents)
        # The first parent runs fastest, as other programs write it: some readers rely on it.
        rows = rows_of(table.transpose(*range(len(parents))[::-1], -1), ", ")
        brackets = product(*(quoted[p][1] for p in parents[::-1]))
        lines = [f"  ({', '.join(b[::-1])}) {row};\n" for b, row in zip(brackets, rows, strict=True)]
        parts.append(f"probability ( {child} | {given} ) {{\n{''.join(lines)}}}\n")
    return "".join(parts)


def _fits(name: str) -> bool:
    return '"' not in name and not any(unicodedata.category(c) == "Cc" for c in name)


def _quote(name: str) -> str:
    return name if _BARE.fullmatch(name) else f'"{name}"'


FORMAT = register_format(Format("bif", (".bif",), read, write))
