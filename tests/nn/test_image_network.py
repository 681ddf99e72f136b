"""The residual network for images against convolutions of SciPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate2d

from credo.nn.image_network import Convolution, ImageNetwork


@pytest.mark.parametrize(("step", "shape"), [(1, (5, 7)), (2, (5, 7)), (2, (6, 4))])
def test_a_convolution_is_that_of_scipy(step, shape):
    rng = np.random.default_rng(0)
    layer, x = Convolution(2, 3, rng, step=step), rng.standard_normal((2, *shape, 2))
    kernels = layer.weight.reshape(3, 3, 2, 3)
    found = np.asarray(layer(jnp.asarray(x, jnp.float32)))
    for image in range(2):
        for output in range(3):
            whole = sum(correlate2d(x[image, :, :, c], kernels[:, :, c, output], "same") for c in range(2))
            np.testing.assert_allclose(found[image, :, :, output], whole[::step, ::step], atol=1e-5)


@pytest.mark.parametrize("shape", [(28, 28), (16, 16), (5, 3)])
def test_images_of_any_size_become_features_and_logits(shape):
    network = ImageNetwork(10, 4, np.random.default_rng(0))
    kind = jax.ShapeDtypeStruct((2, *shape), jnp.float32)
    assert jax.eval_shape(network, kind).shape == (2, 10)
    assert jax.eval_shape(network.features, kind).shape == (2, 16)
