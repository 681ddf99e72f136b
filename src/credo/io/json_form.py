"""The JSON form, which keeps everything that `.credo` does, readable and in one text.

    {"format": "credo", "version": 2,
     "model": {"record": "HMM", "fields": {"start": {"array": 0}, ...}},
     "arrays": [{"dtype": "<f8", "shape": [2], "data": [0.6, 0.4]}, ...]}

The tree is that of a `.credo` file (`kept`), the arrays are inline (`inline_arrays`). Files of version 1 are
read (`json_version_1`).
"""

from __future__ import annotations

import json
from typing import Any

from ..core.errors import FormatError
from .base import Format, register_format, wrong
from .inline_arrays import read_array, write_array
from .json_version_1 import read_version_1
from .kept import read_tree, write_tree

__all__ = ["read_json", "write_json"]


def write_json(model: Any) -> str:
    """Text of a model in JSON form.

    Examples
    --------
    >>> import credo
    >>> from credo.io.json_form import read_json, write_json
    >>> graph = credo.FactorGraph({"a": ["no", "yes"]}, {("a",): [0, 1]})
    >>> read_json(write_json(graph).encode()) == graph
    True
    """
    head, arrays = write_tree(model)
    lines = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in head.items()]
    listed = [f"  {json.dumps(write_array(array), allow_nan=False)}" for array in arrays]
    inner = "\n" + ",\n".join(listed) + "\n " if listed else ""
    return "{\n" + ",\n".join([*lines, f' "arrays": [{inner}]']) + "\n}\n"


def read_json(content: bytes, file: str = "<bytes>") -> Any:
    """Read a model in JSON form."""
    parts = _parse(content, file)
    if parts.get("format") == "credo" and parts.get("version") == 1:
        return read_version_1(parts, file)
    listed = parts.get("arrays", [])
    if not isinstance(listed, list):
        raise FormatError(f"{file}: arrays: expected a list, got {listed!r:.40}")
    arrays = [read_array(part, f"{file}: array {number}") for number, part in enumerate(listed)]
    return read_tree(parts, arrays, file)


def _parse(content: bytes, file: str) -> dict[str, Any]:
    try:
        parts = json.loads(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise wrong(file, line, f"expected text in UTF-8, got the byte {content[error.start]:#x}") from None
    except json.JSONDecodeError as error:
        message = f"expected JSON, got an error in column {error.colno}: {error.msg}"
        raise wrong(file, error.lineno, message) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{file}: expected JSON, got a text that cannot be read ({error})") from None
    if not isinstance(parts, dict):
        raise wrong(file, 1, f"expected a JSON object, got {type(parts).__name__}")
    return parts


register_format(Format("json", (".json",), read_json, write_json, keeps_all=True))
