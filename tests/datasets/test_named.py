"""Named networks against numbers known from the literature."""

from __future__ import annotations

import sys
from subprocess import run

import pytest

import credo
from credo import datasets


def p(model, variable: str, state: str, **evidence: str) -> float:
    return credo.infer(model, "enumerate", evidence=evidence).marginal(variable)[state]


@pytest.mark.parametrize(
    ("variable", "evidence", "expected"),
    [
        ("rain", {"wet": "yes"}, 0.7079),
        ("sprinkler", {"wet": "yes"}, 0.4298),
        ("sprinkler", {"wet": "yes", "rain": "yes"}, 0.1945),  # the rain explains the wet grass away
        ("wet", {}, 0.6471),
    ],
)
def test_the_sprinkler_network_has_the_known_answers(variable, evidence, expected):
    assert p(datasets.sprinkler(), variable, "yes", **evidence) == pytest.approx(expected, abs=5e-5)


def test_wet_grass_without_rain_is_the_sum_by_hand():
    # p(sprinkler | no rain) = (0.5 * 0.8 * 0.5 + 0.5 * 0.2 * 0.1) / 0.5 = 0.42; it wets with 0.9.
    assert p(datasets.sprinkler(), "wet", "yes", rain="no") == pytest.approx(0.42 * 0.9, abs=1e-12)


@pytest.mark.parametrize(
    ("variable", "evidence", "expected"),
    [
        ("dysp", {}, 0.4359706),
        ("either", {}, 0.064828),
        ("xray", {}, 0.11029004),
        ("tub", {}, 0.0104),
        ("either", {"xray": "yes"}, 0.064828 * 0.98 / 0.11029004),
        ("either", {"tub": "yes"}, 1.0),
    ],
)
def test_the_asia_network_has_the_known_answers(variable, evidence, expected):
    assert p(datasets.asia(), variable, "yes", **evidence) == pytest.approx(expected, abs=1e-7)


def test_bronchitis_given_shortness_of_breath_is_the_sum_by_hand():
    either = 1 - 0.9896 * 0.99  # without smoking; independent of bronchitis
    sick = 0.3 * (0.9 * either + 0.8 * (1 - either))
    well = 0.7 * (0.7 * either + 0.1 * (1 - either))
    found = p(datasets.asia(), "bronc", "yes", dysp="yes", smoke="no")
    assert found == pytest.approx(sick / (sick + well), abs=1e-12)


@pytest.mark.parametrize(
    ("variable", "state", "evidence", "expected"),
    [
        ("letter", "strong", {}, 0.502),
        ("letter", "strong", {"intelligence": "low"}, 0.389),
        ("letter", "strong", {"intelligence": "low", "difficulty": "easy"}, 0.513),
        ("intelligence", "high", {"grade": "C"}, 0.079),
        ("difficulty", "hard", {"grade": "C"}, 0.629),
        ("intelligence", "high", {"grade": "C", "SAT": "high"}, 0.578),
        ("intelligence", "high", {"grade": "C", "difficulty": "hard"}, 0.11),
    ],
)
def test_the_student_network_has_the_printed_answers(variable, state, evidence, expected):
    assert p(datasets.student(), variable, state, **evidence) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("variable", "state", "evidence", "expected"),
    [
        ("cancer", "yes", {}, 0.01163),
        ("dyspnoea", "yes", {}, 0.3 + 0.35 * 0.01163),
        ("xray", "positive", {}, 0.2 + 0.7 * 0.01163),
        ("cancer", "yes", {"smoker": "yes"}, 0.9 * 0.03 + 0.1 * 0.05),
        ("cancer", "yes", {"xray": "positive"}, 0.9 * 0.01163 / (0.2 + 0.7 * 0.01163)),
    ],
)
def test_the_cancer_network_has_the_known_answers(variable, state, evidence, expected):
    assert p(datasets.cancer(), variable, state, **evidence) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("variable", "evidence", "expected"),
    [
        ("alarm", {}, 0.0161142),
        ("john", {}, 0.05 + 0.85 * 0.0161142),
        ("mary", {}, 0.01 + 0.69 * 0.0161142),
        ("burglary", {"alarm": "yes"}, (0.00019 + 0.009212) / 0.0161142),
        ("burglary", {"alarm": "yes", "earthquake": "yes"}, 0.00019 / (0.00019 + 0.005742)),
    ],
)
def test_the_earthquake_network_has_the_known_answers(variable, evidence, expected):
    assert p(datasets.earthquake(), variable, "yes", **evidence) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    ("evidence", "car", "train", "other"),
    [
        ({}, 0.5618, 0.2809, 0.1573),
        ({"sex": "female"}, 0.5621, 0.2806, 0.1573),
        ({"residence": "small"}, 0.4839, 0.4171, 0.0990),
    ],
)
def test_the_survey_network_has_the_printed_answers(evidence, car, train, other):
    model = datasets.survey()
    found = [p(model, "travel", state, **evidence) for state in ("car", "train", "other")]
    assert found == pytest.approx([car, train, other], abs=1e-4)


def test_binary_labels_are_no_and_yes_in_this_order():
    for model in (datasets.sprinkler(), datasets.asia(), datasets.earthquake()):
        assert all(v.states == ("no", "yes") for v in model.variables)


def test_importing_the_datasets_loads_no_heavy_package():
    code = (
        "import sys, credo.datasets as d; d.asia().sample(3, seed=0); d.ising_grid(3); d.random_tree(9);"
        "d.heating(); d.umbrella();"
        "print([m for m in ('numba', 'scipy', 'pandas', 'networkx', 'matplotlib') if m in sys.modules])"
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
