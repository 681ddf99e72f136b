"""Arrays in version 1 of the JSON form: lists when short, packed bytes when long; null is -inf."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from ..core.errors import FormatError

__all__ = ["unpack"]


def unpack(parts: dict[str, Any], key: str, dtype: Any, file: str) -> np.ndarray:
    """An array from a list (null is -inf in floats) or from packed bytes."""
    part = parts.get(key)
    code = "<i8" if dtype is np.int64 else "<f8"
    kinds = (int,) if dtype is np.int64 else (int, float)
    if isinstance(part, dict) and part.get("dtype") == code and isinstance(part.get("base64"), str):
        try:
            raw = base64.b64decode(part["base64"], validate=True)
            return np.frombuffer(raw, dtype=code).astype(dtype)
        except (binascii.Error, ValueError) as error:
            raise FormatError(f"{file}: {key}: expected base64 of {code} numbers ({error})") from None
    if isinstance(part, list):
        if dtype is np.float64:
            part = [-np.inf if x is None else x for x in part]
        if all(isinstance(x, kinds) and not isinstance(x, bool) for x in part):
            try:
                return np.array(part, dtype=dtype)
            except OverflowError:
                pass
    raise FormatError(f"{file}: {key}: expected a list of {'integers' if dtype is np.int64 else 'numbers'}")
