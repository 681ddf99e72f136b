"""Sample models by name, in Python and in the shell: `"asia"`, `"ising-grid(20, coupling=0.3)"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.catalogue import Catalogue, entries_of
from ..core.registry import Entry

__all__ = ["CONTENTS", "SAMPLES", "find", "load", "names"]


def _entries(module: str, **summaries: str) -> dict[str, Entry]:
    return entries_of(f"{__package__}.{module}", **summaries)


CONTENTS = {
    **_entries(
        "named",
        asia="Chest clinic of Lauritzen and Spiegelhalter, 1988 (8 variables).",
        cancer="Lung cancer, its causes and two signs, of Korb and Nicholson, 2010 (5 variables).",
        earthquake="Burglary or earthquake: Pearl's alarm, of Korb and Nicholson, 2010 (5 variables).",
        sprinkler="Wet grass: clouds bring rain, a dry sky starts the sprinkler (4 variables).",
        student="A grade, a test and a letter of recommendation, of Koller and Friedman, 2009 (5 variables).",
        survey="Who travels how: the survey of Scutari and Denis, 2014 (6 variables).",
    ),
    **_entries(
        "diagnosis", heating="Why a heat pump does not heat: faults, readings and complaints (42 variables)."
    ),
    **_entries(
        "hybrid",
        fish="Salmon or sea bass, told by length and brightness: a hybrid model "
        "(3 discrete, 2 real variables).",
    ),
    **_entries(
        "hidden_markov",
        umbrella="Rain told from umbrellas, day by day: a hidden Markov model as a network "
        "(2 variables a day).",
        umbrella_hmm="The same in Python as an `HMM`, for sequences of any length.",
    ),
    **_entries(
        "ising",
        complete_ising="Ising model with an edge between every two of `n` variables.",
        erdos_renyi_ising="Ising model where each pair of `n` variables has an edge with probability `p`.",
        ising_grid="Ising model on a grid with four neighbours and free boundaries.",
        potts_grid="Potts model on a grid: weight exp(J) for equal neighbours, exp(h) per state.",
    ),
    **_entries(
        "random_models",
        random_bayes_net="Bayesian network with random parents and tables, in topological order.",
        random_factor_graph="Model with factors over random sets of variables.",
        random_tree="Pairwise model on a random tree.",
    ),
}
SAMPLES = Catalogue("sample model", CONTENTS, "credo datasets")


def names() -> list[str]:
    """List the sample models, those with random numbers included.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.names()[:3]
    ['asia', 'cancer', 'complete-ising']
    """
    return SAMPLES.names()


def find(name: str) -> Callable[..., Any]:
    """The function that makes the sample model of this name."""
    return SAMPLES.find(name)


def load(spec: str) -> Any:
    """Make a sample model from its name, with arguments as in a call if it takes any.

    Parameters
    ----------
    spec
        `"asia"`, `"ising-grid(20)"`, `"ising-grid(20, coupling=uniform(low=0, high=1), seed=3)"`.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.load("ising-grid(3, coupling=0.5)")
    MarkovNet(9 variables, 21 factors)
    """
    return SAMPLES.make(spec)
