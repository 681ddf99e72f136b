"""The form of its own: a zip of stored members, `model.json` and arrays as `.npy`, for everything kept.

The tree is told in `kept`, the container in `core.container`. Arrays are uncompressed and aligned, so that
`credo.load(path, mapped=True)` leaves them in the file until they are looked at.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ..core.container import container_bytes, read_container, write_container
from ..core.content import reason
from ..core.errors import FormatError
from .base import Format, register_format
from .kept import read_tree, write_tree

__all__ = ["open_credo", "read_credo", "store_credo", "write_credo"]


def write_credo(model: Any) -> bytes:
    """Bytes of a file that keeps a model.

    Examples
    --------
    >>> import credo
    >>> from credo.io.credo_form import read_credo, write_credo
    >>> hmm = credo.datasets.umbrella_hmm()
    >>> read_credo(write_credo(hmm)).transition.tolist() == hmm.transition.tolist()
    True
    """
    return container_bytes(*write_tree(model))


def read_credo(content: bytes, file: str = "<bytes>") -> Any:
    """The model that bytes keep."""
    tree, arrays = read_container(file, io.BytesIO(content))
    return read_tree(tree, arrays, file)


def store_credo(model: Any, path: Path) -> None:
    """Write a file, array by array."""
    tree, arrays = write_tree(model)
    try:
        write_container(path, tree, arrays)
    except OSError as error:
        raise FormatError(f"{path}: cannot be written ({reason(error)})") from None


def open_credo(path: Path, mapped: bool) -> Any:
    """Read a file, array by array, or let the arrays stay in it."""
    try:
        tree, arrays = read_container(path, mapped=mapped)
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: cannot be read ({reason(error)})") from None
    return read_tree(tree, arrays, str(path))


register_format(
    Format("credo", (".credo",), read_credo, write_credo, open=open_credo, store=store_credo, keeps_all=True)
)
