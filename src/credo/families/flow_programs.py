"""Compiled functions of flows, one program per structure; the only module of a flow that loads JAX."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax

from ..nn.arrays import precision
from ..nn.compiled import Compiled
from ..nn.row_programs import RowProgram
from .base import each_member
from .family_forms import FamilyForm
from .trees import Tree

__all__ = ["run_once", "run_rows"]


def run_rows(family: Any, what: str, tree: Tree, x: Any, members: int, double: bool) -> Any:
    """Leaves of all members, or a direction of the bijection of one, row by row."""
    with precision(double):
        return _row_program(FamilyForm(family), what)(tree, x, members=members)


def run_once(family: Any, what: str, arguments: Any, double: bool) -> Any:
    """Parameters of all members adapted to rows with weights (rows, members)."""
    with precision(double):
        return jax.device_get(_program(FamilyForm(family), what)(*arguments))


@lru_cache(maxsize=128)
def _row_program(form: FamilyForm, what: str) -> RowProgram:
    family: Any = form.family
    if what == "leaves":
        return RowProgram(each_member(family))
    if what == "forward":
        return RowProgram(lambda tree, x: family.bijection.forward(tree, x)[0])
    return RowProgram(family.bijection.backward)


@lru_cache(maxsize=64)
def _program(form: FamilyForm, what: str) -> Compiled:
    family: Any = form.family
    assert what == "adapt"
    return Compiled(jax.vmap(family.bijection.adapt, (0, None, 1)))
