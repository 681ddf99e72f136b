r"""A lower bound on the entropy of a mixture of Gaussians.

For q(y) = (1/N) sum_n N(y; mu_n, v_n I) in D dimensions, Jensen's inequality gives

    H(q)  >=  -(1/N) sum_n log q_n,      q_n = (1/N) sum_j N(mu_n; mu_j, (v_n + v_j) I)

since q_n is the mean of q under component n. With one component it lies (D/2)(1 - log 2) below the entropy.
"""

from __future__ import annotations

import numpy as np

__all__ = ["entropy_bound"]


def entropy_bound(means: np.ndarray, variances: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The bound and its derivatives by the means and the variances.

    Parameters
    ----------
    means
        (components, dimension)
    variances
        (components,) one for all directions.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.inference.variational.entropy_bound import entropy_bound
    >>> bound, entropy = entropy_bound(np.zeros((1, 2)), np.ones(1))[0], np.log(2 * np.pi * np.e)
    >>> round(bound, 4), round(float(entropy), 4)
    (2.531, 2.8379)
    """
    count, dimension = means.shape
    gap = means[:, None] - means[None]
    squares = (gap**2).sum(axis=-1)
    total = variances[:, None] + variances
    logs = -0.5 * (squares / total + dimension * np.log(2 * np.pi * total)) - np.log(count)
    top = logs.max(axis=1, keepdims=True)
    weight = np.exp(logs - top)
    norm = weight.sum(axis=1, keepdims=True)
    value = -float((top[:, 0] + np.log(norm[:, 0])).mean())
    share = weight / norm / count
    both = share + share.T  # a pair counts once for each of its two ends
    by_mean = (both[..., None] * gap / total[..., None]).sum(axis=1)
    by_variance = -(both * 0.5 * (squares / total - dimension) / total).sum(axis=1)
    return value, by_mean, by_variance
