"""Small networks everybody knows, with the numbers printed in the books and papers they come from."""

from __future__ import annotations

from ..models.bayes_net import BayesNet

__all__ = ["asia", "cancer", "earthquake", "sprinkler", "student", "survey"]

_NO_YES = ["no", "yes"]


def sprinkler() -> BayesNet:
    """Wet grass: clouds bring rain, a dry sky starts the sprinkler (4 variables).

    Rain and sprinkler both wet the grass. The version with a cloudy sky (K. Murphy, 1998), a standard example
    of explaining away.

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
    """Chest clinic of Lauritzen and Spiegelhalter, 1988 (8 variables).

    Shortness of breath (`dysp`) and an X-ray tell bronchitis, tuberculosis and lung cancer apart; `either`
    (tuberculosis or lung cancer) is deterministic.

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


def cancer() -> BayesNet:
    """Lung cancer, its causes and two signs, of Korb and Nicholson, 2010 (5 variables).

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.cancer().parents["cancer"]
    ('pollution', 'smoker')
    """
    return BayesNet(
        {
            "pollution": ["low", "high"],
            "smoker": _NO_YES,
            "cancer": _NO_YES,
            "xray": ["negative", "positive"],
            "dyspnoea": _NO_YES,
        },
        parents={"cancer": ["pollution", "smoker"], "xray": ["cancer"], "dyspnoea": ["cancer"]},
        tables={
            "pollution": [0.9, 0.1],
            "smoker": [0.7, 0.3],
            "cancer": [[[0.999, 0.001], [0.97, 0.03]], [[0.98, 0.02], [0.95, 0.05]]],
            "xray": [[0.8, 0.2], [0.1, 0.9]],
            "dyspnoea": [[0.7, 0.3], [0.35, 0.65]],
        },
    )


def earthquake() -> BayesNet:
    """Burglary or earthquake: Pearl's alarm, of Korb and Nicholson, 2010 (5 variables).

    Two neighbours, John and Mary, call when they think they hear the alarm.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.earthquake().tables["alarm"][1, 0]
    array([0.06, 0.94])
    """
    return BayesNet(
        dict.fromkeys(["burglary", "earthquake", "alarm", "john", "mary"], _NO_YES),
        parents={"alarm": ["burglary", "earthquake"], "john": ["alarm"], "mary": ["alarm"]},
        tables={
            "burglary": [0.99, 0.01],
            "earthquake": [0.98, 0.02],
            "alarm": [[[0.999, 0.001], [0.71, 0.29]], [[0.06, 0.94], [0.05, 0.95]]],
            "john": [[0.95, 0.05], [0.1, 0.9]],
            "mary": [[0.99, 0.01], [0.3, 0.7]],
        },
    )


def student() -> BayesNet:
    """A grade, a test and a letter of recommendation, of Koller and Friedman, 2009 (5 variables).

    The network of their section 3.2.

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


def survey() -> BayesNet:
    """Who travels how: the survey of Scutari and Denis, 2014 (6 variables).

    Age and sex bear on education, education on occupation and the size of the town of residence, and these
    two on the means of travel.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.survey().tables["travel"][0, 1]
    array([0.58, 0.24, 0.18])
    """
    return BayesNet(
        {
            "age": ["young", "adult", "old"],
            "sex": ["male", "female"],
            "education": ["school", "university"],
            "occupation": ["employed", "self-employed"],
            "residence": ["small", "big"],
            "travel": ["car", "train", "other"],
        },
        parents={
            "education": ["age", "sex"],
            "occupation": ["education"],
            "residence": ["education"],
            "travel": ["occupation", "residence"],
        },
        tables={
            "age": [0.3, 0.5, 0.2],
            "sex": [0.6, 0.4],
            "education": [
                [[0.75, 0.25], [0.64, 0.36]],
                [[0.72, 0.28], [0.7, 0.3]],
                [[0.88, 0.12], [0.9, 0.1]],
            ],
            "occupation": [[0.96, 0.04], [0.92, 0.08]],
            "residence": [[0.25, 0.75], [0.2, 0.8]],
            "travel": [
                [[0.48, 0.42, 0.1], [0.58, 0.24, 0.18]],
                [[0.56, 0.36, 0.08], [0.7, 0.21, 0.09]],
            ],
        },
    )
