"""What is learned from and scored: tables and sequences with states, numbers and missing cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from . import speech, vital_signs
    from .column import Column
    from .dataset import Dataset
    from .describe import Description, describe
    from .forms import Form
    from .read import read
    from .sequences import read_sequences
    from .stream import Stream, stream
    from .table import StateTable
    from .table_files import write_table

__all__ = [
    "Column",
    "Dataset",
    "Description",
    "Form",
    "StateTable",
    "Stream",
    "describe",
    "read",
    "read_sequences",
    "speech",
    "stream",
    "vital_signs",
    "write_table",
]

furnish(
    __name__,
    {
        "column": ("Column",),
        "dataset": ("Dataset",),
        "describe": ("Description", "describe"),
        "forms": ("Form",),
        "read": ("read",),
        "sequences": ("read_sequences",),
        "stream": ("Stream", "stream"),
        "table": ("StateTable",),
        "table_files": ("write_table",),
    },
    modules=("speech", "vital_signs"),
)
