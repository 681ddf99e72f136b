"""Arithmetic on arrays; no type of the library is imported here."""
