"""Bounds that hold whenever a run is stopped."""

from . import trw_primal as trw_primal
