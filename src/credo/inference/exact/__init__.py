"""Exact inference."""

from . import elimination, enumerate, gaussian, junction_tree

__all__ = ["elimination", "enumerate", "gaussian", "junction_tree"]
