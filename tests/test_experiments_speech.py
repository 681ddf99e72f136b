"""What the experiments on speech and on vital signs make of their data, and their small versions."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import credo

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the experiments are not installed with the package"
)


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def needs(*names):
    for name in names:
        if not (DATA / name).is_dir():
            pytest.skip(f"the data set {name} is not here")


@pytest.fixture
def chirps(load):
    """Half a second of two tones, each its own stretch, and a stretch too short for a window of its own."""
    pytest.importorskip("kaldi_native_fbank")
    rate = 8000
    t = np.arange(rate // 2) / rate
    samples = (3000 * np.sin(2 * np.pi * np.where(t < 0.2, 300, 2000) * t)).astype(np.int16)
    labels = [(0, 1600, "ao"), (1600, 1610, "q"), (1610, 4000, "ix")]
    return load("_sets").Recording("anna", "x", rate, samples, labels)


def test_stretches_have_the_windows_whose_middle_lies_in_them(load, chirps):
    found = load("_speech").stretches([chirps], 13)
    # Windows begin every 80 samples and are 200 long: the middle of number k is 100 + 80 k.
    assert [len(x) for x in found.x] == [19, 1, 29] and found.y.tolist() == ["ao", "q", "ix"]
    assert load("_speech").stretches([chirps], 39).x[0].shape == (19, 39)
    folded = load("_speech").fold_phones(found)
    assert folded.y.tolist() == ["aa", "ih"] and folded.x[1] is found.x[2]
    train, test = load("_speech").scaled(folded, found)
    assert np.concatenate(train.x).min() == 0 and np.concatenate(train.x).max() == 1 and len(test.x) == 3


def test_the_61_phones_become_39(load):
    needs("timit_sample")
    phones = {label for recording in load("_sets").timit() for *_, label in recording.labels}
    folded = load("_speech").fold_phones(
        load("_speech").Stretches([None] * len(phones), np.array(sorted(phones)))
    )
    assert len(phones) == 61 and len(set(folded.y.tolist())) == 39


def test_chains_go_from_left_to_right_and_stay_so(load):
    speech = load("_speech")
    rng = np.random.default_rng(0)
    sequences = [
        np.repeat([[0.0], [1.0], [2.0]], n, axis=0) + 0.05 * rng.standard_normal((3 * n, 1)) for n in (4, 6)
    ]
    start = speech.left_to_right(sequences, 3, 2, seed=1)
    assert start.start.tolist() == [1, 0, 0] and (np.tril(start.transition, -1) == 0).all()
    found = credo.fit(start, sequences, "em(floor=1e-4)", max_iter=20, tol=1e-2).model
    assert (np.tril(found.transition, -1) == 0).all()
    np.testing.assert_allclose((found.emission.means[:, 0]), [0, 1, 2], atol=0.1)
    short = speech.left_to_right([np.ones((1, 2))], 3, 3, seed=0)  # fewer rows than states and components
    assert np.isfinite(credo.log_likelihood(short, [np.ones((1, 2))]).value)


def test_states_are_half_the_mean_length_from_three_to_five(load):
    speech = load("_speech")
    parts = speech.Stretches([np.zeros((n, 1)) for n in (2, 4, 9, 40)], np.array(["a", "a", "b", "c"]))
    assert speech.numbers_of_states(parts) == {"a": 3, "b": 4, "c": 5}


def test_speakers_left_out_are_not_learned_from(load):
    needs("fsdd", "timit_sample")
    experiment = load("genhmm_speech")
    for data in ("FSDD", "TIMIT sample"):
        recordings = experiment._recordings(data, False)
        speakers = sorted({r.speaker for r in recordings})
        folds = experiment.FOLDS[data]
        assert sorted(s for fold in range(folds) for s in speakers[fold::folds]) == speakers
    assert len(experiment._recordings("TIMIT sample", False)) == 128  # without sa1 and sa2


def test_simulated_newborns_have_the_events_of_their_label(load):
    frames = load("_vital_signs").newborns(300)
    assert len(frames.x) == 372 and frames.x[0].shape == (300, 3) and frames.y.sum() == 9 * 12
    assert len(set(frames.patient[frames.y == 1])) == 9 and len(set(frames.patient)) == 22

    def jumps(label, threshold):
        steps = np.concatenate(
            [np.diff(x[:, 1]) for x, y in zip(frames.x, frames.y, strict=True) if y == label]
        )
        return (steps > threshold).mean() * 60

    assert jumps(1, 0.09) == pytest.approx(0.35, rel=0.3) and jumps(0, 0.09) == pytest.approx(0.05, rel=0.5)
    first = load("_vital_signs").newborns(300).x[5]
    np.testing.assert_array_equal(first, frames.x[5])
    wide = load("_vital_signs").with_slopes(frames)
    assert wide.x[0].shape == (300, 9)
    np.testing.assert_allclose(wide.x[0][1:-1, 3], (frames.x[0][2:, 0] - frames.x[0][:-2, 0]) / 2)


def test_adults_have_a_window_each_without_gaps(load):
    needs("sepsis_physionet2019")
    frames = load("_vital_signs").adults(12, 60)
    assert len(frames.x) == 60 and frames.y.sum() == 30 and len(set(frames.patient.tolist())) == 60
    assert all(x.shape == (12, 3) and np.isfinite(x).all() for x in frames.x)
    filled = load("_vital_signs")._filled(np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, 3.0]]))
    assert filled.tolist() == [[2, 1], [2, 1], [2, 3]]


def test_patients_are_on_one_side_of_the_split(load):
    experiment = load("genhmm_sepsis")
    frames = experiment.frames_of("newborns", 20, False)
    for seed in range(3):
        train, test = experiment.split(frames, seed)
        assert not set(train.patient) & set(test.patient) and len(set(test.patient)) == 7
        assert set(test.y) == set(train.y) == {0, 1}


def test_the_small_version_of_speech_runs(load, tmp_path):
    needs("fsdd")
    pytest.importorskip("kaldi_native_fbank")
    pytest.importorskip("matplotlib")
    load("genhmm_speech").TABLE.main(["--quick", "--only", "gaussian", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "genhmm-speech.json").read_text())
    told = {r["metric"]: r["mean"] for r in records if r["method"] == "GMM-HMM"}
    assert set(told) == {"accuracy", "precision", "F1", "macro F1"} and told["accuracy"] > 40


def test_the_small_version_of_sepsis_runs(load, tmp_path):
    pytest.importorskip("matplotlib")
    load("genhmm_sepsis").TABLE.main(["--quick", "--only", "gaussian", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "genhmm-sepsis.json").read_text())
    assert [r["method"] for r in records] == ["GMM-HMM"] and 0.3 < records[0]["mean"] <= 1


@pytest.mark.slow
def test_classic_features_tell_simulated_newborns_apart(load):
    experiment = load("genhmm_sepsis")
    cell = experiment.TABLE.quick[1]
    (found,) = experiment.measure_others(cell, [0])
    assert set(found) == {"POPS", "HeRO", "SVM", "ELM"}
    assert found["HeRO"]["accuracy"] > 0.6 < found["POPS"]["accuracy"]


def test_noise_comes_at_the_rate_of_the_speech(load):
    needs("noise")
    speech = load("genhmm_speech")
    white = load("_sets").noises()["white"]
    np.testing.assert_allclose(speech.noise_at("white", 16000), white)
    assert len(speech.noise_at("white", 8000)) == -(-len(white) // 2)
