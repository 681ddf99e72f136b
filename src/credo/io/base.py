"""What a file format is, and the table of formats.

A format is one file of this folder: a reader that turns text into a model and, where there is
one, a writer that turns a model into text. Compression and file names are handled once, in
`formats.py`; a reader never opens a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.errors import FormatError

__all__ = ["FORMATS", "Format", "register_format", "wrong"]


@dataclass(frozen=True)
class Format:
    """A file format for models."""

    name: str  # as in `credo convert --to NAME`
    extensions: tuple[str, ...]  # with the dot, lower case
    read: Callable[[bytes, str], Any]  # (content, file name for messages) -> model
    write: Callable[[Any], str] | None = None  # model -> content


FORMATS: dict[str, Format] = {}


def register_format(entry: Format) -> Format:
    """Make a format known under its name."""
    FORMATS[entry.name] = entry
    return entry


def wrong(file: str, line: int, message: str) -> FormatError:
    """The error for a damaged file: `file, line n: message`."""
    return FormatError(f"{file}, line {line}: {message}")
