"""Models to be learned, by name: `"hmm(states=3)"`, `"mixture(3)"`, `"bayes-net(edges=[rain->wet])"`.

Each is a blank: `credo.fit` takes its columns, states and parameters from data.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..core.catalogue import Catalogue, entries_of
from ..core.errors import ModelError

if TYPE_CHECKING:
    from ..families.blank import BlankMixture
    from .blank_hmm import BlankFactorialHMM, BlankHMM
    from .blank_net import BlankNet
    from .blank_rbm import BlankRBM
    from .crf import CRF
    from .factor_analysis import FactorAnalysis
    from .topic_model import TopicModel

__all__ = [
    "BLANKS",
    "bayes_net",
    "crf",
    "factor_analysis",
    "factorial_hmm",
    "hmm",
    "mixture",
    "rbm",
    "semi_markov",
    "topic_model",
]

BLANKS = Catalogue(
    "model to be learned",
    entries_of(
        __name__,
        bayes_net="Bayesian network of these edges; states and tables come from the data.",
        crf="Conditional random field: labels beside features, in sequences.",
        factor_analysis="Columns of numbers that share a few hidden numbers.",
        factorial_hmm="Several hidden chains behind the rows of a sequence, with so many states each.",
        hmm="Hidden Markov model of so many states, for sequences.",
        mixture="Mixture of so many components, for rows.",
        rbm="Boltzmann machine of visible units and so many hidden ones.",
        semi_markov="Hidden states that last between a least and a longest number of steps.",
        topic_model="Topics of documents, which are rows of counts of words.",
    ),
    "credo learners",
)


def bayes_net(edges: Any = (), states: Mapping[str, Any] | None = None) -> BlankNet:
    """Bayesian network of these edges; states and tables come from the data.

    Parameters
    ----------
    edges
        Pairs (parent, child), or a text such as `"rain->wet, sprinkler->wet"`; `"a->b->c"` is a chain, and a
        name alone a variable without edges.
    states
        Name -> how many states, their labels, or `"real"`, of variables that the data shall not decide, such
        as hidden ones.

    Examples
    --------
    >>> from credo.models.by_name import BLANKS
    >>> BLANKS.make("bayes-net(edges=[coin->a, coin->b], states={'coin': 2})")
    BlankNet(3 variables, 2 edges: coin -> a, coin -> b; no tables yet: fit it first)
    """
    from .bayes_net import BayesNet

    nodes, pairs = _read_edges(edges) if isinstance(edges, str) else ((), edges)
    return BayesNet.from_edges(pairs, None if states is None else _domains(states), nodes)


def _read_edges(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The names in a text, and its edges."""
    nodes: list[str] = []
    pairs: list[tuple[str, str]] = []
    plain = text.strip().removeprefix("[").removesuffix("]")
    for part in plain.split(",") if plain.strip() else []:
        names = [name.strip() for name in part.split("->")]
        if not all(names):
            raise ModelError(f"edges: expected a text such as 'rain->wet, sprinkler->wet', got {text!r:.80}")
        nodes += names[:1]
        pairs += pairwise(names)
    return nodes, pairs


def _domains(states: Any) -> dict[str, Any]:
    from ..core.domain import Real

    if not isinstance(states, Mapping):
        raise ModelError(f"states: expected a mapping such as {{'coin': 2}}, got {states!r:.80}")
    return {name: Real() if given == "real" else given for name, given in states.items()}


def factorial_hmm(states: Any, emission: Any = None) -> BlankFactorialHMM:
    """Several hidden chains behind the rows of a sequence, with so many states each.

    Parameters
    ----------
    states, emission
        As in `FactorialHMM`: `"factorial-hmm(states=[2, 3], emission=additive)"`.
    """
    from .blank_hmm import BlankFactorialHMM

    return BlankFactorialHMM(states, emission)


def hmm(states: int, emission: Any = None, components: int = 1) -> BlankHMM:
    """Hidden Markov model of so many states, for sequences.

    Parameters
    ----------
    states, emission, components
        As in `HMM.blank`.
    """
    from .hmm import HMM

    return HMM.blank(states, emission, components=components)


def mixture(components: int, emission: Any = None) -> BlankMixture:
    """Mixture of so many components, for rows.

    Parameters
    ----------
    components, emission
        As in `Mixture.blank`.
    """
    from ..families.mixture import Mixture

    return Mixture.blank(components, emission)


def crf() -> CRF:
    """Conditional random field: labels beside features, in sequences."""
    from .crf import CRF

    return CRF()


def factor_analysis(factors: int | None = None, noise: str = "diagonal") -> FactorAnalysis:
    """Columns of numbers that share a few hidden numbers.

    Parameters
    ----------
    factors, noise
        As in `FactorAnalysis`.
    """
    from .factor_analysis import FactorAnalysis

    return FactorAnalysis(factors, noise)  # type: ignore[arg-type]


def rbm(hidden: int, visible: str = "bernoulli") -> BlankRBM:
    """Boltzmann machine of visible units and so many hidden ones.

    Parameters
    ----------
    hidden, visible
        As in `RBM.blank`.
    """
    from .blank_rbm import BlankRBM

    return BlankRBM(hidden, visible)  # type: ignore[arg-type]


def semi_markov(states: int, durations: Any, emission: Any = None) -> Any:
    """Hidden states that last between a least and a longest number of steps.

    Parameters
    ----------
    states, durations, emission
        As in `SemiMarkov`: `"semi-markov(2, durations=[4, 20])"`.
    """
    from .semi_markov import SemiMarkov

    return SemiMarkov(states=states, durations=durations, emission=emission)


def topic_model(topics: int, mixtures: int = 1) -> TopicModel:
    """Topics of documents, which are rows of counts of words.

    Parameters
    ----------
    topics, mixtures
        As in `TopicModel`.
    """
    from .topic_model import TopicModel

    return TopicModel(topics, mixtures=mixtures)
