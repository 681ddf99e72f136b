"""Bounds."""

from . import trw_primal as trw_primal
