"""Signals of newborns, simulated, and hourly signs of adults: frames with labels, patients and derivatives.

A simulated patient has three signals at 1 Hz: breaths per minute (RF), the interval between heart beats in
seconds (RRi) and oxygen saturation in per cent (SpO2). Each is an autoregression of first order with the
coefficient .95 around a mean of the patient's own. Events come at random, as many a minute as the table says:

                        healthy                 septic
    decelerations       .05: RRi + .12 s        .35: RRi + .15 s     falling off over 8 s
    desaturations       .03: SpO2 - 6 %         .12: the same        falling off over 25 s
    pauses of breath    .03: RF - 25            .10: the same        for 12 s
    deviations of RRi   as they are             times .55
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from _sets import vitals
from scipy.signal import lfilter

__all__ = ["Frames", "adults", "newborns", "with_slopes"]

MEANS, BETWEEN, WITHIN = (48.0, 0.40, 94.0), (6.0, 0.03, 1.5), (6.0, 0.020, 1.2)
MEMORY = 0.95
PATIENTS, SEPTIC, PER_LABEL = 22, 9, 12
RATES = {False: (0.05, 0.03, 0.03), True: (0.35, 0.12, 0.10)}  # events a minute
DEPTHS = {False: 0.12, True: 0.15}  # of decelerations


class Frames(NamedTuple):
    """Stretches of signals, one label and one patient each."""

    x: list[np.ndarray]  # (samples, signals)
    y: np.ndarray  # 1 is septic
    patient: np.ndarray


def newborns(length: int, seed: int = 7) -> Frames:
    """22 simulated patients, 9 of whom have a septic period; 12 frames of each label that a patient has."""
    rng = np.random.default_rng(seed)
    x, y, patient = [], [], []
    for number in range(PATIENTS):
        means = rng.normal(MEANS, BETWEEN)
        for septic in (False, True) if number < SEPTIC else (False,):
            for _ in range(PER_LABEL):
                x.append(_frame(means, septic, length, rng))
                y.append(int(septic))
                patient.append(number)
    return Frames(x, np.array(y), np.array(patient))


def _frame(means: np.ndarray, septic: bool, length: int, rng: np.random.Generator) -> np.ndarray:
    noise = rng.standard_normal((length, 3)) * np.sqrt(1 - MEMORY**2)
    noise[0] /= np.sqrt(1 - MEMORY**2)
    away = lfilter([1.0], [1.0, -MEMORY], noise, axis=0) * WITHIN
    if septic:
        away[:, 1] *= 0.55
    x = means + away
    decelerations, desaturations, pauses = (_events(length, rate, rng) for rate in RATES[septic])
    time = np.arange(length)
    for at in decelerations:
        x[at:, 1] += DEPTHS[septic] * np.exp(-(time[at:] - at) / 8.0)
    for at in desaturations:
        x[at:, 2] -= 6.0 * np.exp(-(time[at:] - at) / 25.0)
    for at in pauses:
        x[at : at + 12, 0] -= 25.0
    return x


def _events(length: int, per_minute: float, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(length, size=rng.poisson(per_minute * length / 60))


def adults(hours: int, count: int, seed: int = 0) -> Frames:
    """Windows of hourly heart rate, breathing and saturation, half of them before or in sepsis.

    Gaps are filled with the last number seen, or the first one to come; of a patient there is one window.
    """
    series, labels, names = vitals()
    columns = [names.index(name) for name in ("HR", "Resp", "O2Sat")]
    rng = np.random.default_rng(seed)
    found: dict[int, list[tuple[np.ndarray, int]]] = {0: [], 1: []}
    for number in rng.permutation(len(series)).tolist():
        values, label = series[number][:, columns], labels[number]
        septic = bool(label.any())
        end = int(np.flatnonzero(label)[0]) + 6 if septic else len(values)  # six labelled hours at most
        window = values[max(0, min(end, len(values)) - hours) : min(end, len(values))]
        if len(window) == hours and not np.isnan(window).all(axis=0).any():
            found[int(septic)].append((_filled(window), number))
    size = min(count // 2, len(found[0]), len(found[1]))
    chosen = [(x, label, number) for label in (0, 1) for x, number in found[label][:size]]
    return Frames(
        [x for x, *_ in chosen], np.array([y for _, y, _ in chosen]), np.array([p for *_, p in chosen])
    )


def _filled(window: np.ndarray) -> np.ndarray:
    out = window.copy()
    for column in out.T:
        seen = np.flatnonzero(~np.isnan(column))
        place = np.maximum.accumulate(np.where(np.isnan(column), -1, np.arange(len(column))))
        column[:] = column[np.where(place < 0, seen[0], place)]
    return out


def with_slopes(frames: Frames) -> Frames:
    """First and second differences beside the signals."""
    wide = []
    for x in frames.x:
        first = np.gradient(x, axis=0)
        wide.append(np.concatenate([x, first, np.gradient(first, axis=0)], axis=1))
    return frames._replace(x=wide)
