"""Conditional random fields that label sequences."""

from __future__ import annotations

from typing import Any

from ..core.records import register
from ..inference.problem.base import Algorithm
from ..learning.priors import Prior
from ..models.crf import CRF
from ..models.crf_inputs import chain_parts
from ..optimise.optimisers import Optimiser
from .random_fields import RandomField, Support, check_items

__all__ = ["ChainCRF"]


@register("ChainCRF")
class ChainCRF(RandomField):
    """A linear-chain conditional random field for labelling sequences.

    Parameters
    ----------
    objective
        What is learned by: `"crf"`, the conditional likelihood, `"ssvm"`, the margin of a structured support
        vector machine, or another member of `learning.structured_members`; with labels that are missing, or
        hidden nodes, also `"hcrf"`, `"mssvm"`, `"lssvm"`, `"mllr"`, `"epsilon(eps=0.5)"`.
    loss
        Of margins: `"hamming"`, `"hamming(normalised=true)"`, `"weighted(weights=...)"`, a table of costs
        (right, told), or None; `"auto"` is `"hamming"` where the objective has a loss.
    hidden
        States of a hidden node beside every position, whose weights go with features and label; None: none.
    inference
        The algorithm behind expectations and predictions; by default exact recursions, or what suits.
    decode
        How labels are predicted: `"auto"` as was learned, `"map"`, `"marginals"`, `"marginal-map"`, ...
    prior
        On the weights: `"gaussian(scale=...)"`, `"laplace(scale=...)"`, `"elastic(c1=..., c2=...)"` or None.
    optimiser
        `"auto"`, `"lbfgs"`, `"adam(rate=...)"`, `"sgd(rate=...)"`, `"subgradient(rate=...)"`,
        `"frank-wolfe"`, `"bundle"`, `"cccp"`; see `learning.structured`.
    support
        `"all"` pairs of feature and label have a weight, or only those `"observed"` in training.
    batch
        Sequences per step of a stochastic optimiser.
    max_iter, tol, seconds
        When to stop; the gradient, or the duality gap, that counts as zero is per sequence.
    validation, patience
        Fraction of the sequences to hold back, and how many iterations without a better value on them
        are endured.
    random_state
        A seed, of the shuffling.

    Examples
    --------
    >>> from credo.estimators import ChainCRF
    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "the"}, {"word": "dog"}, {"word": "runs"}]]
    >>> y = [["det", "noun"], ["det", "noun", "verb"]]
    >>> crf = ChainCRF(prior="gaussian(scale=2)").fit(X, y)
    >>> crf.predict([[{"word": "the"}, {"word": "bird"}, {"word": "runs"}]])[0].tolist()
    ['det', 'noun', 'verb']
    >>> crf.score(X, y)
    1.0
    """

    def __init__(  # noqa: PLR0913, scikit-learn wants options there
        self,
        *,
        objective: str = "crf",
        loss: Any = "auto",
        hidden: int | None = None,
        inference: str | Algorithm | None = None,
        decode: str = "auto",
        prior: str | Prior | None = "gaussian(scale=1)",
        optimiser: str | Optimiser = "auto",
        support: Support = "all",
        batch: int | None = None,
        max_iter: int = 500,
        tol: float = 1e-5,
        seconds: float | None = None,
        validation: float = 0.0,
        patience: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.objective, self.loss, self.hidden = objective, loss, hidden
        self.inference, self.decode = inference, decode
        self.prior, self.optimiser, self.support, self.batch = prior, optimiser, support, batch
        self.max_iter, self.tol, self.seconds = max_iter, tol, seconds
        self.validation, self.patience, self.random_state = validation, patience, random_state

    @classmethod
    def from_model(cls, crf: CRF) -> ChainCRF:
        """An estimator that predicts with a field that exists, for instance a loaded one."""
        made: ChainCRF = cls()._adopt(crf)
        return made

    def _blank(self, y: Any) -> CRF:
        return CRF(support=self.support)

    def _inputs(self, X: Any, y: Any = None) -> list[Any]:
        """Sequences as the field takes them: without edges, which join neighbours."""
        check_items(X, y)
        nodes, steps = chain_parts(X)
        return [part if step is None else (part, None, step) for part, step in zip(nodes, steps, strict=True)]

    @property
    def _method(self) -> str | Algorithm | None:
        return self.inference
