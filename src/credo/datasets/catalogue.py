"""Sample models by name, in Python and in the shell: `"asia"`, `"ising-grid(20, coupling=0.3)"`.

A name is that of the function that makes the model; hyphens and underscores are the same. The module of a
function is imported when its model is asked for.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from ..core.errors import OptionError
from ..core.registry import Entry, near_misses, or_else, read_spec, read_value

__all__ = ["CONTENTS", "find", "is_name", "load", "names"]

_KIND = "sample model"


def _entries(module: str, **summaries: str) -> dict[str, Entry]:
    home = f"{__package__}.{module}"
    return {name.replace("_", "-"): Entry(home, text) for name, text in summaries.items()}


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


def names() -> list[str]:
    """List the sample models, those with random numbers included.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.names()[:3]
    ['asia', 'cancer', 'complete-ising']
    """
    return sorted(CONTENTS)


def is_name(spec: str) -> bool:
    """Whether a text names a sample model, whatever stands in brackets after it."""
    return _spelt(spec.partition("(")[0]) in CONTENTS


def _spelt(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def find(name: str) -> Callable[..., Any]:
    """The function that makes the sample model of this name."""
    spelt = _spelt(name)
    if spelt not in CONTENTS:
        near = near_misses(name, CONTENTS)
        hint = f"did you mean {or_else(near)}? " if near else ""
        raise OptionError(f"no {_KIND} named '{name}'; {hint}`credo datasets` lists all {len(CONTENTS)}")
    module = importlib.import_module(CONTENTS[spelt].module)
    made: Callable[..., Any] = getattr(module, spelt.replace("-", "_"))
    return made


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
    if not isinstance(spec, str):
        raise OptionError(f"{_KIND}: expected a name such as 'asia', got {spec!r:.80}")
    name, parts = read_spec(_KIND, spec)
    make = find(name)
    pairs = [_argument(part) for part in parts]
    signature = inspect.signature(make)
    try:
        bound = signature.bind(*(v for k, v in pairs if not k), **{k: v for k, v in pairs if k})
    except TypeError as error:
        known = list(signature.parameters)
        takes = f"its arguments are {known}" if known else "it takes no arguments"
        raise OptionError(f"{name}: {error}; {takes}") from None
    return make(*bound.args, **bound.kwargs)


def _argument(part: str) -> tuple[str, Any]:
    """Name and value of `name=value`; a value alone has an empty name."""
    key, equals, value = part.partition("=")
    if equals and key.strip().isidentifier():
        return key.strip(), read_value(value.strip())
    return "", read_value(part)
