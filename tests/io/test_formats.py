"""Loading and saving by extension, compression, and damaged files."""

from __future__ import annotations

import gzip
import importlib
import lzma
import os
import pkgutil
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.errors import CredoError, FormatError
from credo.io.base import FORMATS, Format, FormatEntry, register_format
from credo.io.formats import _CONTENTS, formats, load, save
from credo.io.scan import SMALL, read_numbers
from credo.models.bayes_net import BayesNet
from credo.models.mixture_of_trees import MixtureOfTrees
from credo.models.normal_form import Block, NormalForm, Source
from random_models import joint

NETWORK = BayesNet(
    {"rain": ["no", "yes"], "grass": ["dry", "damp", "wet"]},
    parents={"grass": ["rain"]},
    tables={"rain": [0.8, 0.2], "grass": [[0.7, 0.2, 0.1], [0.05, 0.15, 0.8]]},
)
EXTENSIONS = sorted(e for f in formats() for e in f.extensions)
WRITABLE = sorted(e for f in formats() if f.writes for e in f.extensions)
READ_ONLY = {
    ".wcsp": b"t 2 2 2 9\n2 3\n2 0 1 0 2\n0 1 4\n1 2 9\n1 1 0 1 2 3\n",
    ".cfn": b'{ problem: {name: t, mustbe: "<9"}, variables: {a: [x y], b: 3},\n'
    b"functions: {f: {scope: [a b] costs: [1 2 3 4 5 6]}, g: {scope: [b] defaultcost: 0 costs: [1 2.5]}}}",
}


def sample(extension):
    if extension in READ_ONLY:
        return READ_ONLY[extension]
    entry = next(f for f in formats() if extension in f.extensions)
    importlib.import_module(entry.module)
    made = FORMATS[entry.name].write(NETWORK)
    return made if isinstance(made, bytes) else made.encode()


@pytest.mark.parametrize("entry", formats(), ids=lambda entry: entry.name)
def test_what_is_known_of_a_format_is_what_its_module_registers(entry):
    importlib.import_module(entry.module)
    made = FORMATS[entry.name]
    assert (made.extensions, made.write is not None) == (entry.extensions, entry.writes)
    assert made.read.__module__ == entry.module


def test_every_format_of_this_package_is_in_the_table():
    for module in pkgutil.iter_modules(credo.io.__path__, "credo.io."):
        importlib.import_module(module.name)
    assert set(FORMATS) == {entry.name for entry in formats()}
    own = {made.read.__module__ for made in FORMATS.values() if made.read.__module__.startswith("credo.")}
    assert own == {entry.module for entry in _CONTENTS}


def test_a_format_registered_later_is_known_at_once(tmp_path):
    register_format(Format("coin", (".coin",), lambda content, file: NETWORK))
    try:
        (tmp_path / "my.coin").write_text("heads")
        assert load(tmp_path / "my.coin") is NETWORK
        assert FormatEntry("coin", (".coin",), __name__, writes=False) in formats()
    finally:
        FORMATS.pop("coin")


def test_every_format_has_a_sample():
    assert set(EXTENSIONS) == set(WRITABLE) | set(READ_ONLY)


@pytest.mark.parametrize("packing", ["", ".gz", ".xz", ".GZ"])
@pytest.mark.parametrize("extension", WRITABLE)
def test_models_are_saved_and_loaded_by_extension(extension, packing, tmp_path):
    path = tmp_path / f"my.model{extension}{packing}"
    save(NETWORK, path)
    assert np.allclose(joint(load(path)), joint(NETWORK), rtol=1e-12)
    assert np.allclose(joint(load(str(path))), joint(NETWORK), rtol=1e-12)


def test_compression_is_what_its_name_says(tmp_path):
    save(NETWORK, tmp_path / "m.uai")
    save(NETWORK, tmp_path / "m.uai.gz")
    save(NETWORK, tmp_path / "m.uai.xz")
    plain = (tmp_path / "m.uai").read_bytes()
    assert gzip.decompress((tmp_path / "m.uai.gz").read_bytes()) == plain
    assert lzma.decompress((tmp_path / "m.uai.xz").read_bytes()) == plain


def test_equal_models_give_equal_files(tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        save(NETWORK, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_the_format_can_be_named(tmp_path):
    save(NETWORK, tmp_path / "model.txt", format="uai")
    assert isinstance(load(tmp_path / "model.txt", format="uai"), BayesNet)


def test_a_byte_order_mark_is_ignored(tmp_path):
    (tmp_path / "m.uai").write_bytes(b"\xef\xbb\xbfMARKOV 0 0")
    assert len(load(tmp_path / "m.uai").variables) == 0


def test_the_public_names_are_these(tmp_path):
    credo.save(NETWORK, tmp_path / "m.json")
    assert dict(credo.load(tmp_path / "m.json").parents) == {"rain": (), "grass": ("rain",)}


def test_an_unknown_extension_is_refused_with_the_known_ones():
    with pytest.raises(
        FormatError, match=r"m\.xyz: expected one of the extensions \[.*'\.uai'.*\].*, got '\.xyz'"
    ):
        load("m.xyz")
    with pytest.raises(FormatError, match=r"got ''; name the format with format="):
        save(NETWORK, "model")
    with pytest.raises(FormatError, match=r"no format named 'doc'; there are \[.*'uai'.*\]"):
        load("m.uai", format="doc")
    with pytest.raises(FormatError, match="expected the path of a file, got 7"):
        load(7)


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"nowhere\.uai: there is no such file"):
        load("nowhere.uai")
    (tmp_path / "d.uai").mkdir()
    with pytest.raises(FormatError, match=r"d.uai: cannot be read \(Is a directory\)"):
        load(tmp_path / "d.uai")
    with pytest.raises(FormatError, match="cannot be written"):
        save(NETWORK, tmp_path / "absent" / "m.uai")
    with pytest.raises(FormatError, match="cannot be read"):
        load("a\0b.uai")


@pytest.mark.parametrize("packing", [".gz", ".xz"])
def test_damaged_compression_is_refused(packing, tmp_path):
    path = tmp_path / f"m.uai{packing}"
    save(NETWORK, path)
    whole = path.read_bytes()
    for content in (b"MARKOV", whole[: len(whole) // 2], whole[:12] + b"\xff\xff" + whole[14:]):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=f"expected {packing[1:]}-compressed data, got damaged ones"):
            load(path)


@pytest.mark.parametrize(("packing", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_what_unpacks_to_more_than_a_share_of_the_memory_is_refused(packing, pack, tmp_path, monkeypatch):
    monkeypatch.setattr("credo.core.content.machine_gigabytes", lambda: 2.0**-7)
    text = b"MARKOV\n1\n2\n1\n1 0\n2 1 3\n" + b" " * 2**21
    path = tmp_path / f"m.uai{packing}"
    path.write_bytes(pack(text))
    assert path.stat().st_size < 5000
    with pytest.raises(
        FormatError, match=r"expected at most 0\.00098 GB when unpacked.*unpack the file first"
    ):
        load(path)
    path.with_suffix("").write_bytes(text)
    assert credo.infer(load(path.with_suffix(""))).log_z.value == pytest.approx(np.log(4))


def test_read_only_formats_are_not_written(tmp_path):
    with pytest.raises(FormatError, match="wcsp files can be read but not written; use one of"):
        save(NETWORK, tmp_path / "m.wcsp")


@pytest.mark.parametrize("extension", WRITABLE)
def test_only_models_are_saved(extension, tmp_path):
    with pytest.raises(CredoError, match="got"):
        save("not a model", tmp_path / f"m{extension}")


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_garbage_gets_a_sentence(extension, tmp_path):
    path = tmp_path / f"m{extension}"

    @given(st.binary(max_size=200))
    def check(content):
        path.write_bytes(content)
        attempt(path)

    check()


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_truncated_files_get_a_sentence(extension, tmp_path):
    path = tmp_path / f"m{extension}"
    content = sample(extension)
    for end in range(0, len(content), 3):
        path.write_bytes(content[:end])
        attempt(path)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_mutated_files_get_a_sentence(extension, tmp_path):
    path = tmp_path / f"m{extension}"
    content = sample(extension)
    rng = random.Random(extension)
    pieces = [
        b"",
        b"-1",
        b"0",
        b"1e999",
        b"1000000000000",
        b"99",
        b".",
        b"{",
        b"]",
        b";",
        b"<",
        b"\xff",
        b"\n",
        b'"',
        b"nan",
    ]
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(damaged) + 1)
            damaged[at : at + rng.randrange(3)] = rng.choice(pieces)
        path.write_bytes(bytes(damaged))
        attempt(path)


def attempt(path):
    """Load, or get one of credo's own errors that names the file."""
    try:
        load(path)
    except CredoError as error:
        assert path.name in str(error)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_small_and_large_texts_have_the_same_numbers(values):
    content = " ".join(map(repr, values)).encode()
    small = read_numbers(content)
    large = read_numbers(content + b" " * SMALL)
    wanted = np.array(values, dtype=np.float64)
    assert np.array_equal(small.view(np.uint64), wanted.view(np.uint64))
    assert np.array_equal(large.view(np.uint64), wanted.view(np.uint64))


def test_long_and_tiny_numbers_in_large_texts_are_exact():
    tokens = ["0.1234567890123456789012345678", "4.9e-324", "2.2250738585072011e-308", "1.5"] * 3000
    values = read_numbers(" ".join(tokens).encode())
    assert np.array_equal(values, np.array([float(t) for t in tokens]))


@pytest.mark.parametrize("extension", ["uai", "bif", "xdsl"])
def test_continuous_models_are_refused_before_a_file_is_written(tmp_path, extension):
    x, s = credo.Variable("x", credo.Real()), credo.Variable("s", 2)
    mixed = credo.HybridNet([x, s], [credo.potentials.emission(x, s, [0.0, 1.0], 1.0)])
    for model, words in (
        (credo.GaussianNet(np.eye(2)), r"continuous variables \['x0', 'x1'\]"),
        (mixed, r"continuous variables \['x'\]"),
    ):
        with pytest.raises(FormatError, match=words):
            credo.save(model, tmp_path / f"model.{extension}")
    assert not list(tmp_path.iterdir())


def partial_models():
    """Models of which their tables are a part only."""
    s = credo.Variable("s", 2)
    tree = credo.BayesNet({"a": 2, "b": 2}, {"b": ["a"]}, {"a": [0.5, 0.5], "b": np.eye(2)})
    return {
        "NormalForm": NormalForm({"X": 2, "Y": 2}, [Source("X", [0.5, 0.5]), Block("X", "Y", np.eye(2))]),
        "MixtureOfTrees": MixtureOfTrees([0.5, 0.5], [tree, tree]),
        "HybridNet": credo.HybridNet([s], [credo.TableFactor([s], [1.0, 2.0])]),
    }


@pytest.mark.parametrize("extension", ["uai", "fg", "bif", "uai.gz"])
@pytest.mark.parametrize("kind", partial_models())
def test_a_model_that_a_file_would_hold_a_part_of_is_refused(tmp_path, kind, extension):
    model, path = partial_models()[kind], tmp_path / f"model.{extension}"
    with pytest.raises(CredoError, match=rf"got (a )?{kind}"):
        credo.save(model, path)
    assert not path.exists()
    if extension != "bif":
        with pytest.raises(FormatError, match=r"save `model.to_factor_graph\(\)`"):
            credo.save(model, path)
        credo.save(model.to_factor_graph(), path)  # the way out
        assert path.exists()


def test_a_log_linear_model_keeps_its_weights_or_is_refused(tmp_path):
    model = credo.MarkovNet.log_linear({"a": 2}, [("a", [0, 1], 0)], [0.5])
    credo.save(model, tmp_path / "model.json")
    assert credo.load(tmp_path / "model.json").weights.tolist() == [0.5]
    with pytest.raises(FormatError, match="got LogLinear"):
        credo.save(model, tmp_path / "model.uai")


@pytest.mark.parametrize("name", ["model.uai", "model.json", "model.credo", "model.uai.gz", "model.uai.xz"])
def test_a_full_disk_leaves_the_old_file(tmp_path, name, monkeypatch):
    path = tmp_path / name
    credo.save(credo.FactorGraph({"a": 2}, {("a",): [1, 2]}), path)
    old = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FormatError, match=r"cannot be written \(No space left on device"):
        credo.save(credo.FactorGraph({"a": 2}, {("a",): [3, 4]}), path)
    assert path.read_bytes() == old and os.listdir(tmp_path) == [name]
