"""Sepsis told from vital signs by chains, classic features and others (Tables 7.8 and 7.9).

The source's data, 22 newborns at 1 Hz, are private. Two sets stand in, and only the shape of the tables can
be compared:

    newborns   simulated (`_vital_signs.py`): 372 frames of 300 samples (the source: 3,501 of 1,200)
    adults     real, hourly: windows of 12 h of heart rate, breathing and saturation of 800 patients at most,
               half of them septic, gaps filled forwards

30 % of the *patients* are left out, three times. GMM-HMM has n states of two diagonal Gaussians and learns by
Baum-Welch; the models are compared by their likelihoods alone. GenHMM starts there, with a flow of four
couplings (three units) in place of every Gaussian, and learns for 20 passes; dGenHMM is GenHMM after one
epoch of conditional likelihood, and weighs labels by their shares.

HeRO (deviation, asymmetry, sample entropy of RRi) and POPS (moments of RRi and SpO2 and their correlations)
need 1 Hz; the logistic regression behind them, an SVM with a Gaussian kernel and an extreme learning machine
(ELM, 500 hidden units, ridge) choose their penalty among 1e-5 ... 1e5 by cross-validation over patients.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from _chains import with_flows
from _orders import OrderedTable, not_below
from _tables import Cell, Measured, Published
from _vital_signs import Frames, adults, newborns, with_slopes

import credo
from credo.core.errors import ConvergenceWarning
from credo.data.vital_signs import heart_rate_features, oximetry_features
from credo.estimators import MaximumLikelihoodClassifier

LENGTH, HOURS, COUNT = 300, 12, 800
LEFT_OUT = 0.3
SETS = {"newborns": (3, 6, 9), "adults": (3, 6, 9)}
METHODS = ("GMM-HMM", "GenHMM", "dGenHMM")
SAID = {
    ("raw", 3): ((0.68, 0.03), (0.67, 0.04), (0.70, 0.10)),
    ("raw", 6): ((0.68, 0.03), (0.61, 0.08), (0.67, 0.06)),
    ("raw", 9): ((0.69, 0.03), (0.63, 0.08), (0.65, 0.04)),
    ("slopes", 3): ((0.75, 0.05), (0.69, 0.07), (0.71, 0.04)),
    ("slopes", 6): ((0.74, 0.08), (0.66, 0.06), (0.72, 0.10)),
    ("slopes", 9): ((0.74, 0.05), (0.59, 0.08), (0.67, 0.04)),
}
OTHERS = {"POPS": (0.54, 0.01), "HeRO": (0.57, 0.04), "SVM": (0.60, 0.04), "ELM": (0.60, 0.03)}
PENALTIES = np.logspace(-5, 5, 11)
HIDDEN = 500  # units of the extreme learning machine
BIJECTION = "actnorm + coupling(layers=4, width=3)"
LEARNER, PERIODS = "gradient-em(batch=512, refresh=5)", 4  # of five passes
FLOOR = 1e-3  # of variances of standardised signals


def _cells() -> list[Cell]:
    found = []
    for data, size in (("newborns", f"372 x {LENGTH}"), ("adults", f"{COUNT} x {HOURS}")):
        for (inputs, states), numbers in SAID.items():
            said = {(m, "accuracy"): Published(*pair) for m, pair in zip(METHODS, numbers, strict=True)}
            settings = {"data": data, "size": size, "inputs": inputs, "states": states}
            found.append(Cell(settings, said if data == "newborns" else {}))
        said = {(m, "accuracy"): Published(*pair) for m, pair in OTHERS.items()}
        found.append(
            Cell({"data": data, "size": size, "inputs": "others"}, said if data == "newborns" else {})
        )
    return found


@lru_cache(maxsize=2)
def frames_of(data: str, length: int, slopes: bool) -> Frames:
    """All frames."""
    found = newborns(length) if data == "newborns" else adults(length, COUNT)
    return with_slopes(found) if slopes else found


def split(frames: Frames, seed: int) -> tuple[Frames, Frames]:
    """A part to learn from and a part to test, without a patient in both, each label in both."""
    rng = np.random.default_rng(seed)
    septic = np.unique(frames.patient[frames.y == 1])
    others = np.setdiff1d(np.unique(frames.patient), septic)
    out = np.concatenate([g[rng.permutation(len(g))[: round(LEFT_OUT * len(g))]] for g in (septic, others)])
    held = np.isin(frames.patient, out)
    return _taken(frames, ~held), _taken(frames, held)


def _taken(frames: Frames, mask: np.ndarray) -> Frames:
    return Frames([frames.x[k] for k in np.flatnonzero(mask)], frames.y[mask], frames.patient[mask])


def standardised(train: Frames, test: Frames) -> tuple[Frames, Frames]:
    """Signals in deviations of the training part."""
    rows = np.concatenate(train.x)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    return tuple(part._replace(x=[(x - mean) / spread for x in part.x]) for part in (train, test))


def parts_of(cell: Cell, seed: int) -> tuple[Frames, Frames]:
    """The frames of a cell, cut in two."""
    about = cell.settings
    length = about.get("length", LENGTH if about["data"] == "newborns" else HOURS)
    return split(frames_of(about["data"], length, about["inputs"] == "slopes"), seed)


def measure_flows(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """Chains of mixtures of flows, before and after they are tuned to tell the labels apart."""
    if cell.settings["inputs"] == "others":
        return [{} for _ in seeds]
    found = []
    for seed in seeds:
        train, test = standardised(*parts_of(cell, seed))
        gaussian = gaussian_chains(cell, train, seed).models_
        made = MaximumLikelihoodClassifier(
            lambda label, x, start=gaussian, number=seed: with_flows(start[label], x, BIJECTION, number),
            learner=LEARNER, options={"max_iter": PERIODS}, random_state=seed,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            made.fit(train.x, train.y)
        told = {"GenHMM": {"accuracy": made.score(test.x, test.y)}}
        tuned = made.set_params(priors="counts").tune(train.x, train.y)
        found.append({**told, "dGenHMM": {"accuracy": tuned.score(test.x, test.y)}})
    return found


def gaussian_chains(cell: Cell, train: Frames, seed: int) -> MaximumLikelihoodClassifier:
    """A chain of Gaussian mixtures for each label."""
    blank = credo.HMM.blank(cell.settings["states"], "diagonal", components=2)
    made = MaximumLikelihoodClassifier(
        blank, learner=f"em(floor={FLOOR})", options={"max_iter": 30}, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return made.fit(train.x, train.y)


def measure_gaussian(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """Chains of Gaussian mixtures."""
    if cell.settings["inputs"] == "others":
        return [{} for _ in seeds]
    found = []
    for seed in seeds:
        train, test = standardised(*parts_of(cell, seed))
        made = gaussian_chains(cell, train, seed)
        found.append({"GMM-HMM": {"accuracy": made.score(test.x, test.y)}})
    return found


def measure_others(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """Features with logistic regression, SVM and ELM on the series."""
    if cell.settings["inputs"] != "others":
        return [{} for _ in seeds]
    found = []
    for seed in seeds:
        train, test = parts_of(cell, seed)
        named: dict[str, Any] = {}
        if cell.settings["data"] == "newborns":  # an hour is no heart beat
            named["POPS"] = _logistic(train, test, lambda x: oximetry_features(x[:, 1], x[:, 2]))
            named["HeRO"] = _logistic(train, test, lambda x: heart_rate_features(x[:, 1]))
        named["SVM"], named["ELM"] = _svm(train, test), _elm(train, test, seed)
        found.append({name: {"accuracy": value} for name, value in named.items()})
    return found


def _searched(steps: Sequence[Any], grid: dict[str, Any], x: Any, train: Frames) -> Any:
    from sklearn.model_selection import GridSearchCV, GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    search = GridSearchCV(make_pipeline(StandardScaler(), *steps), grid, cv=GroupKFold(3))
    return search.fit(x, train.y, groups=train.patient)


def _logistic(train: Frames, test: Frames, features: Any) -> float:
    from sklearn.linear_model import LogisticRegression

    x, test_x = (np.array([features(frame) for frame in part.x]) for part in (train, test))
    grid = {"logisticregression__C": PENALTIES}
    return float(_searched([LogisticRegression(max_iter=2000)], grid, x, train).score(test_x, test.y))


def _flat(part: Frames) -> np.ndarray:
    return np.array([x.ravel() for x in part.x])


def _svm(train: Frames, test: Frames) -> float:
    from sklearn.svm import SVC

    return float(_searched([SVC()], {"svc__C": PENALTIES}, _flat(train), train).score(_flat(test), test.y))


def _elm(train: Frames, test: Frames, seed: int) -> float:
    """A random hidden layer, and ridge regression of the label on it."""
    from sklearn.linear_model import RidgeClassifier
    from sklearn.preprocessing import FunctionTransformer

    rng = np.random.default_rng(seed)
    x, test_x = _flat(train), _flat(test)
    weights, shift = (
        rng.standard_normal((x.shape[1], HIDDEN)) / np.sqrt(x.shape[1]),
        rng.standard_normal(HIDDEN),
    )
    hidden = FunctionTransformer(lambda rows: np.tanh(rows @ weights + shift))
    grid = {"ridgeclassifier__alpha": PENALTIES}
    return float(_searched([hidden, RidgeClassifier()], grid, x, train).score(test_x, test.y))


TABLE = OrderedTable(
    "genhmm-sepsis",
    __doc__.splitlines()[0],
    _cells(),
    {"others": measure_others, "gaussian": measure_gaussian, "flows": measure_flows},
    repeats=3,
    quick=[
        Cell({"data": "newborns", "size": "372 x 60", "length": 60, "inputs": "raw", "states": 2}),
        Cell({"data": "newborns", "size": "372 x 60", "length": 60, "inputs": "others"}),
    ],
    quick_repeats=1,
    metrics=("accuracy",),
    form=".2f",
    chunk=1,
    orders=(
        not_below("dGenHMM", "GenHMM", "accuracy"),
        not_below("dGenHMM", "GMM-HMM", "accuracy"),
    ),
)

if __name__ == "__main__":
    TABLE.main()
