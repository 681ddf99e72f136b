"""Features of speech: shapes, invariances, known tones, noise at its level."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.fft import idct

from credo.core.errors import DataError, MissingExtraError, OptionError
from credo.data.speech import mel_cepstra, mix_noise, normalise_rows, with_differences

RATE = 8000
NOISE = np.random.default_rng(0).normal(0, 1000, RATE)


@pytest.fixture
def kaldi():
    pytest.importorskip("kaldi_native_fbank")


def test_windows_lie_inside_of_the_waveform(kaldi):
    assert mel_cepstra(NOISE, RATE).shape == (1 + (RATE - 200) // 80, 13)
    assert mel_cepstra(NOISE[:200], RATE, coefficients=5).shape == (1, 5)
    assert mel_cepstra(NOISE[:279], RATE, window=0.02, step=0.02).shape == (1, 13)


def test_a_step_later_is_a_row_later_and_twice_as_loud_moves_the_first_coefficient(kaldi):
    rows = mel_cepstra(NOISE, RATE)
    np.testing.assert_allclose(mel_cepstra(NOISE[80:], RATE), rows[1:], atol=2e-3)
    louder = mel_cepstra(2 * NOISE, RATE) - rows
    np.testing.assert_allclose(louder[:, 1:], 0, atol=2e-3)
    np.testing.assert_allclose(louder[:, 0], 2 * np.log(2) * np.sqrt(23), rtol=1e-3)


@pytest.mark.parametrize("tone", [300.0, 1000.0, 2500.0])
def test_a_tone_is_in_its_band(kaldi, tone):
    """All coefficients, turned back into log energies of bands between 20 Hz and half the rate."""
    found = mel_cepstra(5000 * np.sin(2 * np.pi * tone * np.arange(RATE) / RATE), RATE, coefficients=23)
    lifter = 1 + 11 * np.sin(np.pi * np.arange(23) / 22)
    energies = idct(found / lifter, norm="ortho", axis=1).mean(axis=0)

    def mel(f):
        return 1127 * np.log(1 + f / 700)

    centres = np.linspace(mel(20), mel(RATE / 2), 25)[1:-1]
    assert energies.argmax() == np.abs(centres - mel(tone)).argmin()


def test_differences_are_slopes():
    t = np.arange(10.0)
    rows = np.stack([3 * t, t**2], axis=1)
    found = with_differences(rows)
    assert found.shape == (10, 6)
    np.testing.assert_array_equal(found[:, :2], rows)
    np.testing.assert_allclose(found[2:8, 2:4], np.stack([np.full(6, 3.0), 2 * t[2:8]], axis=1))
    np.testing.assert_allclose(found[4:6, 4:], [[0, 2], [0, 2]])
    assert (with_differences(np.ones((1, 2)))[:, 2:] == 0).all()


def test_normalised_rows_have_mean_zero_and_variance_one():
    found = normalise_rows(np.random.default_rng(0).gamma(2, size=(30, 3)))
    np.testing.assert_allclose([found.mean(axis=0), found.std(axis=0)], [[0] * 3, [1] * 3], atol=1e-12)


@pytest.mark.parametrize("snr", [-5.0, 15.0, 30.0])
def test_noise_is_at_its_level_and_begins_again(snr):
    x, short = np.sin(np.arange(5000) / 7), NOISE[:700]
    added = mix_noise(x, short, snr, seed=3) - x
    assert 20 * np.log10(x.std() / added.std()) == pytest.approx(snr, abs=1e-9)
    np.testing.assert_allclose(added[:700], added[700:1400], atol=1e-9)
    np.testing.assert_array_equal(added, mix_noise(x, short, snr, seed=3) - x)
    assert not np.array_equal(added, mix_noise(x, short, snr, seed=4) - x)


def test_refusals(kaldi):
    with pytest.raises(DataError, match=r"at least one window of 0.025 s, 200 samples, got 150"):
        mel_cepstra(NOISE[:150], RATE)
    with pytest.raises(DataError, match=r"waveform: expected finite samples, shape \(samples,\)"):
        mel_cepstra(np.zeros((3, 3)), RATE)
    with pytest.raises(OptionError, match=r"coefficients must be in \[1, 24\)"):
        mel_cepstra(NOISE, RATE, coefficients=30)
    with pytest.raises(OptionError, match="rate must be at least"):
        mel_cepstra(NOISE, 0)
    with pytest.raises(DataError, match="noise: expected samples that differ"):
        mix_noise(NOISE, np.ones(5), 10)
    with pytest.raises(DataError, match=r"rows: expected shape \(rows, columns\)"):
        normalise_rows(np.ones(3))


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "kaldi_native_fbank", None)
    with pytest.raises(MissingExtraError, match=r"install credo\[speech\]"):
        mel_cepstra(NOISE, RATE)
