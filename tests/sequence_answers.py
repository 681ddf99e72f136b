"""Answers of the public calls about sequences, with the rows of all sequences in one array."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import credo


class Smoothed(NamedTuple):
    """What `infer` and `log_likelihood` say together."""

    log_z: np.ndarray  # (sequences,)
    marginals: np.ndarray  # (rows, states)
    counts: dict[str, np.ndarray]  # by the names of the tables


def flat(part: Any) -> np.ndarray:
    """Rows of all sequences, one after the other."""
    return np.concatenate(part) if isinstance(part, list) else part


def smoothed(model: Any, x: Any, lengths: Any = None, **reading: Any) -> Smoothed:
    """Forward-backward."""
    found = credo.infer(model, data=x, lengths=lengths, **reading)
    each = credo.log_likelihood(model, x, lengths=lengths, **reading, each=True)
    np.testing.assert_allclose(found.each, each, rtol=1e-9, atol=1e-9)
    assert abs(each.sum() - found.log_z.value) <= 1e-9 * (1 + abs(each.sum()))
    return Smoothed(each, flat(found.marginals["state"]), found.factor_marginals)


def decoded(model: Any, x: Any, lengths: Any = None, **reading: Any) -> tuple[np.ndarray, float]:
    """The best states, and their total score."""
    found = credo.infer(model, data=x, lengths=lengths, maximise="all", **reading)
    assert abs(found.each.sum() - found.score.value) <= 1e-9 * (1 + abs(found.score.value))
    return flat(found.assignment["state"]), found.score.value
