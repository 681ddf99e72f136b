"""One file of JSON and arrays: whole or not at all, and read without trust."""

from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import pytest

from credo.core.container import read_container, write_container
from credo.core.errors import FormatError

ARRAYS = [np.arange(6.0).reshape(2, 3), np.array(True), np.zeros((0, 2), dtype=np.int8)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.ckpt"


def npy(array=None, header=None) -> bytes:
    """An array as a member, with another header if one is given."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.arange(3.0) if array is None else array, allow_pickle=True)
    if header is None:
        return out.getvalue()
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, header)
    return made.getvalue() + out.getvalue()[128:]


def header_of(*shape) -> dict:
    """What says that an array has this shape."""
    return {"descr": "<f8", "fortran_order": False, "shape": shape}


def write(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)


def test_what_is_written_is_read(path):
    write_container(path, {"a": [1, "b"]}, [*ARRAYS, np.asfortranarray(ARRAYS[0])])
    content, arrays = read_container(path)
    assert content == {"a": [1, "b"]} and len(arrays) == 4 and arrays[3].flags.f_contiguous
    for found, array in zip(arrays, [*ARRAYS, ARRAYS[0]], strict=True):
        assert found.dtype == array.dtype and np.array_equal(found, array) and found.flags.writeable
    assert np.load(path)["0"].shape == (2, 3)  # NumPy can read it too


def test_equal_contents_are_equal_files(path, tmp_path):
    write_container(path, [1], ARRAYS)
    write_container(tmp_path / "other", [1], ARRAYS)
    assert path.read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(path, failing, monkeypatch):
    write_container(path, "old", ARRAYS)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match="No space left"):
        write_container(path, "new", ARRAYS)
    assert read_container(path)[0] == "old" and os.listdir(path.parent) == [path.name]


def test_what_cannot_be_said_leaves_the_old_file(path):
    write_container(path, "old", ARRAYS)
    for content, arrays in ((float("nan"), []), (object(), []), ("new", [np.array([None])])):
        with pytest.raises((ValueError, TypeError)):
            write_container(path, content, arrays)
    assert read_container(path)[0] == "old" and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("0.npy", npy())], "expected the members"),
        ([("model.json", b"1"), ("1.npy", npy())], "expected the members"),
        ([("model.json", b"1"), ("../0.npy", npy())], "expected the members"),
        ([("model.json", b"{"), ("0.npy", npy())], "is no JSON"),
        ([("model.json", b"\xff")], "damaged or of another kind"),
        ([("model.json", b"[" * 10**6)], "damaged or of another kind|no JSON"),
        ([("model.json", b"1"), ("0.npy", b"no array at all")], "0.npy is no array"),
        ([("model.json", b"1"), ("0.npy", npy(np.array([None])))], "holds pickled objects"),
        (
            [("model.json", b"1"), ("0.npy", npy(header=header_of(10**12)))],
            "header of its member 0.npy disagrees with its size",
        ),
        (
            [("model.json", b"1"), ("0.npy", npy(header=header_of(-3, -1)))],
            "header of its member 0.npy disagrees with its size",
        ),
        ([("model.json", b"1"), ("0.npy", npy()[:-1])], "disagrees with its size"),
    ],
)  # fmt: skip
def test_hostile_files_are_refused_with_a_sentence(path, members, words):
    write(path, members)
    with pytest.raises(FormatError, match=rf"expected a file written by credo, but .*({words})"):
        read_container(path)


def test_compressed_members_are_refused(path):
    write(path, [("model.json", b"1"), ("0.npy", npy(np.zeros(10**6)))], zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match=r"model.json is compressed or encrypted"):
        read_container(path)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"text", bytes(100)])
def test_what_is_no_archive_is_refused(path, data):
    path.write_bytes(data)
    with pytest.raises(FormatError, match="damaged or of another kind"):
        read_container(path)


def test_every_truncated_or_flipped_file_is_refused_or_the_same(path):
    write_container(path, {"a": 1}, ARRAYS)
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError):
            read_container(path)
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            content, arrays = read_container(path)
        except FormatError:
            continue
        assert content == {"a": 1} and all(map(np.array_equal, arrays, ARRAYS))
