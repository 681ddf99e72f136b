"""Arrays inside JSON: {"dtype": "<f8", "shape": [2, 3], "data": [...]}, or "base64" in place of "data".

Short arrays are lists of numbers in C order, with the words "inf", "-inf" and "nan" where JSON has no number;
long ones, and those of rarer types, are their bytes, so that size and time stay those of the binary data.
What comes from a file is measured before an array is made.
"""

from __future__ import annotations

import base64
import binascii
import re
from math import prod
from typing import Any

import numpy as np

from ..core.errors import FormatError, UnsupportedError

__all__ = ["LISTED", "read_array", "write_array"]

LISTED = 4096  # longer arrays are packed
_DTYPE = re.compile(r"[<|](b1|[iu][1248]|f[248]|c8|c16|[SU]\d{1,9})")
_WORDS = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}


def write_array(array: np.ndarray) -> dict[str, Any]:
    """An array as JSON can say it."""
    if array.dtype.kind not in "biufcSU" or array.dtype.str[1:] == "f16":
        raise UnsupportedError(f"save: JSON holds arrays of numbers and text, got one of {array.dtype}")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    head = {"dtype": array.dtype.str, "shape": list(array.shape)}
    if array.size > LISTED or array.dtype.kind not in "biuf":
        return {**head, "base64": base64.b64encode(array.tobytes()).decode()}
    data = array.ravel().tolist()
    if array.dtype.kind == "f":
        data = [x if np.isfinite(x) else str(x) for x in data]
    return {**head, "data": data}


def read_array(part: Any, where: str) -> np.ndarray:
    """The array that `write_array` wrote; what is none is refused."""
    if not isinstance(part, dict) or set(part) not in (
        {"dtype", "shape", "data"},
        {"dtype", "shape", "base64"},
    ):
        raise FormatError(f"{where}: expected dtype, shape and data of an array, got {part!r:.60}")
    code, shape = part["dtype"], part["shape"]
    if not isinstance(code, str) or not _DTYPE.fullmatch(code):
        raise FormatError(f"{where}: expected a type of numbers or text, got {code!r:.40}")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**62 for n in shape):
        raise FormatError(f"{where}: expected a shape, got {shape!r:.40}")
    dtype = np.dtype(code)
    flat = (
        _read_list(part["data"], dtype, where)
        if "data" in part
        else _read_packed(part["base64"], dtype, where)
    )
    if prod(shape) != len(flat):
        raise FormatError(f"{where}: expected {prod(shape)} entries for the shape {shape}, got {len(flat)}")
    return flat.reshape(shape)


def _read_list(data: Any, dtype: np.dtype[Any], where: str) -> np.ndarray:
    kinds: tuple[type, ...] = {"b": (bool,), "f": (float, int)}.get(dtype.kind, (int,))
    if isinstance(data, list) and dtype.kind in "biuf":
        if dtype.kind == "f":
            data = [_WORDS.get(x, x) if type(x) is str else x for x in data]
        if all(type(x) in kinds for x in data):
            try:
                return np.array(data, dtype=dtype)
            except OverflowError:
                pass
    raise FormatError(f"{where}: expected a list of numbers of the type {dtype}, got {data!r:.60}")


def _read_packed(text: Any, dtype: np.dtype[Any], where: str) -> np.ndarray:
    try:
        raw = base64.b64decode(text, validate=True)
        return np.frombuffer(raw, dtype=dtype).copy()
    except (binascii.Error, ValueError, TypeError) as error:
        raise FormatError(f"{where}: expected base64 of numbers of the type {dtype} ({error})") from None
