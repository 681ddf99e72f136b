"""Message passing between real variables with particles and mixtures."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "particle-bp": Method(
        "credo.inference.particles.particle_bp",
        "Belief propagation with particles drawn from the beliefs.",
        answers=("sum",),
        reads=("discrete", "real", "positive", "interval"),
        groups=("functions",),
        checkpoints=True,
    ),
    "nonparametric-bp": Method(
        "credo.inference.particles.nonparametric_bp",
        "Belief propagation with Gaussian mixtures as messages.",
        answers=("sum",),
        reads=("real", "positive", "interval"),
        groups=("functions",),
        checkpoints=True,
    ),
    "ep-particle-bp": Method(
        "credo.inference.particles.ep_particle_bp",
        "Particle belief propagation with proposals by expectation propagation.",
        answers=("sum",),
        reads=("discrete", "real", "positive", "interval"),
        groups=("functions",),
        checkpoints=True,
    ),
    "kernel-bp": Method(
        "credo.inference.particles.kernel_bp",
        "Belief propagation in reproducing kernel Hilbert spaces, learned from draws.",
        answers=("sum",),
        reads=("discrete", "real"),
        groups=("functions",),
    ),
}
