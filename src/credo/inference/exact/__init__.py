"""Exact inference."""

from . import enumerate

__all__ = ["enumerate"]
