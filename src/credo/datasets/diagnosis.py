"""A house that is not warm: fault diagnosis of a heat pump.

Circumstances make faults more or less probable, faults disturb what happens inside the machine, and that
shows in readings and complaints. The first state of every cause is the harmless one. All tables follow from
two rules, so that one line says what a table of a hundred numbers would:

    event      p(yes | causes) = 1 - (1 - leak) prod_c (1 - strength_c)
    level      p(state k | causes) ∝ exp(-(k - m)^2 / (2 spread^2)),    m = base + sum_c shift_c

The first is a noisy-or: every cause alone brings the event about with its strength. The second has ordered
states 0, 1, ... around a mean m, which is kept between the first and the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from ..models.bayes_net import BayesNet

__all__ = ["heating"]

_Causes = Mapping[str, tuple[float, ...]]  # cause -> strength or shift in each of its states but the first


@dataclass(frozen=True)
class _Event:
    """Something that happens or does not."""

    states: ClassVar[tuple[str, ...]] = ("no", "yes")
    leak: float  # chance without any of the causes
    causes: _Causes

    def row(self, effects: list[float]) -> list[float]:
        """Probabilities of the states under these strengths."""
        no = (1 - self.leak) * float(np.prod([1 - strength for strength in effects]))
        return [no, 1 - no]


@dataclass(frozen=True)
class _Level:
    """Something with ordered states."""

    states: tuple[str, ...]
    base: float  # the mean where all causes are in their first states
    causes: _Causes
    spread: float = 0.35  # how blurred it is

    def row(self, effects: list[float]) -> np.ndarray:
        """Probabilities of the states under these shifts."""
        mean = np.clip(self.base + sum(effects), 0, len(self.states) - 1)
        weights = np.exp(-((np.arange(len(self.states)) - mean) ** 2) / (2 * self.spread**2))
        return weights / weights.sum()


_CIRCUMSTANCES = {
    "outdoors": {"warm": 0.2, "mild": 0.45, "cold": 0.35},
    "age": {"new": 0.3, "middling": 0.5, "old": 0.2},
    "service": {"recent": 0.7, "overdue": 0.3},
    "house": {"insulated": 0.6, "draughty": 0.4},
    "setting": {"normal": 0.7, "high": 0.3},
}
_FAULTS = {
    "refrigerant_leak": _Event(0.01, {"age": (0.01, 0.05)}),
    "compressor_worn": _Event(0.005, {"age": (0.02, 0.1)}),
    "coil_dirty": _Event(0.03, {"service": (0.25,)}),
    "fan_fault": _Event(0.01, {"age": (0.01, 0.04)}),
    "valve_stuck": _Event(0.01, {"age": (0.01, 0.03)}),
    "defrost_fault": _Event(0.02, {"age": (0.0, 0.02)}),
    "pump_worn": _Event(0.01, {"age": (0.02, 0.08)}),
    "filter_clogged": _Event(0.02, {"service": (0.2,)}),
    "pipe_leak": _Event(0.005, {"age": (0.01, 0.04)}),
    "sensor_drift": _Event(0.02, {"age": (0.01, 0.03)}),
    "power_failure": _Event(0.004, {}),
    "control_fault": _Event(0.01, {"age": (0.0, 0.02)}),
}
_FLOWS = ("full", "weak", "none")
_INSIDE: dict[str, _Event | _Level] = {
    "icing": _Event(
        0.0,
        {
            "outdoors": (0.02, 0.08),
            "defrost_fault": (0.6,),
            "coil_dirty": (0.15,),
            "refrigerant_leak": (0.3,),
        },
    ),
    "airflow": _Level(_FLOWS, 0.0, {"icing": (1.3,), "coil_dirty": (0.8,), "fan_fault": (1.7,)}),
    "air_in_pipes": _Event(0.02, {"service": (0.05,), "pipe_leak": (0.5,)}),
    "water_flow": _Level(
        _FLOWS,
        0.0,
        {"pump_worn": (1.2,), "filter_clogged": (0.8,), "air_in_pipes": (0.6,), "power_failure": (2.0,)},
    ),
    "demand": _Level(
        ("low", "normal", "high"), 0.0, {"outdoors": (0.8, 1.5), "house": (0.5,), "setting": (0.4,)}
    ),
    "stopped": _Event(
        0.0,
        {
            "power_failure": (1.0,),
            "control_fault": (0.5,),
            "refrigerant_leak": (0.15,),
            "compressor_worn": (0.15,),
            "water_flow": (0.02, 0.9),
        },
    ),
    "output": _Level(
        _FLOWS,
        0.0,
        {
            "airflow": (0.6, 1.6),
            "compressor_worn": (0.7,),
            "refrigerant_leak": (0.9,),
            "valve_stuck": (0.6,),
            "stopped": (2.0,),
        },
    ),
    "rooms": _Level(
        ("warm", "cool", "cold"),
        -0.6,
        {"output": (0.7, 1.8), "demand": (0.3, 0.8), "water_flow": (0.5, 1.5)},
    ),
}
_READINGS: dict[str, _Event | _Level] = {
    "suction_pressure": _Level(
        ("low", "normal", "high"),
        1.0,
        {
            "refrigerant_leak": (-0.9,),
            "valve_stuck": (-0.7,),
            "airflow": (0.0, -0.3),
            "compressor_worn": (0.8,),
        },
    ),
    "gas_temperature": _Level(
        ("low", "normal", "high"),
        1.0,
        {"refrigerant_leak": (0.7,), "valve_stuck": (0.5,), "compressor_worn": (0.6,), "stopped": (-1.5,)},
    ),
    "supply": _Level(("hot", "lukewarm", "cold"), 0.0, {"output": (0.8, 1.8)}),
    "supply_display": _Level(
        ("hot", "lukewarm", "cold"), 0.0, {"supply": (1.0, 2.0), "sensor_drift": (0.8,)}, spread=0.25
    ),
    "temperature_drop": _Level(
        ("low", "normal", "high"), 1.0, {"water_flow": (0.7, 1.0), "output": (-0.3, -1.0)}
    ),
    "water_pressure": _Level(("normal", "low"), 0.0, {"pipe_leak": (0.8,), "air_in_pipes": (0.3,)}),
    "power_draw": _Level(
        ("low", "normal", "high"), 0.4, {"demand": (0.5, 1.0), "compressor_worn": (0.5,), "stopped": (-2.0,)}
    ),
    "cycling": _Event(0.03, {"sensor_drift": (0.4,), "water_flow": (0.2, 0.3), "control_fault": (0.2,)}),
    "pressure_alarm": _Event(0.002, {"refrigerant_leak": (0.5,), "valve_stuck": (0.3,), "icing": (0.1,)}),
    "flow_alarm": _Event(0.002, {"water_flow": (0.3, 0.95)}),
}
_COMPLAINTS = {
    "cold_rooms": _Event(0.01, {"rooms": (0.5, 0.95)}),
    "high_bill": _Event(0.05, {"power_draw": (0.1, 0.7), "cycling": (0.3,)}),
    "rattling": _Event(0.01, {"compressor_worn": (0.5,), "fan_fault": (0.6,), "pump_worn": (0.1,)}),
    "gurgling": _Event(0.01, {"air_in_pipes": (0.7,), "pump_worn": (0.2,)}),
    "ice_on_unit": _Event(0.005, {"icing": (0.9,)}),
    "puddle": _Event(0.01, {"pipe_leak": (0.6,)}),
    "display_dark": _Event(0.0, {"power_failure": (0.98,), "control_fault": (0.15,)}),
}


def heating() -> BayesNet:
    """Why a heat pump does not heat: faults, readings and complaints (42 variables).

    The network is made up for credo: circumstances (`age`, `service`, `outdoors`, ...), faults
    (`refrigerant_leak`, `coil_dirty`, ...), what happens inside (`icing`, `water_flow`, ...), readings
    (`suction_pressure`, `flow_alarm`, ...) and complaints (`cold_rooms`, `high_bill`, ...). Its numbers are
    meant to be plausible, not measured; the head of this file has the rules they follow from.

    Examples
    --------
    >>> from credo import datasets
    >>> model = datasets.heating()
    >>> model
    BayesNet(42 variables, 77 edges, 883 table entries)
    >>> model.parents["flow_alarm"]
    ('water_flow',)
    """
    made: dict[str, _Event | _Level] = {**_FAULTS, **_INSIDE, **_READINGS, **_COMPLAINTS}
    states = {name: tuple(chances) for name, chances in _CIRCUMSTANCES.items()}
    states |= {name: node.states for name, node in made.items()}
    tables = {name: np.array(list(chances.values())) for name, chances in _CIRCUMSTANCES.items()}
    tables |= {name: _table(node) for name, node in made.items()}
    return BayesNet(states, {name: list(node.causes) for name, node in made.items()}, tables)


def _table(node: _Event | _Level) -> np.ndarray:
    """One row per joint state of the causes; the first state of a cause has no effect."""
    effects = [(0.0, *values) for values in node.causes.values()]
    rows = np.array([node.row(list(at)) for at in product(*effects)])
    return rows.reshape(*(len(values) for values in effects), len(node.states))
