"""Sample models by name."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from credo import CredoError, datasets
from credo.core.registry import summary_of
from credo.datasets.catalogue import CONTENTS, find


@pytest.mark.parametrize("name", datasets.names())
def test_every_entry_says_what_its_function_says(name):
    make = find(name)
    assert make.__module__ == CONTENTS[name].module
    assert summary_of(make) == CONTENTS[name].summary
    assert ">>> " in make.__doc__


@pytest.mark.parametrize("name", datasets.names())
def test_every_name_is_a_function_of_the_package(name):
    function = name.replace("-", "_")
    assert function in datasets.__all__
    assert getattr(datasets, function) is find(name)


@pytest.mark.parametrize("name", datasets.names())
def test_every_name_makes_a_model(name):
    required = [p for p in inspect.signature(find(name)).parameters.values() if p.default is p.empty]
    values = {"p": "0.5"}
    text = f"{name}({', '.join(values.get(p.name, '4') for p in required)})"
    made = datasets.load(text)
    assert type(made).__name__ == inspect.signature(find(name)).return_annotation


def test_every_public_name_exists_and_others_are_refused():
    assert all(getattr(datasets, name) is not None for name in datasets.__all__)
    assert set(datasets.__all__) == set(dir(datasets))
    with pytest.raises(AttributeError, match=r"module 'credo\.datasets' has no attribute 'nonsense'"):
        _ = datasets.nonsense


def same(text, made):
    assert datasets.load(text).to_factor_graph() == made.to_factor_graph()


def test_arguments_are_those_of_the_call():
    same("ising-grid(3)", datasets.ising_grid(3))
    same("ising-grid(3, 5)", datasets.ising_grid(3, 5))
    same("ising-grid(rows=3, seed=7)", datasets.ising_grid(3, seed=7))
    same(
        "ising-grid(3, field=none, coupling=uniform(low=0, high=2))",
        datasets.ising_grid(3, field=None, coupling=datasets.Uniform(0, 2)),
    )
    same("erdos-renyi-ising(6, 0.5)", datasets.erdos_renyi_ising(6, 0.5))
    same("random-tree(4, states=[2, 3, 2, 4])", datasets.random_tree(4, states=[2, 3, 2, 4]))


@pytest.mark.parametrize("text", ["potts-grid(2)", "potts_grid(2)", " Potts-Grid( 2 ) "])
def test_hyphens_underscores_and_case_make_no_difference(text):
    same(text, datasets.potts_grid(2))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("asja", "no sample model named 'asja'; did you mean 'asia'? `credo datasets` lists all"),
        ("qqq", "no sample model named 'qqq'; `credo datasets` lists all"),
        ("asia(3)", "asia: too many positional arguments; it takes no arguments"),
        ("ising-grid", "ising-grid: missing a required argument: 'rows'; its arguments are ['rows', "),
        ("ising-grid(3, colums=2)", "got an unexpected keyword argument 'colums'; its arguments are ['rows'"),
        ("ising-grid(x)", "rows must be a whole number, got 'x'"),
        ("ising-grid(3", "sample model: expected 'name' or 'name(option=value)', got 'ising-grid(3'"),
        (3, "sample model: expected a name such as 'asia', got 3"),
    ],
)
def test_what_is_no_name_is_refused(text, sentence):
    with pytest.raises(CredoError) as caught:
        datasets.load(text)
    assert sentence in str(caught.value)


def test_only_the_model_asked_for_is_imported():
    code = (
        "import sys, credo; credo.datasets.names(); credo.datasets.asia();"
        "print([m for m in sys.modules if m.startswith('credo.datasets.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['credo.datasets.catalogue', 'credo.datasets.named']"
