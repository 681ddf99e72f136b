"""The floor of inference: what a problem and an algorithm are, reading and running, values."""
