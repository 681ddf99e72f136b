"""Load and save models by file extension.

`.gz` and `.xz` after the extension are unpacked and packed on the way: `grid.uai.gz`.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from ..core.content import bare_name, read_content, write_content
from ..core.errors import FormatError, ModelError
from .base import FORMATS, Format, FormatEntry

__all__ = ["formats", "load", "save", "writer_of"]

_CONTENTS = (
    FormatEntry("bif", (".bif",), "credo.io.bif"),
    FormatEntry("cfn", (".cfn",), "credo.io.cfn", writes=False),
    FormatEntry("credo", (".credo",), "credo.io.credo_form"),
    FormatEntry("erg", (".erg",), "credo.io.erg"),
    FormatEntry("fg", (".fg",), "credo.io.fg"),
    FormatEntry("json", (".json",), "credo.io.json_form"),
    FormatEntry("net", (".net",), "credo.io.net"),
    FormatEntry("uai", (".uai",), "credo.io.uai"),
    FormatEntry("wcsp", (".wcsp",), "credo.io.wcsp", writes=False),
    FormatEntry("xdsl", (".xdsl",), "credo.io.xdsl"),
    FormatEntry("xmlbif", (".xmlbif", ".bifxml", ".xml"), "credo.io.xmlbif"),
)


def load(path: str | os.PathLike[str], format: str | None = None, *, mapped: bool = False) -> Any:
    """Load a model, or anything else that was saved, from a file.

    Parameters
    ----------
    path
        The file; its extension names the format.
    format
        Name of the format, for files with another extension.
    mapped
        Whether arrays of a `.credo` file stay in it, read-only, until they are looked at: for models that
        are larger than the memory. Their checksums are not compared then.

    Returns
    -------
    model
        What was saved, of `.credo` and `.json`; a `BayesNet` for directed formats, a `MarkovNet` for the
        others.

    Examples
    --------
    >>> import credo, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pair.uai.gz"
    >>> credo.save(credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]}), path)
    >>> credo.load(path)
    MarkovNet(2 variables, 1 factors)
    """
    chosen = _choose(path, format)
    is_plain = bare_name(path) == Path(path).name
    if mapped and (chosen.open is None or not is_plain):
        raise FormatError(f"{path}: only .credo files that are not packed can be mapped; leave out mapped")
    if chosen.open is not None and is_plain:
        return chosen.open(Path(path), mapped)
    content = read_content(path)
    try:
        return chosen.read(content, str(path))
    except ModelError as error:
        raise FormatError(f"{path}: {error}") from None


def save(model: Any, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Save a model, a family or a fit to a file.

    Parameters
    ----------
    model
        `.credo` and `.json` keep every model, family, fit, and object of a class of yours that is known by
        `@credo.register(tag)`. Other formats hold tables: a `BayesNet`, a `MarkovNet` or a `FactorGraph`. Of
        other models they would hold a part, which is refused: save `model.to_factor_graph()` if that is
        enough.
    path
        The file; its extension names the format. An existing file is
        replaced when all is written, and stays as it is if that fails.
    format
        Name of the format, for files with another extension.
    """
    chosen = writer_of(path, format)
    assert chosen.write is not None
    if not chosen.keeps_all:
        _refuse_continuous(model, path)
    if chosen.store is not None and bare_name(path) == Path(path).name:
        return chosen.store(model, Path(path))
    write_content(path, chosen.write(model))


def writer_of(path: str | os.PathLike[str], format: str | None = None) -> Format:
    """The format in which a file of this name is written; refused where there is none."""
    chosen = _choose(path, format)
    if chosen.write is None:
        able = sorted(e for f in formats() if f.writes for e in f.extensions)
        raise FormatError(f"{path}: {chosen.name} files can be read but not written; use one of {able}")
    return chosen


def _refuse_continuous(model: Any, path: str | os.PathLike[str]) -> None:
    """These formats hold tables: refuse a model of continuous variables before a writer meets it."""
    graph = model.to_factor_graph() if hasattr(model, "to_factor_graph") else None
    if graph is not None and not graph.is_tables:
        names = [v.name for v in graph.variables if not v.is_discrete]
        which = f" with the continuous variables {names[:3]}" if names else ""
        raise FormatError(
            f"{path}: expected a model of discrete variables and tables, got {model!r:.80}{which}; "
            ".credo and .json files hold such models"
        )


def formats() -> tuple[FormatEntry, ...]:
    """All formats, by name; imports none of them."""
    known = {entry.name: entry for entry in _CONTENTS}
    for name, made in FORMATS.items():
        writes = made.write is not None
        known.setdefault(name, FormatEntry(name, made.extensions, made.read.__module__, writes))
    return tuple(known[name] for name in sorted(known))


def _import(entry: FormatEntry) -> Format:
    if entry.name not in FORMATS:
        importlib.import_module(entry.module)
    return FORMATS[entry.name]


def _choose(path: str | os.PathLike[str], name: str | None) -> Format:
    if not isinstance(path, (str, os.PathLike)):
        raise FormatError(f"expected the path of a file, got {path!r:.80}")
    if name is not None:
        for entry in formats():
            if entry.name == name:
                return _import(entry)
        raise FormatError(f"no format named {name!r}; there are {[f.name for f in formats()]}")
    extension = Path(bare_name(path)).suffix.lower()
    for entry in formats():
        if extension in entry.extensions:
            return _import(entry)
    known = sorted(e for f in formats() for e in f.extensions)
    raise FormatError(
        f"{path}: expected one of the extensions {known} (or these with .gz or .xz), got "
        f"'{extension}'; name the format with format=..."
    )
