"""Small networks everybody knows, with the numbers of their first publications."""

from __future__ import annotations

from ..models.bayes_net import BayesNet

__all__ = ["asia", "sprinkler", "student"]

_NO_YES = ["no", "yes"]


def sprinkler() -> BayesNet:
    """Make the wet-grass network: clouds bring rain, a dry sky starts the sprinkler, both wet the grass.

    The version with a cloudy sky (K. Murphy, 1998), a standard example of explaining away.

    Examples
    --------
    >>> from credo import datasets
    >>> model = datasets.sprinkler()
    >>> model.variables.names
    ('cloudy', 'sprinkler', 'rain', 'wet')
    >>> model.tables["wet"][1, 0]
    array([0.1, 0.9])
    """
    return BayesNet(
        dict.fromkeys(["cloudy", "sprinkler", "rain", "wet"], _NO_YES),
        parents={"sprinkler": ["cloudy"], "rain": ["cloudy"], "wet": ["sprinkler", "rain"]},
        tables={
            "cloudy": [0.5, 0.5],
            "sprinkler": [[0.5, 0.5], [0.9, 0.1]],
            "rain": [[0.8, 0.2], [0.2, 0.8]],
            "wet": [[[1.0, 0.0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]],
        },
    )


def asia() -> BayesNet:
    """Make the chest-clinic network of Lauritzen and Spiegelhalter (1988).

    Eight variables; `either` (tuberculosis or lung cancer) is deterministic.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.asia().parents["dysp"]
    ('bronc', 'either')
    """
    return BayesNet(
        dict.fromkeys(["asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"], _NO_YES),
        parents={
            "tub": ["asia"],
            "lung": ["smoke"],
            "bronc": ["smoke"],
            "either": ["tub", "lung"],
            "xray": ["either"],
            "dysp": ["bronc", "either"],
        },
        tables={
            "asia": [0.99, 0.01],
            "tub": [[0.99, 0.01], [0.95, 0.05]],
            "smoke": [0.5, 0.5],
            "lung": [[0.99, 0.01], [0.9, 0.1]],
            "bronc": [[0.7, 0.3], [0.4, 0.6]],
            "either": [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
            "xray": [[0.95, 0.05], [0.02, 0.98]],
            "dysp": [[[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.1, 0.9]]],
        },
    )


def student() -> BayesNet:
    """Make the student network of Koller and Friedman (2009, section 3.2).

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.student().tables["grade"][0, 1]
    array([0.05, 0.25, 0.7 ])
    """
    return BayesNet(
        {
            "difficulty": ["easy", "hard"],
            "intelligence": ["low", "high"],
            "grade": ["A", "B", "C"],
            "SAT": ["low", "high"],
            "letter": ["weak", "strong"],
        },
        parents={
            "grade": ["intelligence", "difficulty"],
            "SAT": ["intelligence"],
            "letter": ["grade"],
        },
        tables={
            "difficulty": [0.6, 0.4],
            "intelligence": [0.7, 0.3],
            "grade": [[[0.3, 0.4, 0.3], [0.05, 0.25, 0.7]], [[0.9, 0.08, 0.02], [0.5, 0.3, 0.2]]],
            "SAT": [[0.95, 0.05], [0.2, 0.8]],
            "letter": [[0.1, 0.9], [0.4, 0.6], [0.99, 0.01]],
        },
    )
