"""Every exception and warning of the library.

Each message names the subject, what was expected, what came and the way out.
Each class also derives from the closest built-in, so `except ValueError` works too.
"""

from __future__ import annotations

__all__ = [
    "ConvergenceError",
    "ConvergenceWarning",
    "CredoError",
    "DataError",
    "EvidenceError",
    "FormatError",
    "ImpossibleRowError",
    "MissingExtraError",
    "ModelError",
    "OptionError",
    "QueryError",
    "TooLargeError",
    "UnsupportedError",
    "ZeroProbabilityError",
]


class CredoError(Exception):
    """Base of all errors raised on purpose by credo."""


class ModelError(CredoError, ValueError):
    """A model, variable or factor is not well formed."""


class EvidenceError(CredoError, ValueError):
    """Evidence names something unknown or cannot be used."""


class DataError(CredoError, ValueError):
    """Observations to learn from are empty, damaged or do not fit the model."""


class ImpossibleRowError(DataError):
    """A row of the observations has probability zero under the model."""

    def __init__(self, row: int, why: str = "") -> None:
        reason = f": {why}" if why else ""
        super().__init__(
            f"data: row {row} has probability zero under the model{reason}; zero entries are never learned, "
            "so start from tables without them"
        )


class ZeroProbabilityError(EvidenceError):
    """No configuration has positive weight: the evidence contradicts the model."""


class QueryError(CredoError, ValueError):
    """A question names something unknown, or asks a result for what it does not hold."""


class OptionError(CredoError, ValueError):
    """An option or a name in a specification such as "bp(damping=0.5)" is wrong."""


class UnsupportedError(CredoError, RuntimeError):
    """An algorithm cannot treat this problem; the message gives the reason."""


class TooLargeError(UnsupportedError, MemoryError):
    """The forecast of an exact computation exceeds the memory limit."""


class FormatError(CredoError, ValueError):
    """A file is damaged or not of the announced format; names the file and the line."""


class ConvergenceError(CredoError, RuntimeError):
    """A run stopped before it converged, and the caller asked for `strict=True`."""


class MissingExtraError(CredoError, ImportError):
    """An optional package is absent; the message says which extra to install."""


class ConvergenceWarning(UserWarning):
    """A run stopped before it converged; the result says so in its status."""
