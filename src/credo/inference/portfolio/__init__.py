"""The roof of inference: the public calls, the choice of a method, races between methods, brackets."""
