"""The heat pump: tables follow the rules, and diagnoses make sense."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.datasets.diagnosis import _FAULTS

MODEL = credo.datasets.heating()


def yes(name: str, **evidence: str) -> float:
    return credo.infer(MODEL, evidence=evidence).marginal(name)["yes"]


def test_every_variable_is_linked_and_labelled():
    linked = {name for edge in MODEL.edges for name in edge}
    assert linked == set(MODEL.variables.names)
    assert all(not label.isdecimal() for v in MODEL.variables for label in v.states)


def test_events_are_noisy_ors():
    # Without a cause 0.01; wear alone brings rattling about with 0.5, a fan fault with 0.6.
    assert MODEL.parents["rattling"] == ("compressor_worn", "fan_fault", "pump_worn")
    table = MODEL.tables["rattling"][..., 1]
    assert table[0, 0, 0] == pytest.approx(0.01)
    assert table[1, 0, 0] == pytest.approx(1 - 0.99 * 0.5)
    assert table[1, 1, 0] == pytest.approx(1 - 0.99 * 0.5 * 0.4)


def test_a_cause_of_three_states_has_a_strength_in_each():
    assert MODEL.tables["compressor_worn"][:, 1] == pytest.approx([0.005, 1 - 0.995 * 0.98, 1 - 0.995 * 0.9])


def test_levels_fall_off_around_their_mean():
    weights = np.exp(-((np.arange(3) - 0.8) ** 2) / (2 * 0.35**2))
    assert MODEL.tables["airflow"][0, 1, 0] == pytest.approx(weights / weights.sum())
    # Ice, dirt and a dead fan together leave the scale: the mean stays at its end.
    assert MODEL.tables["airflow"][1, 1, 1] == pytest.approx(MODEL.tables["airflow"][1, 0, 1])


@pytest.mark.parametrize(
    ("evidence", "fault"),
    [
        ({"suction_pressure": "low", "gas_temperature": "high", "ice_on_unit": "yes"}, "refrigerant_leak"),
        ({"flow_alarm": "yes", "gurgling": "yes", "water_pressure": "low"}, "pipe_leak"),
        ({"display_dark": "yes"}, "power_failure"),
        ({"supply_display": "cold", "cold_rooms": "no", "cycling": "yes"}, "sensor_drift"),
        ({"cold_rooms": "yes", "service": "overdue"}, "coil_dirty"),
    ],
)
def test_signs_point_to_the_fault_they_belong_to(evidence, fault):
    result = credo.infer(MODEL, evidence=evidence)
    assert max(_FAULTS, key=lambda name: result.marginal(name)["yes"]) == fault


def test_one_explanation_makes_another_less_probable():
    assert yes("fan_fault", rattling="yes", compressor_worn="yes") < yes("fan_fault", rattling="yes")


def test_more_age_never_means_fewer_faults():
    for name in _FAULTS:
        new, middling, old = (yes(name, age=age) for age in ("new", "middling", "old"))
        assert new <= middling + 1e-12 and middling <= old + 1e-12
