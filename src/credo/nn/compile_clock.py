"""Counts what JAX spends on compiling, as kernels count their own: run times are told without it."""

from __future__ import annotations

from typing import Any

import jax

from ..kernels.jit import count_compiling

__all__: list[str] = []

_COUNTED = ("jaxpr_to_mlir_module_duration", "backend_compile_duration")


def _listen(event: str, duration_secs: float, **_: Any) -> None:
    if event.endswith(_COUNTED):
        count_compiling(duration_secs)


jax.monitoring.register_event_duration_secs_listener(_listen)
