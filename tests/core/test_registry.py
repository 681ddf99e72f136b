"""Names and the text form "name(option=value)"; argument checks."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from credo.core import check
from credo.core.errors import OptionError
from credo.core.registry import Entry, Registry, describe, near_misses, or_else


@dataclass(frozen=True, kw_only=True)
class Toaster:
    name: ClassVar[str] = "pop-up"
    heat: float = 0.5
    mode: str = "soft"
    slots: Any = 2


def kitchen() -> Registry[Toaster]:
    registry: Registry[Toaster] = Registry("toaster")
    registry.register(Toaster)
    return registry


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        ("pop-up", Toaster()),
        (" pop-up ( ) ", Toaster()),
        ("pop-up()", Toaster()),
        ("pop-up(heat=0.25)", Toaster(heat=0.25)),
        ("pop-up(heat=1e-3, mode=hard)", Toaster(heat=1e-3, mode="hard")),
        ("pop-up(mode='a, b')", Toaster(mode="a, b")),
        ('pop-up(mode="x=(1)")', Toaster(mode="x=(1)")),
        ("pop-up(slots=[1, (2, 3)], heat=2)", Toaster(slots=[1, (2, 3)], heat=2)),
        ("pop-up(slots={'a': 1})", Toaster(slots={"a": 1})),
        ("pop-up(slots=None)", Toaster(slots=None)),
        ("pop-up(slots=none, mode=two-sided)", Toaster(slots=None, mode="two-sided")),
        ("pop-up(slots=true)", Toaster(slots=True)),
        ("pop-up(slots=False)", Toaster(slots=False)),
        ("pop-up(heat=-1,)", Toaster(heat=-1)),
    ],
)
def test_a_specification_makes_an_object(spec, made):
    assert kitchen().resolve(spec) == made


def test_an_object_passes_through():
    mine = Toaster(heat=3)
    assert kitchen().resolve(mine) is mine


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("popup", "no toaster named 'popup'; did you mean 'pop-up'?"),
        ("Pop Up(heat=1)", "no toaster named 'Pop Up'; did you mean 'pop-up'?"),
        ("pop_up", "no toaster named 'pop_up'; did you mean 'pop-up'?"),
        ("kettle", "no toaster named 'kettle'; there are ['pop-up']"),
        ("", "toaster: expected 'name' or 'name(option=value)', got ''"),
        ("pop-up(", "toaster: expected 'name' or 'name(option=value)', got 'pop-up('"),
        ("3(x=1)", "toaster: expected 'name' or 'name(option=value)', got '3(x=1)'"),
        ("pop-up(3)", "pop-up: expected option=value, got '3'"),
        ("pop-up(heat=)", "pop-up: expected option=value, got 'heat='"),
        ("pop-up(=3)", "pop-up: expected option=value, got '=3'"),
        ("pop-up(a b=3)", "pop-up: expected option=value, got 'a b=3'"),
        ("pop-up(colour=red)", "pop-up has no option 'colour'; its options are ['heat', 'mode', 'slots']"),
        (
            "pop-up(heet=1)",
            "pop-up has no option 'heet'; did you mean 'heat'? its options are ['heat', 'mode', 'slots']",
        ),
    ],
)
def test_a_bad_specification_is_refused(spec, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        kitchen().resolve(spec)


@pytest.mark.parametrize("made", [Toaster(), Toaster(heat=2), Toaster(mode="hard", slots=4)])
def test_the_text_form_makes_the_object_again(made):
    assert kitchen().resolve(describe(made)) == made


def test_the_text_form_shows_only_what_is_not_default():
    assert describe(Toaster()) == "pop-up"
    assert describe(Toaster(heat=2, slots=4)) == "pop-up(heat=2, slots=4)"
    assert describe(Toaster(slots=np.int64(4))) == "pop-up(slots=4)"


def test_two_classes_cannot_share_a_name():
    registry = kitchen()
    registry.register(Toaster)

    @dataclass(frozen=True)
    class Oven:
        name: ClassVar[str] = "pop-up"

    with pytest.raises(OptionError, match="toaster 'pop-up' is registered twice; names must differ"):
        registry.register(Oven)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A registry with one class in a module that is not imported yet."""
    registry: Registry[Any] = Registry(
        "thing", lambda: {"kettle": Entry("kettles", "Boils water.")}, "shop list"
    )
    source = "from counter import register\n\n@register\nclass Kettle:\n    name = 'kettle'\n"
    (tmp_path / "kettles.py").write_text(source)
    counter = ModuleType("counter")
    counter.__dict__["register"] = registry.register
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "counter", counter)
    yield registry
    sys.modules.pop("kettles", None)


def test_names_and_entries_import_nothing_and_asking_for_one_imports_it(shop):
    shop.register(type("Bowl", (), {"name": "bowl", "__doc__": "Holds soup.\n\nAnd more."}))
    assert shop.names() == ["bowl", "kettle"]
    assert shop.entries() == {
        "kettle": Entry("kettles", "Boils water."),
        "bowl": Entry(__name__, "Holds soup."),
    }
    assert "kettles" not in sys.modules
    assert shop.get("kettle").__name__ == "Kettle"
    assert "kettles" in sys.modules


def test_a_name_in_the_table_of_contents_is_taken_before_its_module_is_imported(shop):
    with pytest.raises(OptionError, match="thing 'kettle' is registered twice; names must differ"):
        shop.register(type("Mine", (), {"name": "kettle"}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ketle", "no thing named 'ketle'; did you mean 'kettle'? `shop list` lists all 1"),
        ("spoon", "no thing named 'spoon'; `shop list` lists all 1"),
    ],
)
def test_a_long_registry_says_how_to_list_its_names(shop, name, message):
    with pytest.raises(OptionError, match=f"^{re.escape(message)}$"):
        shop.get(name)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Junction Tree", ["junction-tree"]),
        ("JUNCTION_TREE", ["junction-tree"]),
        ("junction", ["junction-tree"]),
        ("loopy-bp", ["bp"]),
        ("mean", ["mean-field", "structured-mean-field"]),
        ("gibs", ["gibbs"]),
        ("zzz", []),
    ],
)
def test_near_misses_are_spelt_alike_or_share_words(name, found):
    known = ["bp", "gibbs", "junction-tree", "mean-field", "structured-mean-field"]
    assert near_misses(name, known) == found


def test_names_are_quoted_and_joined_for_a_sentence():
    assert or_else(["a"]) == "'a'"
    assert or_else(["a", "b", "c"]) == "'a', 'b' or 'c'"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check.in_range("damping", 2, 0, 1), "damping must be in [0, 1), got 2"),
        (lambda: check.in_range("damping", 1, 0, 1), "damping must be in [0, 1), got 1"),
        (lambda: check.in_range("damping", "x", 0, 1), "damping must be in [0, 1), got 'x'"),
        (lambda: check.in_range("damping", True, 0, 1), "damping must be in [0, 1), got True"),
        (lambda: check.at_least("tol", -1e-3, 0), "tol must be at least 0, got -0.001"),
        (lambda: check.at_least("tol", float("nan"), 0), "tol must be at least 0, got nan"),
        (lambda: check.at_least("tol", None, 0), "tol must be at least 0, got None"),
        (lambda: check.above("rate", 0, 0), "rate must be a number above 0, got 0"),
        (lambda: check.above("rate", float("inf"), 0), "rate must be a number above 0, got inf"),
        (lambda: check.one_of("mode", "c", {"b", "a"}), "mode must be one of ['a', 'b'], got 'c'"),
        (lambda: check.whole("rows", 2.5, 1), "rows must be a whole number, got 2.5"),
        (lambda: check.whole("rows", 2.0, 1), "rows must be a whole number, got 2.0"),
        (lambda: check.whole("rows", True, 1), "rows must be a whole number, got True"),
        (lambda: check.whole("rows", "x", 1), "rows must be a whole number, got 'x'"),
        (lambda: check.whole("rows", 0, 1), "rows must be at least 1, got 0"),
        (lambda: check.whole("rows", 40, 0, 40), "rows must be in [0, 40), got 40"),
        (
            lambda: check.generator("x"),
            "seed must be a whole number of at least 0, a numpy Generator or None",
        ),
        (lambda: check.generator(-1), "or None, got -1"),
        (lambda: check.generator(1.5), "or None, got 1.5"),
    ],
)
def test_checks_name_the_option_and_the_value(call, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        call()


def test_good_values_pass_the_checks():
    check.in_range("x", 0.5, 0, 1)
    check.in_range("x", 0, 0, 1)
    check.at_least("x", 3, 3)
    check.one_of("x", "a", ["a"])
    check.at_least("x", np.float32(3), 3)
    check.whole("x", 3, 3)
    check.whole("x", np.int64(3), 3, 4)


def test_one_seed_makes_one_sequence_and_a_generator_is_shared():
    assert check.generator(np.int64(7)).random() == check.generator(7).random()
    shared = np.random.default_rng(0)
    assert check.generator(shared) is shared
    assert check.generator(None).random() != check.generator(None).random()
