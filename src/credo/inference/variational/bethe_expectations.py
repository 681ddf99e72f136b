r"""Points and weights under which the expectations of Bethe variational inference are taken.

    E_{N(mu, s^2)}[f]  ~  sum_k w_k f(mu + s z_k)

    gauss_hermite   z_k = sqrt(2) y_k, w_k / sqrt(pi) for the Hermite nodes y_k: exact for polynomials of
                    degree 2K - 1, remainder K! s^(2K) f^(2K)(xi) / (2K)!
    trapezoid       evenly spaced z_k: more points for the same accuracy on smooth functions, but an error
                    of the order of the squared spacing where a potential has a kink, and every second point
                    is a coarser rule of its own, so that the error is seen
    samples         drawn anew in every step; a Dirichlet as normalised Gamma variates, in the log domain
    particles       equal weights; moved towards the belief by Stein variational gradients in every step

Particles live where their target is simple: those of a Gaussian on the standardised line, those of a
Dirichlet on independent log-Gamma variates u with the density exp(sum_v alpha_v u_v - e^(u_v)), whose
soft-max is Dirichlet(alpha), so that nothing leaves the simplex.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["gauss_hermite", "log_dirichlet_samples", "stein_direction", "trapezoid"]

_REACH = 7.0  # standard deviations covered by the trapezoid rule; beyond lies 3e-12 of the mass


def gauss_hermite(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights for expectations under the standard normal density.

    Examples
    --------
    >>> from credo.inference.variational.bethe_expectations import gauss_hermite
    >>> z, w = gauss_hermite(3)
    >>> float(w @ z**4).__round__(12)
    3.0
    """
    nodes, weights = np.polynomial.hermite.hermgauss(count)
    return np.sqrt(2.0) * nodes, weights / np.sqrt(np.pi)


def trapezoid(count: int) -> tuple[np.ndarray, np.ndarray]:
    """An odd number of evenly spaced points, and the weights (2, count) of all and of every second one."""
    points = np.linspace(-_REACH, _REACH, count)
    fine = np.exp(-0.5 * points**2)
    coarse = np.where(np.arange(count) % 2 == (count // 2) % 2, fine, 0.0)
    return points, np.stack([fine / fine.sum(), coarse / coarse.sum()])


def log_dirichlet_samples(key: Any, concentration: Any, count: int) -> Any:
    """Logarithms of samples, (n, components, count, width), for concentrations (n, components, width)."""
    n, components, width = concentration.shape
    shape = (n, components, count, width)
    gamma = jax.random.loggamma(key, concentration[:, :, None, :], shape)
    return jax.nn.log_softmax(gamma, axis=-1)


def stein_direction(x: Any, score: Any, coordinate: bool) -> Any:
    """The direction that moves particles towards a density fastest, in the space of a Gaussian kernel.

        phi(x_i) = mean_j [ k(x_j, x_i) score(x_j) + grad_{x_j} k(x_j, x_i) ],   k = exp(-|x_j - x_i|^2 / 2)

    Parameters
    ----------
    x, score
        Particles and gradients of the log density, (..., count, width).
    coordinate
        Whether every coordinate has a kernel of its own instead of one for all.
    """
    gap = x[..., :, None, :] - x[..., None, :, :]  # x_j - x_i
    square = gap**2 if coordinate else (gap**2).sum(axis=-1, keepdims=True) / x.shape[-1]
    kernel = jnp.exp(-0.5 * square)
    slope = gap if coordinate else gap / x.shape[-1]
    return (kernel * score[..., :, None, :] - slope * kernel).mean(axis=-3)
