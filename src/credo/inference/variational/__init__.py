"""Variational methods."""

from . import mean_field, structured_mean_field

__all__ = ["mean_field", "structured_mean_field"]
