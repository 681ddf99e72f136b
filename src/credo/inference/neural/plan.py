"""The options of an algorithm of this folder in the words of the solver."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NetworkPlan"]


@dataclass(frozen=True)
class NetworkPlan:
    """How to minimise a free energy and how to read what was found."""

    name: str  # of the algorithm
    width: int  # numbers per variable
    layers: tuple[int, int]  # attention, residual; (0, 0): free logits
    penalty: float  # weight of the squared disagreement
    rate: float  # of Adam
    stop: float  # mean squared change that ends the steps, or those of a round
    double: bool  # precision
    steps: int = 0  # most steps, of all rounds together: the budget of the call
    tol: float = 0.0  # residual at which a problem has converged
    rounds: int = 1  # of multipliers; one: none
    seconds: float | None = None  # most wall time of the steps
    restarts: int = 1  # starts per problem
    polish: str = "none"  # none, gbp or bp
    project: bool = True  # whether beliefs are made consistent
