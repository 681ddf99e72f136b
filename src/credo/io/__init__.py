"""File formats, one file each, and loading and saving by file name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from .base import Format, FormatEntry, register_format
    from .formats import load, save

__all__ = ["Format", "FormatEntry", "load", "register_format", "save"]

furnish(
    __name__,
    {"base": ("Format", "FormatEntry", "register_format"), "formats": ("load", "save")},
)
