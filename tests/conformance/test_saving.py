"""Every class that files keep, through every form that keeps everything; and tampered files."""

from __future__ import annotations

import copy
import importlib
import io
import json
import pkgutil
import random
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import credo
from credo.core.errors import FormatError
from credo.core.packing import _ARRAYS, pack
from credo.core.record_contents import CONTENTS
from credo.core.records import registered
from kept_examples import EXAMPLES

FORMS = (".credo", ".json")


def ours():
    """What the modules of this package register, all of them imported."""
    for module in pkgutil.walk_packages(credo.__path__, "credo."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [known for known in registered() if known.made.__module__.startswith("credo.")]


def same(one, two) -> bool:
    """Whether two objects are packed alike, arrays to the last bit; parts that were one may be two."""
    return type(one) is type(two) and inlined(*pack(one)) == inlined(*pack(two))


def inlined(tree, arrays):
    """A packed tree with the bits of arrays in place of their numbers."""
    if isinstance(tree, list):
        return [inlined(part, arrays) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if "record" in tree:  # names of fields may be spelt like the words for arrays
        return {**tree, "fields": {k: inlined(v, arrays) for k, v in tree["fields"].items()}}
    found = {}
    for key, value in tree.items():
        is_number = key in _ARRAYS and type(value) is int
        if key == "sparse" or is_number:
            chosen = [arrays[k] for k in ([value] if is_number else value)]
            found[key] = [(a.dtype, a.shape, a.tobytes()) for a in chosen]
        else:
            found[key] = inlined(value, arrays)
    return found


def test_the_table_of_contents_is_what_the_modules_register():
    assert CONTENTS == {known.tag: known.made.__module__.removeprefix("credo.") for known in ours()}


def test_every_class_that_is_kept_has_an_example_of_its_own():
    kept = {known.tag: known.made for known in ours() if known.stands_alone}
    assert set(EXAMPLES) == set(kept)
    assert all(type(EXAMPLES[tag]()) is made for tag, made in kept.items())


def test_every_model_and_family_is_kept():
    import credo.families
    import credo.models

    kept = {known.made for known in ours()}
    named = [getattr(room, name) for room in (credo.models, credo.families) for name in room.__all__]
    abstract = {"ClosedLeaf", "Conjugate", "ExpectedSums", "Family", "Learnable", "Statistics"}
    missing = [c.__name__ for c in named if isinstance(c, type) and c not in kept]
    assert set(missing) <= abstract


@pytest.mark.parametrize("form", [*FORMS, ".credo.gz"])
@pytest.mark.parametrize("tag", EXAMPLES)
def test_what_is_saved_is_loaded_to_the_last_bit(tag, form, tmp_path):
    example = EXAMPLES[tag]()
    credo.save(example, tmp_path / f"kept{form}")
    found = credo.load(tmp_path / f"kept{form}")
    assert same(found, example)
    for name in ("again", "third"):  # nothing is added or lost on the way
        credo.save(found, tmp_path / f"{name}{form}")
        found = credo.load(tmp_path / f"{name}{form}")
    assert (tmp_path / f"third{form}").read_bytes() == (tmp_path / f"again{form}").read_bytes()


@pytest.mark.parametrize("tag", ["FactorGraph", "HMM", "GaussianNet", "BayesNet", "NormalForm"])
def test_mapped_arrays_give_the_same_model(tag, tmp_path):
    example = EXAMPLES[tag]()
    credo.save(example, tmp_path / "kept.credo")
    assert same(credo.load(tmp_path / "kept.credo", mapped=True), example)


def test_a_new_process_imports_only_what_a_file_names(tmp_path):
    credo.save(EXAMPLES["BayesNet"](), tmp_path / "net.credo")
    code = (
        "import sys, credo; print(type(credo.load(sys.argv[1])).__name__, 'credo.models.hmm' in sys.modules, "
        "'credo.learning.base' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "net.credo"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["BayesNet", "False", "False"]


def test_answers_of_a_loaded_model_are_the_same(tmp_path):
    net = credo.datasets.asia()
    credo.save(net, tmp_path / "asia.credo")
    again = credo.load(tmp_path / "asia.credo")
    assert again == net
    assert credo.infer(again).log_z == credo.infer(net).log_z


PIECES = (None, True, 0, -1, 2**70, 0.5, "x", [], {}, {"float": "nan"}, {"array": 0}, {"array": 99},
          {"record": "HMM", "fields": {}}, {"record": "os.system", "fields": {}}, {"function": "product"},
          {"tuple": []}, {"tuple": [1, "a"]}, {"dict": []}, {"status": "converged"},
          {"set": [{"dict": []}]}, {"dict": [[{"dict": []}, 1]]}, {"dict": [[1, [{}]]]})  # fmt: skip


def places(tree, found):
    """Every place of a tree of JSON: its container and key."""
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        found.append((tree, key))
        if isinstance(value, (dict, list)):
            places(value, found)
    return found


def tampered(head, rng):
    """The head of a file with one to three places changed, dropped or swapped."""
    made = json.loads(json.dumps(head))
    for _ in range(rng.randrange(1, 4)):
        spots = places(made["model"], []) if isinstance(made.get("model"), dict) else places(made, [])
        if not spots:
            return made
        inside, key = rng.choice(spots)
        if isinstance(inside, dict) and rng.random() < 0.2:
            del inside[key]
        else:
            inside[key] = copy.deepcopy(rng.choice(PIECES))  # what is put in may be changed itself
    return made


def attempt(path, content):
    """Load, or get a sentence that names the file."""
    path.write_bytes(content)
    try:
        credo.load(path)
    except FormatError as error:
        assert path.name in str(error)


@pytest.mark.parametrize("tag", EXAMPLES)
def test_tampered_trees_get_a_sentence(tag, tmp_path):
    from credo.io.json_form import write_json

    head, rng = json.loads(write_json(EXAMPLES[tag]())), random.Random(tag)
    for _ in range(40):
        attempt(tmp_path / "m.json", json.dumps(tampered(head, rng)).encode())


@pytest.mark.parametrize("tag", ["FactorGraph", "BayesNet", "HMM", "Fit", "GaussianNet", "LogLinear", "CRF"])
def test_tampered_arrays_get_a_sentence_and_little_memory(tag, tmp_path):
    from credo.io.json_form import write_json

    head, rng = json.loads(write_json(EXAMPLES[tag]())), random.Random(tag)
    entries = ("nan", "inf", -1, 10**18, 0.5, None, "x")
    tracemalloc.start()
    try:
        for _ in range(60):
            made = json.loads(json.dumps(head))
            array = rng.choice(made["arrays"])
            change = rng.randrange(3)
            if change == 0 and array["data"]:
                array["data"][rng.randrange(len(array["data"]))] = rng.choice(entries)
            elif change == 1:
                array["shape"] = rng.choice(
                    [[], [0], [10**12], [2**40, 2**40], [1, len(array["data"])], [-1]]
                )
            else:
                array["dtype"] = rng.choice(["<i8", "<f8", "|b1", "|O", "<U99999999", "<f4", "O", "V8", 7])
            attempt(tmp_path / "m.json", json.dumps(made).encode())
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_tampered_containers_get_a_sentence(tmp_path):
    path, rng = tmp_path / "m.credo", random.Random(0)
    example = EXAMPLES["HMM"]()
    credo.save(example, path)
    whole = path.read_bytes()
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rng.randrange(1, 3)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content)
        try:
            found = credo.load(path)
        except FormatError as error:
            assert path.name in str(error)
        else:
            assert same(found, example)
    for cut in range(0, len(whole), 11):
        attempt(path, whole[:cut])


def container(*members) -> bytes:
    """A zip of stored members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members:
            archive.writestr(name, data if isinstance(data, (bytes, str)) else json.dumps(data))
    return out.getvalue()


def told(model, **more):
    return {"format": "credo", "version": 2, "model": model, **more}


def array(values) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(values))
    return out.getvalue()


HMM = {"start": {"array": 0}, "transition": {"array": 1}, "emission": None}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("model.json", told({"record": "os.system", "fields": {}}))], "the record 'os.system' is unknown"),
        ([("model.json", told({"record": "HMM", "fields": {}}))], "'HMM' has other fields"),
        ([("model.json", told({"record": "HMM", "fields": {**HMM, "more": 1}}))], "'HMM' has other fields"),
        ([("model.json", told({"record": "MarkovNet", "fields": {"net": 1}}))], "'MarkovNet' has other"),
        ([("model.json", told({"record": "HMM", "fields": HMM}))], "there is no array 0"),
        (
            [
                ("model.json", told({"record": "HMM", "fields": HMM})),
                ("0.npy", array([0.5, np.nan])),
                ("1.npy", array(np.eye(2))),
            ],
            "start: expected",
        ),
        ([("model.json", told({"record": "product", "fields": {}}))], "'product' has other fields"),
        ([("model.json", told({"function": "product"}))], "expected the record of a model"),
        ([("model.json", told({"record": "sliced function", "fields": {"function": {"function": "eval"},
           "seen": None}}))], "the function 'eval' is unknown"),
        ([("model.json", told(7))], "expected one model"),
        ([("model.json", told({"record": "HMM"}, extra=1))], "expected one model"),
        ([("model.json", {"format": "credo", "version": 3})], "version 2, got format 'credo', version 3"),
        ([("model.json", [1])], "version 2, got"),
        ([("model.json", {"kind": "run of credo"})], "got the checkpoint of a run; repeat the call"),
        ([("model.json", '{"format": "credo", "version": 2, "model": ' + '{"tuple": [' * 10**5)], "m.credo"),
        ([("model.json", told({"record": "Fit"})), ("model.json", told(1))], "expected the members"),
        ([("../model.json", told({"record": "Fit", "fields": {}}))], "expected the members"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_files_are_refused_with_a_sentence(members, words, tmp_path):
    path = tmp_path / "m.credo"
    path.write_bytes(container(*members))
    with pytest.raises(FormatError, match=words):
        credo.load(path)


def test_parts_in_parts_without_end_are_refused(tmp_path):
    deep = '{"tuple": [' * 350 + "]}" * 350
    text = json.dumps(told({"record": "real", "fields": {"width": 0}})).replace(": 0}", f": {deep}}}")
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(FormatError, match=r"m\.json: expected a model, got parts in parts without end"):
        credo.load(tmp_path / "m.json")
