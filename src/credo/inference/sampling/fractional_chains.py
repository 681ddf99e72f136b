r"""Chains of a machine whose hidden units count any positive number of times, with these summed by hand.

    log p(v) = sum_j a_j softplus( (v'W)_j + c_j ) + b'v - log Z

A unit that counts a = k + f times, k whole and 0 <= f < 1, is k units that count once and one with the
inputs f ((v'W)_j + c_j) instead: an ordinary machine p~ near p, exact where all f are zero. A sweep of
Gibbs sampling of p~, v -> h -> v', is a proposal that is reversible for p~, accepted with probability
min(1, A),

    log A = sum_j s_j(v') - s_j(v),      s_j = f_j softplus(u_j) - softplus(f_j u_j),      u = v'W + c

As 2^(f-1) (1 + e^(fu)) <= (1 + e^u)^f <= 1 + e^(fu), every s lies between (f - 1) log 2 and 0: a sweep is
accepted with probability at least the product of 2^(f_j - 1) over the units with f_j > 0.

Source: Ping, Liu and Ihler, Learning infinite RBMs with Frank-Wolfe (2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...kernels.boltzmann import softplus

__all__ = ["FractionalChains"]


@dataclass(frozen=True, eq=False)
class FractionalChains:
    """What is sampled; chains are rows of visible states.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.inference.sampling.fractional_chains import FractionalChains
    >>> chains = FractionalChains(np.zeros((2, 1)), np.array([1.5]), np.array([50.0, -50.0]), np.zeros(1))
    >>> v, accepted = chains.sweep(np.zeros((3, 2)), np.random.default_rng(0))
    >>> v.tolist(), accepted.all()
    ([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], np.True_)
    """

    weights: np.ndarray  # W, (visible, hidden)
    counts: np.ndarray  # a, (hidden,)
    left: np.ndarray  # b, (visible,), or (chains, visible)
    right: np.ndarray  # c, (hidden,), or (chains, hidden)

    def sweep(self, v: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The next state of every chain, and whether it is the proposal."""
        whole = np.floor(self.counts)
        part = self.counts - whole
        inputs = v @ self.weights
        inputs += self.right
        odd = part > 0
        on = self._copies(inputs, whole.astype(np.int64), rng)
        if odd.any():
            p = _logistic(part[odd].astype(inputs.dtype) * inputs[:, odd])
            on[:, odd] += part[odd] * (rng.random(p.shape, dtype=np.float32) < p)
        p = on @ self.weights.T
        p += self.left
        new = (rng.random(p.shape, dtype=np.float32) < _logistic(p)).astype(v.dtype)
        if not odd.any():
            return new, np.ones(len(v), dtype=bool)
        after = new @ self.weights[:, odd] + self.right[..., odd]
        gain = _slack(after, part[odd]) - _slack(inputs[:, odd], part[odd])
        taken = np.log(rng.random(len(v))) < gain
        return np.where(taken[:, None], new, v), taken

    @staticmethod
    def _copies(inputs: np.ndarray, whole: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """How many of the copies of every unit are on."""
        p = _logistic(inputs)
        if (whole == 1).all():
            return (rng.random(p.shape, dtype=np.float32) < p).astype(inputs.dtype)
        return rng.binomial(whole, p.astype(np.float64)).astype(inputs.dtype)


def _logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x) where e^-x may be infinite."""
    with np.errstate(over="ignore"):
        found = np.exp(-x)
        found += 1
        return np.asarray(np.divide(1, found, out=found))


def _slack(inputs: np.ndarray, part: np.ndarray) -> np.ndarray:
    """How much likelier states are than under the ordinary machine, summed over units."""
    return np.asarray((part * softplus(inputs) - softplus(part * inputs)).sum(axis=1), dtype=np.float64)
