r"""Sequences of features from waveforms of speech, and waveforms with noise.

    mel cepstra     per window of 25 ms, every 10 ms: c_1 ... of log mel energies (Kaldi's, without energy)
    differences     d_t = sum_n n (c_{t+n} - c_{t-n}) / (2 sum_n n^2), n = 1, 2, edges repeated
    noise           x + g u with a random stretch u of the noise, sd(g u) = sd(x) 10^(-SNR / 20)

Cepstra are computed by `kaldi-native-fbank`, which is imported when it is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import check
from ..core.errors import DataError, MissingExtraError
from ..core.numbers import float_array

__all__ = ["mel_cepstra", "mix_noise", "normalise_rows", "with_differences"]


def mel_cepstra(
    waveform: Any,
    rate: float,
    *,
    coefficients: int = 13,
    window: float = 0.025,
    step: float = 0.010,
    bins: int = 23,
) -> np.ndarray:
    """Mel cepstral coefficients, (windows, coefficients); windows lie inside of the waveform.

    Parameters
    ----------
    waveform
        Numbers, whole ones of 16 bits for instance; their size moves the first coefficient only.
    rate
        Samples per second.
    coefficients, bins
        How many are kept of how many mel bands.
    window, step
        In seconds.
    """
    try:
        import kaldi_native_fbank as kaldi
    except ImportError:
        raise MissingExtraError("mel_cepstra needs kaldi-native-fbank; install credo[speech]") from None
    x = _waveform("waveform", waveform)
    for name, number in (("rate", rate), ("window", window), ("step", step)):
        check.at_least(name, number, 1e-6)
    check.whole("bins", bins, 3)
    check.whole("coefficients", coefficients, 1, bins + 1)
    if len(x) < rate * window:
        raise DataError(
            f"waveform: expected at least one window of {window:g} s, {int(np.ceil(rate * window))} samples, "
            f"got {len(x)}"
        )
    options = kaldi.MfccOptions()
    options.frame_opts.dither = 0.0  # noise would make two calls differ
    options.frame_opts.samp_freq = float(rate)
    options.frame_opts.frame_length_ms = 1000.0 * window
    options.frame_opts.frame_shift_ms = 1000.0 * step
    options.mel_opts.num_bins = int(bins)
    options.num_ceps = int(coefficients)
    options.use_energy = False
    made = kaldi.OnlineMfcc(options)
    made.accept_waveform(float(rate), x.astype(np.float32))
    made.input_finished()
    return np.array([made.get_frame(k) for k in range(made.num_frames_ready)], dtype=np.float64)


def with_differences(rows: Any, *, order: int = 2, reach: int = 2) -> np.ndarray:
    """A sequence with its differences beside it, (rows, columns (order + 1)).

    Parameters
    ----------
    rows
        (rows, columns), one after another in time.
    order
        1 for differences, 2 for differences of these too.
    reach
        How far to look, in rows, on either side.

    Examples
    --------
    >>> from credo.data.speech import with_differences
    >>> with_differences([[0.0], [1.0], [2.0], [3.0], [4.0]], order=1)[2]
    array([2., 1.])
    """
    check.whole("order", order, 0)
    check.whole("reach", reach, 1)
    blocks = [_rows(rows)]
    for _ in range(order):
        wide = np.pad(blocks[-1], ((reach, reach), (0, 0)), mode="edge")
        count, total = len(blocks[-1]), 0.0
        slopes = np.zeros_like(blocks[-1])
        for n in range(1, reach + 1):
            slopes += n * (wide[reach + n : reach + n + count] - wide[reach - n : reach - n + count])
            total += 2.0 * n * n
        blocks.append(slopes / total)
    return np.concatenate(blocks, axis=1)


def normalise_rows(rows: Any) -> np.ndarray:
    """A sequence whose columns have mean 0 and variance 1; a constant column becomes 0.

    Examples
    --------
    >>> from credo.data.speech import normalise_rows
    >>> normalise_rows([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    x = _rows(rows)
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)  # type: ignore[no-any-return]


def mix_noise(waveform: Any, noise: Any, snr: float, seed: Any = None) -> np.ndarray:
    """A waveform with a random stretch of noise, so many decibels below it.

    Parameters
    ----------
    waveform, noise
        Samples of the same rate; the noise begins again where it is too short.
    snr
        Signal-to-noise ratio in decibels, of the whole waveform.
    seed
        Of the stretch: a whole number, or a generator.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.data.speech import mix_noise
    >>> x, u = np.sin(np.arange(500.0)), np.random.default_rng(0).normal(size=900)
    >>> found = mix_noise(x, u, 20.0, seed=1)
    >>> round(float(20 * np.log10(x.std() / (found - x).std())), 6)
    20.0
    """
    check.finite("snr", snr)
    x, u = _waveform("waveform", waveform), _waveform("noise", noise)
    first = int(check.generator(seed).integers(len(u)))
    stretch = u[(first + np.arange(len(x))) % len(u)]
    if not stretch.std() > 0:
        raise DataError("noise: expected samples that differ, got a constant stretch")
    return x + stretch * (x.std() / stretch.std() * 10 ** (-snr / 20))  # type: ignore[no-any-return]


def _waveform(name: str, value: Any) -> np.ndarray:
    found = float_array(name, value, error=DataError)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise DataError(f"{name}: expected finite samples, shape (samples,), got shape {found.shape}")
    return found


def _rows(value: Any) -> np.ndarray:
    found = float_array("rows", value, error=DataError)
    if found.ndim != 2 or not len(found):
        raise DataError(f"rows: expected shape (rows, columns), at least one row, got {found.shape}")
    return found
