"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

import credo

ROOT = Path(credo.__file__).parent
INITS = [ROOT / "__init__.py", *ROOT.glob("*/__init__.py")]
PACKAGES = [path.parent for path in INITS if "furnish(" in path.read_text(encoding="utf-8")]
INSIDE = """
from credo.core.lazy import furnish
__all__ = ["flute", "oboe", "drums"]
furnish(__name__, {"winds": ("flute",), "oboe": ("oboe",)}, modules=("noise.drums",))
"""


@pytest.fixture
def band(tmp_path, monkeypatch):
    folder = tmp_path / "lazy_band"
    (folder / "noise").mkdir(parents=True)
    (folder / "__init__.py").write_text(INSIDE)
    (folder / "noise" / "__init__.py").write_text("")
    (folder / "noise" / "drums.py").write_text("loud = True\n")
    (folder / "winds.py").write_text("flute = 'silver'\n")
    (folder / "oboe.py").write_text("oboe = 'wood'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("lazy_band")
    for name in [n for n in sys.modules if n.split(".")[0] == "lazy_band"]:
        del sys.modules[name]


def test_a_name_imports_the_module_that_defines_it_and_no_other(band):
    assert not [n for n in sys.modules if n.startswith("lazy_band.")]
    assert band.flute == "silver"
    assert "lazy_band.winds" in sys.modules and "lazy_band.oboe" not in sys.modules
    assert band.drums.loud


def test_a_name_spelt_like_its_module_stays_the_name_however_the_module_is_imported(band):
    module = importlib.import_module("lazy_band.oboe")
    assert module.oboe == "wood"
    assert band.oboe == "wood"


def test_an_unknown_name_is_an_attribute_error_and_completion_shows_the_public_ones(band):
    with pytest.raises(AttributeError, match="module 'lazy_band' has no attribute 'tuba'"):
        _ = band.tuba
    assert [n for n in dir(band) if not n.startswith("__")] == ["drums", "flute", "oboe"]


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda p: p.name)
def test_what_type_checkers_see_is_what_is_there(folder):
    """The imports for type checkers, `__all__` and the table of names agree."""
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If))
    seen = {(n.module, a.name) for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    package = importlib.import_module(".".join(["credo", *folder.relative_to(ROOT).parts]))
    modules = {tuple(m.rpartition(".")[::2]) for m in package._modules.values()}
    homes = {(module, name) for name, module in package._homes.items()}
    assert {(m or "", n) for m, n in seen} == homes | modules
    public = {name for _, name in seen} | {n for n in package.__all__ if n in vars(package)}
    assert set(package.__all__) == public
    for name in package.__all__:
        assert getattr(package, name) is not None
