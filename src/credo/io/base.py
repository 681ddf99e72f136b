"""What a file format is, and the table of formats.

A format is one file of this folder: a reader that turns text, or bytes, into a model and, where there is
one, a writer that turns a model into text. Compression and file names are handled once, in
`formats.py`; a reader never opens a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import FormatError

__all__ = ["FORMATS", "Format", "FormatEntry", "register_format", "wrong"]


@dataclass(frozen=True)
class Format:
    """A file format for models."""

    name: str  # as in `credo convert --to NAME`
    extensions: tuple[str, ...]  # with the dot, lower case
    read: Callable[[bytes, str], Any]  # (content, file name for messages) -> model
    write: Callable[[Any], str | bytes] | None = None  # model -> content
    open: Callable[[Path, bool], Any] | None = None  # (file, whether to map arrays) -> model, without a copy
    store: Callable[[Any, Path], None] | None = None  # write a file without a copy of its content
    keeps_all: bool = False  # whether it holds what is registered, and not only tables


@dataclass(frozen=True)
class FormatEntry:
    """What is known of a format before its module is imported."""

    name: str  # as in `credo convert --to NAME`
    extensions: tuple[str, ...]  # with the dot, lower case
    module: str  # dotted name of the module that registers it
    writes: bool = True  # whether models can be saved in it


FORMATS: dict[str, Format] = {}  # those whose modules have been imported


def register_format(made: Format) -> Format:
    """Make a format known under its name."""
    FORMATS[made.name] = made
    return made


def wrong(file: str, line: int, message: str) -> FormatError:
    """The error for a damaged file: `file, line n: message`."""
    return FormatError(f"{file}, line {line}: {message}")
