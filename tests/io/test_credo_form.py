"""`.credo` files: classes of users, what is refused, arrays that can be mapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import credo
from credo.core.container import read_container
from credo.core.errors import FormatError, ModelError, OptionError, UnsupportedError

X, Y = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real())


@credo.register("test.pair")
@dataclass(frozen=True)
class Pair:
    left: object
    right: object = None


@credo.register("test.row")
class Row(NamedTuple):
    values: np.ndarray


@credo.register("test.coin", fields={"p": "heads"})
class Coin:
    def __init__(self, p):
        if not 0 <= p <= 1:
            raise ValueError("no coin")
        self.heads = p


@credo.register("test.urn")
class Urn:
    def __init__(self, balls):
        self.balls = dict(balls)

    def to_parts(self):
        return {"names": tuple(self.balls), "counts": np.array(list(self.balls.values()))}

    @classmethod
    def from_parts(cls, names, counts):
        return cls(zip(names, counts.tolist(), strict=True))


@credo.register("test.pull")
def pull(x, y, strength):
    return -strength * abs(x - y)


def again(value, path):
    credo.save(value, path)
    return credo.load(path)


@pytest.mark.parametrize("form", [".credo", ".json"])
def test_classes_of_users_are_kept(form, tmp_path):
    path = tmp_path / f"mine{form}"
    found = again(Pair(Coin(0.25), Row(np.arange(3.0))), path)
    assert found.left.heads == 0.25 and found.right.values.tolist() == [0.0, 1.0, 2.0]
    assert again(Urn({"red": 2, "blue": 3}), path).balls == {"red": 2, "blue": 3}


def test_a_function_of_users_that_is_registered_is_kept(tmp_path):
    model = credo.HybridNet([X, Y], [credo.DensityFactor([X, Y], pull, 2.0)])
    found = again(model, tmp_path / "m.credo")
    assert found.to_factor_graph() == model.to_factor_graph()
    assert found.factors[0].function is pull
    part = again(model.to_factor_graph().condition({"y": 1.0}).compact(np.array([0])), tmp_path / "m.credo")
    assert part.log_score({"x": 3.0}) == -4.0


@pytest.mark.parametrize("form", [".credo", ".json"])
def test_a_function_without_a_tag_is_refused_with_its_factor_and_the_way_out(form, tmp_path):
    model = credo.HybridNet([X, Y], [credo.DensityFactor([X, Y], lambda x, y: -abs(x - y))])
    with pytest.raises(
        UnsupportedError,
        match=r"factor over \['x', 'y'\]: a file cannot keep its function '<lambda>'; use one of "
        r"credo.potentials, or define the function in a module and decorate it by `@credo.register\(tag\)`",
    ):
        credo.save(model, tmp_path / f"m{form}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", [".credo", ".json"])
def test_what_is_not_registered_is_refused(form, tmp_path):
    class Other(credo.BayesNet):
        pass

    for value in (Other({"a": 2}, {}, {"a": [0.5, 0.5]}), [1, 2], np.ones(3), pull):
        with pytest.raises(ModelError, match=r"expected a model, .* known by `@credo.register\(tag\)`, got"):
            credo.save(value, tmp_path / f"m{form}")
    with pytest.raises(UnsupportedError, match=r"Pair.left: expected arrays, .*, got a builtins.object"):
        credo.save(Pair(object()), tmp_path / f"m{form}")
    assert not list(tmp_path.iterdir())


def test_json_refuses_arrays_it_has_no_words_for(tmp_path):
    dates = Row(np.array(["2020-01-01"], dtype="datetime64[D]"))
    with pytest.raises(UnsupportedError, match="arrays of numbers and text, got one of datetime64"):
        credo.save(dates, tmp_path / "m.json")
    for values in (np.array(["a", "bc"]), np.array([1 + 2j]), np.array([True]), np.float32([1.5, np.inf])):
        found = again(Row(values), tmp_path / "m.json").values
        assert found.dtype == values.dtype and np.array_equal(found, values)


def test_what_a_constructor_refuses_is_said_with_the_file(tmp_path):
    path = tmp_path / "m.json"
    credo.save(Coin(0.5), path)
    path.write_text(path.read_text().replace("0.5", "1.5"))
    with pytest.raises(FormatError, match=r"m\.json: the parts of 'test.coin' do not make one \(ValueError"):
        credo.load(path)


def test_tags_and_ways_are_checked_when_they_are_declared():
    with pytest.raises(OptionError, match="the tag 'HMM' is declared twice"):
        credo.register("HMM", fields=[])(type("Mine", (), {}))
    with pytest.raises(OptionError, match=r"the tag 'test.coin' is declared twice"):
        credo.register("test.coin")(Row)
    with pytest.raises(OptionError, match=r"expected a dataclass, .* got Mine; or name the arguments"):
        credo.register("test.other")(type("Mine", (), {}))
    with pytest.raises(OptionError, match="expected a class or a function, got 7"):
        credo.register("test.other")(7)
    with pytest.raises(OptionError, match="register: expected a tag"):
        credo.register("")


def test_arrays_lie_at_places_that_can_be_mapped(tmp_path):
    path = tmp_path / "m.credo"
    graph = credo.FactorGraph.from_arrays(np.full(100, 2), (np.arange(100)[:, None], np.ones((100, 2))))
    credo.save(graph, path)
    _, arrays = read_container(path, mapped=True)
    assert all(isinstance(a.base, np.memmap) and not a.flags.writeable for a in arrays)
    assert all(a.ctypes.data % 64 == 0 for a in arrays)
    found = credo.load(path, mapped=True)
    assert found == graph and isinstance(found.log_tables.base, np.memmap)


def test_only_plain_files_are_mapped(tmp_path):
    for name in ("m.credo.gz", "m.bif"):
        credo.save(credo.datasets.asia(), tmp_path / name)
        with pytest.raises(FormatError, match=r"only .credo files that are not packed can be mapped"):
            credo.load(tmp_path / name, mapped=True)


def test_a_checkpoint_is_no_model(tmp_path):
    path = tmp_path / "run.credo"
    credo.infer(credo.datasets.ising_grid(3, 3), "bp", checkpoint=path, seed=0)
    with pytest.raises(FormatError, match="got the checkpoint of a run; repeat the call with checkpoint="):
        credo.load(path)


def test_a_fit_comes_back_as_a_fit(tmp_path):
    net = credo.datasets.asia()
    fit = credo.fit(net, net.sample(50, seed=0), "counts")
    found = again(fit, tmp_path / "fit.credo")
    assert type(found) is type(fit) and found.model == fit.model and found.status is fit.status
    assert found.objective.tolist() == fit.objective.tolist() and repr(found) == repr(fit)
