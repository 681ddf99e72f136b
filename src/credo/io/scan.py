"""The numbers of a file, in order, with the line of each one when something is wrong.

Most formats here are a stream of whitespace-separated numbers whose line breaks mean nothing.
All numbers are converted at once, exactly as `float` would; a reader then takes counts,
indices and values from the stream. Line numbers are worked out only for a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..core.errors import FormatError
from .base import wrong

__all__ = ["NotANumber", "Numbers", "Records", "read_numbers", "strip_comments"]

SMALL = 1 << 16  # bytes; below, loading a compiled kernel costs more than it saves

_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TOKEN = re.compile(rb"\S+")


class NotANumber(ValueError):  # noqa: N818
    """A token is not a number; `byte` is where it begins."""

    def __init__(self, content: bytes, byte: int) -> None:
        found = _TOKEN.match(content, byte)
        self.token = found.group()[:40].decode("ascii", "backslashreplace") if found else ""
        self.line = content.count(b"\n", 0, byte) + 1
        super().__init__(f"expected a number, got {self.token!r}")


def strip_comments(content: bytes, *marks: str) -> bytes:
    """Blank out comments that begin with one of the marks (patterns); lines stay where they are."""
    for mark in marks:
        content = re.sub(mark.encode() + rb"[^\n]*", b"", content)
    return content


def read_numbers(content: bytes) -> np.ndarray:
    """All whitespace-separated numbers of a text, each equal to `float(token)`.

    Raises `NotANumber` for the first token that is not a decimal number; infinities and NaN
    are not numbers here.
    """
    return _read_small(content) if len(content) < SMALL else _read_large(content)


def _read_small(content: bytes) -> np.ndarray:
    tokens = content.split()
    for k, token in enumerate(tokens):
        if not _NUMBER.fullmatch(token):
            raise NotANumber(content, next(islice(_TOKEN.finditer(content), k, None)).start())
    return np.array([float(token) for token in tokens], dtype=np.float64)


def _read_large(content: bytes) -> np.ndarray:
    from ..kernels.text import count_tokens, power_table, scan_numbers

    text = np.frombuffer(content, dtype=np.uint8)
    values = np.empty(count_tokens(text), dtype=np.float64)
    bits = values.view(np.uint64)
    hard = np.empty((4096, 3), dtype=np.int64)
    done = byte = 0
    while byte < len(text):
        count, undecided, at, bad = scan_numbers(text[byte:], bits[done:], hard, power_table())
        for k, first, end in hard[:undecided].tolist():
            values[done + k] = float(content[byte + first : byte + end])
        if bad >= 0:
            raise NotANumber(content, byte + bad)
        done += count
        byte += at
    return values


class Records(NamedTuple):
    """Records (length, entries...) that follow one another in a stream."""

    starts: np.ndarray  # (count + 1,) place of each length in the stream, and the end
    entries: np.ndarray  # all entries one after another

    @property
    def lengths(self) -> np.ndarray:
        """Number of entries of each record."""
        return np.diff(self.starts) - 1

    def place(self, k: int) -> int:
        """Place of entry k in the stream."""
        first = self.starts[:-1] - np.arange(len(self.starts) - 1) - self.starts[0]
        a = int(np.searchsorted(first, k, side="right")) - 1
        return int(self.starts[a] + 1 + k - first[a])


class Numbers:
    """A stream of numbers with a cursor.

    Parameters
    ----------
    content
        The text, without comments.
    file
        Name for messages.
    first_line
        Line of the file on which `content` begins.
    values
        The numbers, when they have been read already.
    """

    def __init__(
        self, content: bytes, file: str, first_line: int = 1, values: np.ndarray | None = None
    ) -> None:
        self.content, self.file, self.first_line = content, file, first_line
        try:
            self.values = read_numbers(content) if values is None else values
        except NotANumber as error:
            raise wrong(file, first_line + error.line - 1, str(error)) from None
        if np.isinf(self.values).any():
            raise self.error(int(np.isinf(self.values).argmax()), "the number is too large for a double")
        self.at = 0

    def __len__(self) -> int:
        return len(self.values)

    def line(self, k: int) -> int:
        """Line of number k, or the last line if there are fewer."""
        found = next(islice(_TOKEN.finditer(self.content), k, None), None)
        end = len(self.content.rstrip()) if found is None else found.start()
        return self.first_line + self.content.count(b"\n", 0, end)

    def error(self, k: int, message: str) -> FormatError:
        """The error for number k."""
        return wrong(self.file, self.line(k), message)

    def shortage(self, what: str, wanted: int) -> FormatError:
        """The error for a file that ends too early."""
        left = len(self) - self.at
        return self.error(len(self), f"expected {wanted} {what}, got {left}; the file ends too early")

    def floats(self, count: int, what: str) -> np.ndarray:
        """The next `count` numbers."""
        if count > len(self) - self.at:
            raise self.shortage(what, count)
        found = self.values[self.at : self.at + count]
        self.at += count
        return found

    def integers(self, count: int, what: str, low: int = 0, below: int | None = None) -> np.ndarray:
        """The next `count` numbers, which must be integers in [low, below)."""
        start = self.at
        return self.as_integers(self.floats(count, what), lambda k: start + k, what, low, below)

    def count(self, what: str, low: int = 0, below: int | None = None) -> int:
        """The next number, which must be an integer in [low, below)."""
        return int(self.integers(1, what, low, below)[0])

    def as_integers(
        self, values: np.ndarray, place: Callable[[int], int], what: str, low: int, below: int | None
    ) -> np.ndarray:
        """Check that numbers, value k from `place(k)` of the stream, are integers in [low, below)."""
        top = float(1 << 53) if below is None else float(below)
        fine = (values == np.floor(values)) & (values >= low) & (values < top)
        if not fine.all():
            k = int(np.flatnonzero(~fine)[0])
            limits = f"from {low}" + ("" if below is None else f" to {below - 1}")
            raise self.error(place(k), f"{what}: expected integers {limits}, got {values[k]:.15g}")
        return values.astype(np.int64)

    def records(self, count: int, what: str) -> Records:
        """The next `count` records (length, entries...)."""
        from_here = self.at
        if count > len(self) - from_here:
            raise self.shortage(what, count)
        starts, whole = self._walk("record_starts", count)
        if whole < count:
            raise self._broken(what, count, whole, int(starts[whole]))
        self.at = int(starts[-1])
        return Records(starts, np.delete(self.values[from_here : self.at], starts[:-1] - from_here))

    def blocks(self, kind: str, count: int, what: str, expected: str) -> np.ndarray:
        """Starts of the next `count` blocks, which must be whole and the last in the file; see `_walk`.

        `what` is the name of one block, `expected` says in messages what a block is made of.
        """
        if count > len(self) - self.at:
            raise self.shortage(f"{what}s", count)
        starts, whole = self._walk(kind, count)
        if whole < count:
            raise self.error(
                int(starts[whole]),
                f"{what} {whole}: expected {expected}; it is damaged or the file ends too early",
            )
        self.at = int(starts[-1])
        self.end()
        return starts[:-1]

    def _walk(self, kind: str, count: int) -> tuple[np.ndarray, int]:
        """Starts of the next `count` records, by a function of `kernels.walks`, and how many are whole."""
        starts = np.empty(count + 1, dtype=np.int64)
        if len(self) < SMALL // 4:  # numbers, of about four bytes each
            from ..kernels import walks

            return starts, getattr(walks, kind)(self.values.tolist(), self.at, count, starts)
        from ..kernels import text

        return starts, int(getattr(text, kind)(self.values, self.at, count, starts))

    def _broken(self, what: str, count: int, whole: int, place: int) -> FormatError:
        """The error for record number `whole`, whose length stands at `place`."""
        if place >= len(self):
            return self.error(place, f"expected {count} {what}, got {whole}; the file ends too early")
        length, left = self.values[place], len(self) - place - 1
        if length < 0 or length % 1:
            return self.error(place, f"{what}: expected a number of entries, got {length:.15g}")
        return self.error(
            place, f"{what}: expected {length:.15g} entries, got {left}; the file ends too early"
        )

    def end(self) -> None:
        """Refuse numbers after the last one that was taken."""
        if self.at < len(self):
            raise self.error(self.at, f"expected the end of the file, got {len(self) - self.at} more numbers")
