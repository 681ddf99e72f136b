"""Covariance selection: the conditions of its optimum, nets that are learned, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import CredoError
from credo.families import Gaussian, GaussianField
from credo.families.gaussian_field import select_covariance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5)) @ RNG.normal(size=(5, 5)) + [1, 2, 3, 4, 5]
RING = np.array([[abs(i - j) in (1, 4) for j in range(5)] for i in range(5)])


def test_the_covariance_fits_on_the_edges_and_the_precision_is_zero_elsewhere():
    wanted = np.cov(X.T, bias=True)
    found = select_covariance(wanted, RING)
    kept = RING | np.eye(5, dtype=bool)
    assert found[kept] == pytest.approx(wanted[kept], rel=1e-8)
    assert np.linalg.inv(found)[~kept] == pytest.approx(0, abs=1e-9 * abs(np.linalg.inv(found)).max())
    assert select_covariance(wanted, ~np.eye(5, dtype=bool)) == pytest.approx(wanted)
    assert select_covariance(wanted, np.zeros((5, 5), bool)) == pytest.approx(np.diag(wanted.diagonal()))
    assert select_covariance(np.array([[2.0]]), np.zeros((1, 1), bool)) == pytest.approx(2.0)


def test_a_net_keeps_its_graph_and_gaps_are_filled_in(tmp_path):
    start = credo.GaussianNet(np.eye(5) + 0.1 * RING, names=list("abcde"))
    columns = {name: X[:, k] for k, name in enumerate("abcde")}
    found = credo.fit(start, columns)
    net = found.model
    assert isinstance(net, credo.GaussianNet) and found.status.value == "exact"
    assert (net.edges == RING).all() and net.n_parameters == 15
    assert net.mean == pytest.approx(X.mean(axis=0))
    assert found.log_likelihood.value == pytest.approx(credo.log_likelihood(net, columns).value)
    credo.save(found, tmp_path / "net.credo")
    gaps = {name: np.where(RNG.random(60) < 0.2, np.nan, x) for name, x in columns.items()}
    again = credo.fit(credo.load(tmp_path / "net.credo"), gaps)
    assert (np.diff(again.objective) > -1e-9).all() and (again.model.edges == RING).all()
    full = credo.GaussianNet(np.eye(5) + 0.1, names=list("abcde"))
    table = credo.compare_models({"ring": start, "full": full}, columns, criteria=["bic", "cv"], nested=True)
    assert table["full"].parameters == 20
    assert table["full"].log_likelihood == pytest.approx(
        Gaussian([X.mean(axis=0)], [np.cov(X.T, bias=True)]).log_density(X).sum(), rel=1e-3
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: GaussianField([[0.0]], [[[1.0]]], [[True, False]]), "edges: expected a symmetric matrix"),
        (
            lambda: GaussianField([[0.0]], [[[1.0]]], [[0]]).update(None, None, object()),
            "prior of a Gaussian net",
        ),
        (
            lambda: credo.fit(credo.GaussianNet([[1.0]]), [[0.0], [1.0]], "likelihood"),
            "likelihood cannot treat",
        ),
    ],
)
def test_what_is_refused(wrong, sentence):
    with pytest.raises(CredoError, match=sentence):
        wrong()
