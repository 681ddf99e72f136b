"""One file of JSON and arrays: a zip of stored members, `model.json` and `0.npy`, `1.npy`, ...

Written whole or not at all (`files.py`). Read without trust: nothing is unpickled, nothing is unpacked, and
no array is made before its header was found to agree with the bytes that are there.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from .errors import FormatError
from .files import replacing

__all__ = ["container_bytes", "read_container", "write_container"]

_CONTENT = "model.json"
_CONTENT_BEFORE = "content.json"  # what checkpoints called it once
_ALIGNED = 64  # bytes: where arrays begin in a file, so that they can be mapped
_PADDING = 0xCE0D  # of a member's extra field that moves its data to such a place
_MEMBER = 30  # bytes of a member before its name
_ZIP64 = 20  # bytes of the extra field for large members, which every array has
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member: equal contents are equal files
_ENCRYPTED = 1  # flag of a member
# What reading a damaged archive raises: bad sums, places outside of the file, nesting without end.
_DAMAGE = (zipfile.BadZipFile, EOFError, OSError, OverflowError, RuntimeError, struct.error, ValueError)


def write_container(path: Path, content: Any, arrays: list[np.ndarray]) -> None:
    """Write a file whole, or leave what was there as it was.

    Parameters
    ----------
    path
        Where to.
    content
        What JSON can say.
    arrays
        Of any type but objects.
    """
    with replacing(path) as file:
        _write(file, content, arrays)


def container_bytes(content: Any, arrays: list[np.ndarray]) -> bytes:
    """The bytes of such a file."""
    with io.BytesIO() as file:
        _write(file, content, arrays)
        return file.getvalue()


def _write(file: IO[bytes], content: Any, arrays: list[np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(content, allow_nan=False).encode()
        archive.writestr(zipfile.ZipInfo(_CONTENT, _EPOCH), text)
        for number, array in enumerate(arrays):
            member = zipfile.ZipInfo(f"{number}.npy", _EPOCH)
            before = file.tell() + _MEMBER + len(member.filename) + _ZIP64 + 4
            member.extra = struct.pack("<HH", _PADDING, -before % _ALIGNED) + bytes(-before % _ALIGNED)
            with archive.open(member, "w", force_zip64=True) as into:
                np.lib.format.write_array(into, array, allow_pickle=False)


def read_container(
    path: str | Path, opened: IO[bytes] | None = None, *, mapped: bool = False
) -> tuple[Any, list[np.ndarray]]:
    """Content and arrays of a file; what is no such file is refused with a sentence.

    Parameters
    ----------
    path
        Of the file.
    opened
        Its content, where that is not on disk.
    mapped
        Whether arrays stay in the file, read-only, until they are looked at; then no checksum is compared.
    """
    with opened or open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _members(path, archive, _size(file))
                with archive.open(members[0]) as text:
                    content = json.loads(text.read())
                return content, [_array(path, archive, member, mapped) for member in members[1:]]
        except FormatError:
            raise
        except json.JSONDecodeError as error:
            raise _refusal(path, f"its {_CONTENT} is no JSON ({error})") from None
        except _DAMAGE as error:
            raise _refusal(path, f"it is damaged or of another kind ({error})") from None


def _size(file: IO[bytes]) -> int:
    return file.seek(0, os.SEEK_END)


def _members(path: str | Path, archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """The members in order, each stored as it is."""
    found = archive.infolist()
    first = _CONTENT_BEFORE if found and found[0].filename == _CONTENT_BEFORE else _CONTENT
    names = [first, *(f"{k}.npy" for k in range(len(found) - 1))]
    if [member.filename for member in found] != names:
        raise _refusal(path, f"expected the members {_CONTENT}, 0.npy, 1.npy, ..., got others")
    for member in found:
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
            raise _refusal(path, f"its member {member.filename} is compressed or encrypted")
    if sum(member.file_size for member in found) > size:
        raise _refusal(path, "its members say that they are larger than the file")
    return found


def _array(path: str | Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, mapped: bool) -> np.ndarray:
    """One array, made when its header agrees with the size of the member."""
    with archive.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version not in read:
                raise ValueError(f"version {version} of its header is unknown")
            shape, is_fortran, dtype = read[version](file)
        except ValueError as error:
            raise _refusal(path, f"its member {member.filename} is no array ({error})") from None
        if dtype.hasobject:
            raise _refusal(path, f"its member {member.filename} holds pickled objects, which are never read")
        size = prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size != member.file_size - file.tell():
            raise _refusal(path, f"the header of its member {member.filename} disagrees with its size")
        order: Any = "F" if is_fortran else "C"
        if mapped and size:
            begin = _data_offset(path, member) + file.tell()
            return np.memmap(path, dtype, "r", begin, shape, order).view(np.ndarray)
        data = file.read()  # to the end, where the checksum is compared
    found = np.empty(shape, dtype=dtype, order=order)
    found[...] = np.frombuffer(data, dtype=dtype, count=prod(shape)).reshape(shape, order=order)
    return found


def _data_offset(path: str | Path, member: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin in the file; opening it has compared its name."""
    with open(path, "rb") as file:
        file.seek(member.header_offset + _MEMBER - 4)
        name, extra = struct.unpack("<HH", file.read(4))
    return member.header_offset + _MEMBER + int(name) + int(extra)


def _refusal(path: str | Path, why: str) -> FormatError:
    return FormatError(f"{path}: expected a file written by credo, but {why}; give another file name")
