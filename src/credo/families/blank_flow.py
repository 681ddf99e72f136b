"""The blank of one flow: its bijection and base, parameters still to come from data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core import check
from ..core.records import register
from .base import Family
from .blank import BlankRows
from .flow_kinds import COVARIANCES
from .independent import IndependentRows

__all__ = ["BlankFlow"]

_DEFAULTS = {"components": 1, "covariance": "diagonal", "noise": "none", "step": 1.0, "precision": "single"}


@register("BlankFlow", fields=["options"])
class BlankFlow(BlankRows):
    """A flow of rows without parameters; see `Flow.blank`."""

    _counted = "flow"

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        check.whole("components", options.get("components", 1), 1)
        check.one_of("covariance", options.get("covariance", "diagonal"), COVARIANCES)
        check.one_of("noise", options.get("noise", "none"), ["none", "uniform", "gaussian"])
        check.one_of("precision", options.get("precision", "single"), ["single", "double"])
        told = [f"{k}={v}" for k, v in self.options.items() if v != _DEFAULTS.get(k)]
        super().__init__(1, f"flow({', '.join(told)})")

    def _model(self, emission: Family) -> IndependentRows:
        return IndependentRows(emission)

    def __repr__(self) -> str:
        return f"BlankFlow({self._kinds}; no parameters yet: fit it first)"
