"""Chains that emit mixtures of flows, made of chains that emit mixtures of Gaussians."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import credo
from credo.families import Mixture
from credo.inference.exact.hidden_rows import smooth_rows

__all__ = ["with_flows"]


def with_flows(chain: credo.HMM, sequences: Sequence[np.ndarray], bijection: str, seed: int) -> credo.HMM:
    """The chain with a flow in place of every Gaussian, which starts as what the Gaussian saw."""
    data = chain.sequences(list(sequences))
    rows, emission = data.rows(), chain.emission
    seen = smooth_rows(chain.instantiate(list(sequences))).marginals
    if isinstance(emission, Mixture):
        seen = (seen[:, :, None] * emission.responsibilities(rows)).reshape(len(rows), -1)
    flows = credo.Flow.started(bijection, rows.shape[1], seen.shape[1], seed=seed)
    flows = flows.adapted(rows, seen, np.random.default_rng(seed))
    emits = Mixture(emission.weights, flows) if isinstance(emission, Mixture) else flows
    return credo.HMM(chain.start, chain.transition, emits)
