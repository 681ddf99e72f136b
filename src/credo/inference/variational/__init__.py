"""Variational methods."""
