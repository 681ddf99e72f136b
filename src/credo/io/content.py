"""Bytes of a file, compressed or not; every failure is one sentence that names the file."""

from __future__ import annotations

import codecs
import gzip
import lzma
import os
import zlib
from pathlib import Path

from ..core.errors import FormatError

__all__ = ["bare_name", "content_of", "read_content", "write_content"]

COMPRESSED = (".gz", ".xz")


def bare_name(path: str | os.PathLike[str]) -> str:
    """The file name without the extension of a compression: `grid.uai.gz` -> `grid.uai`."""
    name = Path(path).name
    return name[:-3] if name.lower().endswith(COMPRESSED) else name


def read_content(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file without a byte-order mark; `.gz` and `.xz` are unpacked."""
    path = Path(path)
    kind = path.suffix.lower()
    try:
        raw = path.read_bytes()
        if kind == ".gz":
            raw = gzip.decompress(raw)
        elif kind == ".xz":
            raw = lzma.decompress(raw)
        return raw.removeprefix(codecs.BOM_UTF8)
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FormatError(
            f"{path}: expected {kind[1:]}-compressed data, got damaged ones ({error})"
        ) from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read ({_reason(error)})") from None


def write_content(path: str | os.PathLike[str], text: str) -> None:
    """Write text, packed if the name ends in `.gz` or `.xz`."""
    path = Path(path)
    try:
        raw = text.encode()
        if path.suffix.lower() == ".gz":
            raw = gzip.compress(raw, mtime=0)  # no time stamp: equal models give equal files
        elif path.suffix.lower() == ".xz":
            raw = lzma.compress(raw)
        path.write_bytes(raw)
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be written ({_reason(error)})") from None


def content_of(source: str | os.PathLike[str] | bytes) -> tuple[bytes, str]:
    """Bytes and a name for messages, from a path or from the bytes themselves."""
    if isinstance(source, bytes):
        return source, "<bytes>"
    return read_content(source), str(source)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
