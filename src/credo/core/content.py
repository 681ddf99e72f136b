"""Bytes of a file, compressed or not; every failure is one sentence that names the file."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import zlib
from pathlib import Path
from typing import IO

from .errors import FormatError
from .files import replacing
from .machine import machine_gigabytes

__all__ = ["bare_name", "content_of", "read_content", "reason", "write_content"]

COMPRESSED = (".gz", ".xz")
_PIECE = 2**24  # bytes that are unpacked at a time
_SHARE = 1 / 8  # of the machine's memory that what is unpacked may take: reading it takes several times that


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
        if kind in COMPRESSED:
            raw = _unpack(path, (gzip if kind == ".gz" else lzma).open(io.BytesIO(raw)))
        return raw.removeprefix(codecs.BOM_UTF8)
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FormatError(
            f"{path}: expected {kind[1:]}-compressed data, got damaged ones ({error})"
        ) from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read ({reason(error)})") from None
    except MemoryError:
        raise FormatError(f"{path}: cannot be read (it does not fit into memory)") from None


def _unpack(path: Path, packed: IO[bytes]) -> bytes:
    """All that is packed, unless that is more than anybody means: a few bytes can hold terabytes."""
    limit = int(machine_gigabytes() * _SHARE * 2**30)
    pieces, size = [], 0
    while piece := packed.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise FormatError(
                f"{path}: expected at most {limit / 2**30:.2g} GB when unpacked, an eighth of this machine's "
                "memory, got more; if that is meant, unpack the file first: plain files have no limit"
            )
    return b"".join(pieces)


def write_content(path: str | os.PathLike[str], text: str | bytes) -> None:
    """Write text or bytes, packed if the name ends in `.gz` or `.xz`; a failure leaves what was there."""
    path = Path(path)
    try:
        raw = text.encode() if isinstance(text, str) else text
        if path.suffix.lower() == ".gz":
            raw = gzip.compress(raw, mtime=0)  # no time stamp: equal models give equal files
        elif path.suffix.lower() == ".xz":
            raw = lzma.compress(raw)
        with replacing(path) as file:
            file.write(raw)
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be written ({reason(error)})") from None


def content_of(source: str | os.PathLike[str] | bytes) -> tuple[bytes, str]:
    """Bytes and a name for messages, from a path or from the bytes themselves."""
    if isinstance(source, bytes):
        return source, "<bytes>"
    return read_content(source), str(source)


def reason(error: Exception) -> str:
    """Why the system failed, in its own words."""
    return getattr(error, "strerror", None) or str(error)
