"""What this machine has."""

from __future__ import annotations

import os

__all__ = ["machine_gigabytes"]


def machine_gigabytes() -> float:
    """Physical memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, ValueError, OSError):
        return 8.0  # no way to ask: assume a modest machine
