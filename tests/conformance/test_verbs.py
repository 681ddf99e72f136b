"""Every class of model through every verb: sample, infer, log_likelihood, fit, files, compare_models.

The models are the examples of all classes that files keep (`tests/kept_examples.py`), so a new class is
tried here by itself. A model answers, or refuses with a sentence that says what to do instead; the refusals
stand in `REFUSALS`, and one that is no longer needed fails.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import credo
from credo.core.errors import CredoError
from credo.core.instance import Template
from credo.families.base import Family
from kept_examples import EXAMPLES

from .subjects import is_sentence

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(40, 2)) + 3 * (np.arange(40)[:, None] % 3 == 0)
SENTENCES = [RNG.normal(size=(4, 2)) for _ in range(8)]
WORDS = [np.array(["n", "v"])[(x[:, 0] > 0).astype(int)].tolist() for x in SENTENCES]
COUNTS = [0, 1, 0, 0, 9, 8, 9, 1, 0, 8, 9, 7]
LENGTHS = [6, 5, 7, 8]

DATA_OF_KINDS = {
    "x": [{"nodes": {"y": x, "h": 4}, "edges": {"part": None}} for x in SENTENCES],
    "targets": WORDS,
}

# Rows for models that make up none, or that need more than those.
DATA: dict[str, dict[str, Any]] = {
    "BlankHMM": {"data": {"hr": NUMBERS[:, 0]}},
    "BlankFlow": {"data": NUMBERS},
    "BlankMixture": {"data": NUMBERS},
    "BlankSemiMarkov": {"data": COUNTS},
    "BlankFactorialHMM": {"data": NUMBERS},
    "BlankNet": {"data": {"a": [0, 1, 1, 0] * 5, "b": [0, 1, 0, 0] * 5}},
    "BlankRBM": {"data": NUMBERS},
    "FactorAnalysis": {"data": RNG.normal(size=(40, 2)) @ RNG.normal(size=(2, 5)) + RNG.normal(size=(40, 5))},
    "SemiMarkov": {"data": [0, 1, 9, 8, 0, 0, 9, 9]},
    "CRF": {"data": credo.data.read(SENTENCES, targets=WORDS)},
    "LatentCRF": {"data": DATA_OF_KINDS["x"], "targets": WORDS},
    "ConditionalRBM": {"data": NUMBERS, "targets": (NUMBERS > 0.5).astype(int)},
    "HMMPosterior": {"data": NUMBERS},
    "SemiMarkovPosterior": {"data": NUMBERS},
    "MixturePosterior": {"data": NUMBERS},
}
MODELS = {  # of such sentences
    "CRF": lambda: credo.CRF(["n", "v"], np.eye(2), np.eye(2)),
    "LatentCRF": lambda: credo.LatentCRF({"part": ("y", "h")}, {"h": 2}).filled(**DATA_OF_KINDS),
}

_BLANK = dict.fromkeys(["sample", "infer", "log_likelihood"], "fit it first: credo.fit")
_NO_ROWS = {"sample": "which averages over them; draw from the model of the fit, or from one that posterior"}
_LEARNED = {
    "fit": "it is a distribution over parameters already; learn the model it is of",
    "continue": "it is a distribution over parameters already; learn the model it is of",
    "compare": "it is a distribution over parameters already; learn the model it is of",
}
_HALF = "a fractional machine has no factor graph.* ask for free_energy and log_density"
_NO_WEIGHTS = "declare parameters: credo.Parameter"
_NO_MODEL = "expected a Bayesian network, a model of hidden rows"
REFUSALS: dict[str, dict[str, str]] = {
    "BlankHMM": _BLANK,
    "BlankFlow": _BLANK,
    "BlankMixture": _BLANK,
    "BlankSemiMarkov": _BLANK,
    "BlankFactorialHMM": _BLANK,
    "BlankNet": _BLANK,
    "BlankRBM": _BLANK,
    "FactorAnalysis": _BLANK,
    "HMMPosterior": _NO_ROWS | _LEARNED,
    "SemiMarkovPosterior": _NO_ROWS | _LEARNED,
    "MixturePosterior": _NO_ROWS | _LEARNED,
    "FractionalRBM": dict.fromkeys(
        ["sample", "infer", "log_likelihood", "fit", "continue", "compare"], _HALF
    ),
    "CRF": {"sample": "labels depend on features, which must be given; ask about data="},
    "LatentCRF": {"sample": "labels depend on features, which must be given; ask about data="},
    "ConditionalRBM": {"sample": "labels depend on features, which must be given; ask about data="},
    "SemiMarkov": {"sample": "make the model with cut=True"},
    "FactorGraph": {"log_likelihood": "computes no log Z; use", "compare": _NO_MODEL}
    | dict.fromkeys(["fit", "continue"], _NO_WEIGHTS),
    "HybridNet": dict.fromkeys(["fit", "continue", "compare"], _NO_WEIGHTS),
    "BayesianTree": dict.fromkeys(["fit", "continue"], _NO_WEIGHTS) | {"compare": _NO_MODEL},
}
_DEAR = {
    ("BlankFlow", "compare"),
    ("Flow", "compare"),
    ("ConditionalRBM", "compare"),
    ("TopicModel", "compare"),
}


def is_model(kept: Any) -> bool:
    """Whether it can be asked about, or learned."""
    offers = ("to_factor_graph", "fill", "with_nodes", "as_rows", "read_batch")
    return isinstance(kept, (Family, Template)) or any(hasattr(kept, name) for name in offers)


TAGS = [tag for tag, make in EXAMPLES.items() if is_model(make())]


@cache
def model_of(tag: str) -> Any:
    """The example; of a family one member, which is a model of rows."""
    kept = MODELS.get(tag, EXAMPLES[tag])()
    return kept.take([0]) if isinstance(kept, Family) and len(kept) > 1 else kept


def has_sequences(model: Any) -> bool:
    return isinstance(model, Template) and not hasattr(model, "family")


@cache
def data_of(tag: str) -> dict[str, Any]:
    """How the calls get rows of a model: what it makes up itself, where nothing else is said."""
    if tag in DATA:
        return DATA[tag]
    model = model_of(tag)
    if hasattr(model, "emits_counts"):
        return {"data": credo.sample(model, lengths=LENGTHS, seed=0)[0]}
    if has_sequences(model):
        return {"data": credo.sample(model, lengths=LENGTHS, seed=0)[0], "lengths": LENGTHS}
    drawn = credo.sample(model, 20, seed=0)
    return {"data": drawn[0] if isinstance(drawn, tuple) else drawn}


@cache
def learned(tag: str) -> Any:
    return credo.fit(model_of(tag), **data_of(tag), max_iter=3, seed=0)


def sample(tag: str, path: Any) -> None:
    model = model_of(tag)
    count = {"lengths": [3, 2]} if has_sequences(model) or hasattr(model, "emits_counts") else {"count": 3}
    assert credo.sample(model, **count, seed=0) is not None


def infer(tag: str, path: Any) -> None:
    model, given = model_of(tag), dict(data_of(tag))
    given.pop("targets", None)
    asks_data = isinstance(model, (Family, Template)) or hasattr(model, "emits_counts")
    found = credo.infer(model, **given) if asks_data else credo.infer(model, seed=0)
    assert found.marginals is not None


def log_likelihood(tag: str, path: Any) -> None:
    assert np.isfinite(credo.log_likelihood(model_of(tag), **data_of(tag), seed=0).value)


def fit(tag: str, path: Any) -> None:
    found, given = learned(tag), model_of(tag)
    assert found.learner and np.isfinite(found.objective).all() and is_model(found.model)
    if found.log_likelihood is not None and found.log_likelihood.kind == "exact":
        again = credo.log_likelihood(found.model, **data_of(tag))
        assert found.log_likelihood.value == pytest.approx(again.value, rel=1e-6)
    if not has_refusals(tag, "infer") and tag != "IndependentRows":
        assert type(found.model) is type(given)


def goes_on(tag: str, path: Any) -> None:
    """Through a file, and on from there."""
    credo.save(learned(tag), path / "fit.credo")
    more = credo.fit(credo.load(path / "fit.credo"), **data_of(tag), max_iter=2, seed=0)
    assert more.learner == learned(tag).learner and type(more.model) is type(learned(tag).model)


def compare(tag: str, path: Any) -> None:
    table = credo.compare_models({"it": model_of(tag)}, **data_of(tag), criteria=["bic", "cv"], folds=2)
    (row,) = table.rows
    penalty = 0.5 * row.parameters * np.log(table.rows_of_data)
    assert row.bic == pytest.approx(row.log_likelihood - penalty)
    assert np.isfinite(row.cv) if row.cv is not None else is_sentence(row.reasons["cv"])


VERBS = {
    "sample": sample,
    "infer": infer,
    "log_likelihood": log_likelihood,
    "fit": fit,
    "continue": goes_on,
    "compare": compare,
}


def marks(tag: str, verb: str) -> Any:
    """What is dear is slow."""
    return pytest.mark.slow if (tag, verb) in _DEAR else ()


def has_refusals(tag: str, verb: str) -> bool:
    return verb in REFUSALS.get(tag, {})


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("tag", "verb"),
    [pytest.param(tag, verb, marks=marks(tag, verb), id=f"{tag}-{verb}") for tag in TAGS for verb in VERBS],
)
def test_every_model_answers_every_verb_or_says_what_to_do_instead(tag, verb, tmp_path):
    if not has_refusals(tag, verb):
        VERBS[verb](tag, tmp_path)
        return
    with pytest.raises(CredoError, match=REFUSALS[tag][verb]) as refusal:
        VERBS[verb](tag, tmp_path)
    assert is_sentence(str(refusal.value))
