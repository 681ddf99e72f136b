from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.nn import arrays
from credo.nn.arrays import LinearMap, pad_rows, precision, row_buckets


def sparse_entries(rng, rows, columns):
    """A random matrix with an empty row, an empty column and rows of very different lengths."""
    matrix = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < rng.random((rows, 1)))
    matrix[rows // 2] = 0
    matrix[:, columns // 3] = 0
    matrix[0] = rng.normal(size=columns)
    return matrix


@pytest.mark.parametrize("dense", [True, False])
def test_a_linear_map_is_its_matrix_and_its_gradient_the_transpose(dense, monkeypatch):
    if not dense:
        monkeypatch.setattr(arrays, "_DENSE", 0)
    rng = np.random.default_rng(0)
    matrix = sparse_entries(rng, 13, 9)
    row, column = np.nonzero(matrix)
    x, y = rng.normal(size=(4, 9)), rng.normal(size=(4, 13))
    with precision(double=True) as kind:
        made = LinearMap.of(row, column, matrix[row, column], matrix.shape, kind)
        assert (made.dense is not None) == dense
        found = jax.vmap(made)(jnp.asarray(x))
        back = jax.vmap(lambda u, v: jax.vjp(made, u)[1](v)[0])(jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_allclose(found, x @ matrix.T, atol=1e-12)
    np.testing.assert_allclose(back, y @ matrix, atol=1e-12)


@pytest.mark.parametrize("dense", [True, False])
def test_a_linear_map_without_rows_gives_nothing(dense, monkeypatch):
    if not dense:
        monkeypatch.setattr(arrays, "_DENSE", -1)
    none = np.empty(0, np.int64)
    made = LinearMap.of(none, none, np.empty(0), (0, 3))
    assert made(jnp.ones(3)).shape == (0,)
    assert jax.grad(lambda x: made(x).sum())(jnp.ones(3)).tolist() == [0, 0, 0]


def test_padded_rows_hold_the_ragged_ones():
    flat, start = np.arange(1.0, 8.0), np.array([0, 3, 3, 4, 7])
    found, mask = pad_rows(flat, start, fill=-1.0)
    assert found.shape == (4, 3)
    np.testing.assert_array_equal(found[mask], flat)
    assert (found[~mask] == -1).all()
    np.testing.assert_array_equal(mask.sum(axis=1), np.diff(start))


def test_buckets_hold_every_row_that_is_not_empty_and_waste_less_than_half():
    lengths = np.array([5, 0, 1, 16, 7, 8, 2, 1, 300])
    buckets = row_buckets(lengths)
    assert sorted(np.concatenate(buckets).tolist()) == [0, 2, 3, 4, 5, 6, 7, 8]
    for rows in buckets:
        assert lengths[rows].max() < 2 * lengths[rows].min() or lengths[rows].max() == lengths[rows].min()


def test_double_precision_ends_with_its_block():
    with precision(double=True):
        assert jnp.ones(1).dtype == jnp.float64
    assert jnp.ones(1).dtype == jnp.float32
