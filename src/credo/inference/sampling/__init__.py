"""Markov chains."""

from . import gibbs, metropolis, nuts

__all__ = ["gibbs", "metropolis", "nuts"]
