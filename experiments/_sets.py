"""Readers of the data sets that experiments find beside the checkout, in the folder `../shared/data`.

None of them is part of the sources; an experiment whose data are not there says so and ends.
"""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = [
    "DATA",
    "Images",
    "Recording",
    "Rows",
    "fsdd",
    "images",
    "needs",
    "noises",
    "rows",
    "timit",
    "vitals",
]

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


class Images(NamedTuple):
    """Grey images of bytes with labels, in a part to learn from and a part to test."""

    x: np.ndarray  # (images, height, width)
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


class Rows(NamedTuple):
    """Rows of whole numbers with labels, likewise."""

    x: np.ndarray  # (rows, columns)
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


class Recording(NamedTuple):
    """A waveform with labels of stretches of it."""

    speaker: str
    name: str
    rate: int  # samples per second
    samples: np.ndarray
    labels: Sequence[tuple[int, int, str]]  # first sample, end, label


def needs(*folders: str) -> None:
    """End with a sentence where data are absent."""
    lacking = [name for name in folders if not (DATA / name).is_dir()]
    if lacking:
        raise SystemExit(f"this experiment reads {', '.join(lacking)} in {DATA}, which is not there")


@cache
def images(name: str) -> Images:
    """`mnist`, or `fashion`, of which there are 10,000 + 10,000."""
    if name == "mnist":
        needs("mnist")
        parts = [_idx(DATA / "mnist" / f"{part}-{kind}.gz") for part in ("train", "t10k")
                 for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]  # fmt: skip
        return Images(*parts)
    needs("fashion_mnist")
    folder = DATA / "fashion_mnist"
    found = []
    for part in ("train", "test"):
        content = lzma.decompress((folder / f"{part}10k_images_u8.xz").read_bytes())
        found.append(np.frombuffer(content, np.uint8).reshape(-1, 28, 28))
        found.append(np.load(folder / f"{part}10k_labels.npy"))
    return Images(*found)


def _idx(path: Path) -> np.ndarray:
    """An array of bytes whose shape stands in its head."""
    content = gzip.open(path).read()
    axes = content[3]
    shape = [int.from_bytes(content[4 + 4 * k : 8 + 4 * k], "big") for k in range(axes)]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


@cache
def rows(name: str) -> Rows:
    """`letter` (the usual first 16,000 to learn from), `satimage` with its split, or `coil20`.

    Of COIL-20, every fourth view is learned from: its classes are things, not kinds of things.
    """
    needs(name)
    if name == "letter":
        found = np.load(DATA / "letter" / "letter_recognition.npz")
        x, y = found["x"], found["y"]
        return Rows(x[:16000], y[:16000], x[16000:], y[16000:])
    if name == "satimage":
        found = np.load(DATA / "satimage" / "satimage.npz")
        return Rows(found["train_x"], found["train_y"], found["test_x"], found["test_y"])
    found = np.load(DATA / "coil20" / "coil20_32x32.npz")
    x, y = found["x"].reshape(len(found["x"]), -1), found["y"]
    view = np.concatenate([np.arange(np.sum(y == label)) for label in np.unique(y)])
    order = np.argsort(y, kind="stable")
    learned = view % 4 == 0
    return Rows(x[order][learned], y[order][learned], x[order][~learned], y[order][~learned])


def _pcm(path: Path) -> np.ndarray:
    """Samples of 16 bits, kept as differences that wrap."""
    return np.cumsum(np.frombuffer(lzma.decompress(path.read_bytes()), "<i2"), dtype=np.int16)


@cache
def fsdd() -> list[Recording]:
    """Spoken digits, each of which is one stretch."""
    needs("fsdd")
    about, samples = np.load(DATA / "fsdd" / "fsdd_index.npz"), _pcm(DATA / "fsdd" / "fsdd_pcm_delta_i16.xz")
    begin = np.r_[0, np.cumsum(about["n_samples"])]
    found = []
    for k, (digit, speaker, take) in enumerate(
        zip(about["digit"], about["speaker"], about["take"], strict=True)
    ):
        own = samples[begin[k] : begin[k + 1]]
        name = str(about["speakers"][speaker])
        found.append(Recording(name, f"{digit}-{take}", 8000, own, [(0, len(own), str(digit))]))
    return found


@cache
def timit() -> list[Recording]:
    """Sentences with their phones."""
    needs("timit_sample")
    folder = DATA / "timit_sample"
    about, samples = (
        np.load(folder / "timit_nltk_annotations.npz"),
        _pcm(folder / "timit_nltk_pcm_delta_i16.xz"),
    )
    begin, found = about["offset"], []
    for k, utterance in enumerate(about["utt"]):
        mine = about["phone_utt"] == k
        labels = zip(about["phone_start"][mine], about["phone_end"][mine], about["phone"][mine], strict=True)
        speaker, name = str(utterance).split("/")
        stretches = [(int(s), int(e), str(p)) for s, e, p in labels]
        found.append(Recording(speaker, name, 16000, samples[begin[k] : begin[k + 1]], stretches))
    return found


@cache
def noises() -> dict[str, np.ndarray]:
    """White, pink, babble and car noise at 16 kHz."""
    needs("noise")
    found = np.load(DATA / "noise" / "noise_16k.npz")
    return {name: found[name].astype(float) for name in found.files}


@cache
def vitals() -> tuple[list[np.ndarray], list[np.ndarray], list[str]]:
    """Hourly vital signs of adults with NaN where nothing was measured, hourly labels, names of the signs."""
    needs("sepsis_physionet2019")
    found = np.load(DATA / "sepsis_physionet2019" / "challenge2019_setB_vitals.npz")
    values = np.where(found["vitals_x10"] < 0, np.nan, found["vitals_x10"] / 10.0)
    cuts = np.cumsum(found["length"].astype(int))[:-1]
    return np.split(values, cuts), np.split(found["label"], cuts), [str(name) for name in found["names"]]
