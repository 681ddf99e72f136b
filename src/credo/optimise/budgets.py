"""Budgets of loops whose steps are counted in other ways than the driver does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .run import Budget

__all__ = ["including", "with_start"]


def with_start(budget: Budget) -> Budget:
    """The budget of a loop whose first step evaluates the start: it is a step like others, and can be cut."""
    return replace(budget, max_iter=budget.max_iter + 1)


def including(budget: Budget) -> Budget:
    """The budget of a loop for which a residual of exactly `tol` is none."""
    return replace(budget, tol=float(np.nextafter(budget.tol, np.inf)))
