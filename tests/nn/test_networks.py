from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from credo.nn.layers import Embedding, Linear, Residual, SelfAttention


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_a_linear_layer_starts_within_its_bound():
    layer = Linear(25, 1000, np.random.default_rng(0))
    assert abs(layer.weight).max() <= 0.2
    assert abs(layer.weight).max() > 0.199
    x = np.random.default_rng(1).normal(size=(3, 25))
    np.testing.assert_allclose(layer(jnp.asarray(x)), x @ layer.weight + layer.bias, atol=1e-5)


def test_attention_is_the_formula_written_out():
    for scaled in (False, True):
        layer = SelfAttention(6, np.random.default_rng(0), scaled=scaled)
        x = np.random.default_rng(1).normal(size=(5, 6))
        q, k, v = (x @ part.weight + part.bias for part in (layer.query, layer.key, layer.value))
        scores = q @ k.T / (np.sqrt(6) if scaled else 1)
        mixed = softmax(scores) @ v @ layer.output.weight + layer.output.bias + x
        expected = (mixed - mixed.mean(1, keepdims=True)) / np.sqrt(mixed.var(axis=1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(layer(jnp.asarray(x, jnp.float32)), expected, atol=1e-4)


def test_masked_rows_are_not_attended_to():
    layer = SelfAttention(4, np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    mask = jnp.array([True, True, True, False, False])
    changed = x.copy()
    changed[3:] += 7
    first, second = layer(jnp.asarray(x), mask), layer(jnp.asarray(changed), mask)
    np.testing.assert_allclose(first[:3], second[:3], atol=1e-6)
    np.testing.assert_allclose(first[:3], layer(jnp.asarray(x[:3])), atol=1e-6)


def test_a_residual_layer_adds_to_its_input():
    layer = Residual(4, np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    inner = np.maximum(x @ layer.first.weight + layer.first.bias, 0)
    expected = np.maximum(inner @ layer.second.weight + layer.second.bias, 0) + x
    np.testing.assert_allclose(layer(jnp.asarray(x)), expected, atol=1e-5)


def test_layers_are_trees_of_arrays_and_seeds_reproduce_them():
    made = [Embedding(3, 2, np.random.default_rng(s)) for s in (4, 4, 5)]
    leaves = [jax.tree.leaves(layer) for layer in made]
    assert [leaf.shape for leaf in leaves[0]] == [(3, 2)]
    np.testing.assert_array_equal(leaves[0][0], leaves[1][0])
    assert (leaves[0][0] != leaves[2][0]).all()
    np.testing.assert_array_equal(made[0](), leaves[0][0])
