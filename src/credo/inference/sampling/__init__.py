"""Markov chains, and weighted draws."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "gibbs": Method(
        "credo.inference.sampling.gibbs",
        "Draws one variable after another given the others; for variables of any domain.",
        answers=("sum", "samples"),
        reads=("discrete", "real", "vector", "positive", "interval", "simplex"),
        groups=("functions", "bilinear"),
        checkpoints=True,
        slopes=True,
    ),
    "nuts": Method(
        "credo.inference.sampling.nuts",
        "Hamiltonian Monte Carlo whose trajectories end where they turn; for continuous variables.",
        answers=("sum", "samples"),
        reads=("real", "vector", "positive", "interval", "simplex"),
        groups=("functions",),
        compiles=True,
        checkpoints=True,
    ),
    "hmc": Method(
        "credo.inference.sampling.nuts",
        "Hamiltonian Monte Carlo with trajectories of random length; for continuous variables.",
        answers=("sum", "samples"),
        reads=("real", "vector", "positive", "interval", "simplex"),
        groups=("functions",),
        compiles=True,
        checkpoints=True,
    ),
    "metropolis": Method(
        "credo.inference.sampling.metropolis",
        "Random steps of one variable after another, accepted or not; for variables of any domain.",
        answers=("sum", "samples"),
        reads=("discrete", "real", "vector", "positive", "interval", "simplex"),
        groups=("functions",),
        checkpoints=True,
        slopes=True,
    ),
    "importance": Method(
        "credo.inference.sampling.importance",
        "Weighted draws, one variable after another, guided by belief propagation or by parents alone.",
        answers=("sum", "samples"),
        promises=("consistent",),
        checkpoints=True,
        slopes=True,
    ),
    "ais": Method(
        "credo.inference.sampling.ais",
        "Annealed importance sampling: weighted chains from an easy distribution to the model, for log Z.",
        answers=("sum",),
        groups=("tables", "bilinear"),
        checkpoints=True,
    ),
}
