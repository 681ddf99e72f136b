"""The small neural kit on JAX, Equinox and Optax: layers, an optimisation loop, arrays for devices.

Nothing here knows a model or an algorithm: arrays in, arrays out. The modules import JAX when they are
loaded, so they are imported where they are used; this one imports nothing.

    arrays       ragged tables as padded or bucketed arrays, sparse linear maps by gathers, double precision
    layers       embeddings, self-attention, residual layers
    compiled     one compiled program per combination of shapes, and the seconds compiling took
    layout       trees of parameters as a few rows of numbers
    optimise     driven Adam steps on many problems of one shape at once, with early stop and history
"""
