"""Topic models side by side with scikit-learn's variational LDA, in one run.

    python benchmarks/_lda.py [--quick] [--seconds 600]

Documents are drawn from known topics. What both libraries learned is judged by what neither optimises: the
perplexity of one half of the words of new documents, predicted from the other half, and the mean total
variation between true and learned topics, best matched. Both take the best of three starts, by the value they
optimise, of at most 100 passes over the documents; scikit-learn makes all of them, as it does by default, and
credo ends when its value stands still. CPU seconds are for all three.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import common
import numpy as np

CASES = {"small": (300, 300, 5), "large": (1000, 1000, 15)}  # documents, words, topics
LIBRARIES = ("credo", "scikit-learn")
LENGTH, NEW = 120, 100  # words of a document, documents held out
STARTS, PASSES = 3, 100


def corpus(documents: int, words: int, topics: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """True topics, training counts, and two halves of new documents."""
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.full(words, 0.05), size=topics)
    mixed = rng.dirichlet(np.full(topics, 0.2), size=documents + NEW) @ true
    counts = np.array([rng.multinomial(LENGTH, p / p.sum()) for p in mixed])
    seen = rng.binomial(counts[documents:], 0.5)
    return true, counts[:documents], seen, counts[documents:] - seen


def with_credo(topics: int, X: np.ndarray) -> Any:
    from credo.estimators import BetheLDA

    def train() -> Any:
        return BetheLDA(topics, max_iter=PASSES, n_init=STARTS, random_state=0).fit(X)

    return train


def with_sklearn(topics: int, X: np.ndarray) -> Any:
    from sklearn.decomposition import LatentDirichletAllocation

    def train() -> Any:
        runs = [
            LatentDirichletAllocation(topics, max_iter=PASSES, random_state=s).fit(X) for s in range(STARTS)
        ]
        return max(runs, key=lambda model: model.score(X))

    return train


def judged(model: Any, true: np.ndarray, seen: np.ndarray, unseen: np.ndarray) -> dict[str, float]:
    """Perplexity of the unseen halves, and the distance of the topics."""
    from scipy.optimize import linear_sum_assignment

    learned = model.components_ / model.components_.sum(axis=1, keepdims=True)
    shares = model.transform(seen)
    predicted = (shares / shares.sum(axis=1, keepdims=True)) @ learned
    apart = 0.5 * np.abs(true[:, None] - learned[None]).sum(axis=2)
    rows, columns = linear_sum_assignment(apart)
    perplexity = np.exp(-(unseen * np.log(predicted)).sum() / unseen.sum())
    return {"perplexity": float(perplexity), "apart": float(apart[rows, columns].mean())}


def work(task: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    true, X, seen, unseen = corpus(*CASES[task["case"]])
    prepare = with_credo if task["library"] == "credo" else with_sklearn
    prepare(len(true), X[:20])()  # compiled code is loaded once per process
    best, model = common.measure(prepare(len(true), X))
    return {**best, **judged(model, true, seen, unseen), "passes": int(model.n_iter_)}


def shown(answer: dict[str, Any]) -> str:
    return (
        f"{common.number(answer['cpu'])} CPU s, {answer['passes']} passes, perplexity of unseen words "
        f"{answer['perplexity']:.1f}, topics apart by {answer['apart']:.3f}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    common.side_by_side(__file__, __doc__.splitlines()[0], list(CASES), LIBRARIES, shown, 600.0)
