"""What can be packed comes back to the last bit; what cannot is refused by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from credo.core.errors import FormatError, UnsupportedError
from credo.core.packing import changing_parts, needs_like, pack
from credo.core.records import record
from credo.core.result import Estimate, Status
from credo.core.unpacking import unpack


@record("test point")
class Point(NamedTuple):
    x: float
    next: Point | None = None


@record("test planned", rebuilt=("plan",))
class Planned(NamedTuple):
    plan: object
    values: np.ndarray


@record("test walker", kept=("at", "rng", "friend"))
class Walker:
    def __init__(self, rng):
        self.at, self.rng, self.friend, self.road = np.zeros(3), rng, None, object()

    def revive(self, name):
        self.friend = Walker(self.rng)


class Foreign(NamedTuple):
    mean: np.ndarray
    count: int


@dataclass
class Unknown:
    x: int = 1


def again(value, like=None):
    tree, arrays = pack(value)
    arrays = [np.array(a, order="C") for a in arrays]
    return unpack(json.loads(json.dumps(tree, allow_nan=False)), arrays, like)


PLAIN = [
    None,
    True,
    0,
    -(2**200),
    0.1,
    -0.0,
    float("inf"),
    float("-inf"),
    "text",
    "",
    (),
    [],
    {},
    (1, [2.5, {"a": None, 3: (True,)}]),
    [0.1] * 9,
    tuple(np.float64(k) / 3 for k in range(9)),
    {1, 2},
    frozenset({"a"}),
    Status.STALLED,
    Estimate(0.1, "upper"),
    Point(0.1, Point(0.2)),
    [1, 2, 3, 4, 5, 6],
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back(value):
    found = again(value)
    assert found == value and type(found) is type(value) and repr(found) == repr(value)


def test_nan_comes_back():
    assert np.isnan(again(float("nan")))


ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(3.5),
    np.zeros((0, 4)),
    np.array([True, False]),
    np.arange(3, dtype=np.uint8),
    np.array([1 + 2j]),
    np.array(["ab", "c"]),
    np.array([np.nan, -0.0, np.inf, 5e-324]),
    np.arange(24.0).reshape(2, 3, 4).swapaxes(0, 1),
    np.arange(10.0)[::3],
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}{a.strides}")
def test_arrays_come_back_with_their_type_bytes_and_order_in_memory(array):
    found = again(array)
    assert found.dtype == array.dtype and found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.strides == array.copy(order="K").strides


@pytest.mark.parametrize("value", [np.float32(0.1), np.int8(-3), np.bool_(True), np.float64(2.5)])
def test_scalars_of_numpy_stay_scalars_of_numpy(value):
    found = again(value)
    assert found == value and type(found) is type(value)
    assert [type(v) for v in again([value] * 7)] == [type(value)] * 7


def test_rows_of_equal_shape_are_one_array():
    rows = [np.arange(3.0) + k for k in range(20)]
    tree, arrays = pack(rows)
    assert len(arrays) == 1 and np.array_equal(unpack(tree, arrays), rows)


def test_an_array_that_is_met_twice_is_one_array_again():
    both = again((array := np.zeros(3), array))
    assert both[0] is both[1]


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_go_on_and_spawn_as_they_would_have(kind):
    rng = np.random.Generator(getattr(np.random, kind)(7))
    rng.random(5), rng.integers(3, dtype=np.uint32), rng.spawn(2)
    found = again(rng)
    assert np.array_equal(found.random(9), rng.random(9))
    assert np.array_equal(found.spawn(1)[0].random(3), rng.spawn(1)[0].random(3))


def test_a_generator_that_stands_there_is_moved_and_stays_who_it_is():
    rng, like = np.random.default_rng(3), np.random.default_rng(3)
    rng.random(4), rng.spawn(2)
    assert again(rng, like) is like
    assert like.random() == rng.random() and like.bit_generator.seed_seq.n_children_spawned == 2
    assert again(rng, other := np.random.default_rng(4)) is not other


def test_what_is_rebuilt_is_taken_from_what_stands_there():
    plan = object()
    found = again(Planned(object(), np.arange(2)), Planned(plan, np.zeros(2)))
    assert found.plan is plan and found.values.tolist() == [0, 1]
    assert needs_like(pack((1, [Planned(plan, np.zeros(1))]))[0]) and not needs_like(pack(Point(1.0))[0])
    with pytest.raises(FormatError, match="'test planned' belongs to something that was not started"):
        again(Planned(plan, np.zeros(2)))


def test_objects_that_change_in_place_are_filled():
    walker, like = Walker(np.random.default_rng(1)), Walker(np.random.default_rng(1))
    walker.at, walker.friend = np.arange(3), Walker(walker.rng)
    walker.rng.random()
    road = like.road
    assert again([walker], [like])[0] is like and like.road is road and like.friend.rng is like.rng
    assert like.at.tolist() == [0, 1, 2] and like.rng.random() == walker.rng.random()
    assert list(changing_parts((walker, 1.0, [walker.rng]))) == [walker, walker.rng]


def test_an_earlier_form_can_stand_for_an_object():
    walker = Walker(np.random.default_rng(1))
    frozen = {id(walker): (pack(walker)[0], [a.copy() for a in pack(walker)[1]])}
    walker.at[:] = 9.0
    tree, arrays = pack((np.ones(2), walker), frozen)
    _, found = unpack(tree, arrays, (None, Walker(np.random.default_rng(1))))
    assert found.at.tolist() == [0, 0, 0]


def test_named_tuples_of_other_libraries_take_the_type_that_stands_there():
    value = Foreign(np.arange(2.0), 3)
    found = again(value, Foreign(np.zeros(2), 0))
    assert type(found) is Foreign and found.count == 3
    with pytest.raises(FormatError, match="belongs to something that was not started"):
        again(value)


def test_arrays_of_jax_come_back_as_such():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        value = (jax.numpy.arange(3.0) / 3, jax.numpy.float32(0.1), jax.random.key(5))
    found = again(value)
    assert all(isinstance(v, jax.Array) for v in found)
    assert [v.dtype for v in found] == [v.dtype for v in value]
    assert np.asarray(found[0]).tobytes() == np.asarray(value[0]).tobytes()
    assert jax.random.uniform(found[2]) == jax.random.uniform(value[2])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [1, Unknown()]}, r"run\.a\[1\]: expected arrays, .* got a .*Unknown"),
        (Point(1.0, lambda: 0), r"run\.next: .* got a builtins.function"),
        (np.array([None]), "expected an array of numbers, got one of object"),
        (np.ma.zeros(3), "MaskedArray"),
        (1 + 2j, "builtins.complex"),
        (np.random.RandomState(0), "RandomState"),
    ],
)
def test_anything_else_is_refused_with_its_type_and_place(value, words):
    with pytest.raises(UnsupportedError, match=words):
        pack(value)


def test_tags_are_declared_once():
    with pytest.raises(ValueError, match="the tag 'test point' is declared twice; tags must differ"):
        record("test point")(Foreign)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"array": 3}, "there is no array 3"),
        ({"array": "0"}, "there is no array"),
        ({"array": -1}, "there is no array"),
        ({"array": 0, "axes": [1]}, "the axes .* are not those of an array"),
        ({"array": 0, "axes": ["0", None]}, "the axes .* are not those of an array"),
        ({"module": "os"}, "the kind of value .* is unknown to this version"),
        ({}, "expected a value"),
        ([1], "expected a value"),
        ({"record": "os.system", "fields": {}}, "the record 'os.system' is unknown to this version"),
        ({"record": "test point", "fields": {"x": 1}}, "'test point' has other fields than in this version"),
        ({"record": ["test point"]}, "is unknown to this version"),
        ({"status": "bored"}, "the status 'bored' is unknown"),
        ({"float": "1e"}, "expected a number"),
        ({"tuple": 3}, "expected several values"),
        ({"dict": [[1]]}, "an entry that is no pair"),
        ({"dict": [[{"list": []}, 1]]}, "a key that cannot be one"),
        ({"generator": {"dict": []}}, "a generator lacks its state"),
        ({"generator": 3}, "a generator lacks its state"),
        ({"floats": 1, "as": "list"}, "a list of numbers has none"),
    ],
)
def test_what_pack_would_not_write_is_refused(tree, words):
    with pytest.raises(FormatError, match=words):
        unpack(tree, [np.zeros(3), np.array(1.0)])
