"""Exact inference."""

from . import elimination, enumerate, junction_tree

__all__ = ["elimination", "enumerate", "junction_tree"]
