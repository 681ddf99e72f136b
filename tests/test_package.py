"""What is delivered beside the code: types, metadata, how to cite."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import credo

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_type_checkers_are_told_to_read_the_annotations():
    assert (Path(credo.__file__).parent / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_one_version_is_told_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE).group(1) == credo.__version__
    assert PROJECT["version"] == credo.__version__


def test_the_least_python_is_among_the_classifiers():
    least = PROJECT["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {least}" in PROJECT["classifiers"]
