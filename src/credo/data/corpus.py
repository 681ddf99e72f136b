"""Documents as counts of words: dense or sparse tables, one row per document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import DataError
from .dataset import random_batches
from .sources import is_table, number_columns

__all__ = ["Corpus"]


@dataclass(frozen=True)
class Corpus:
    """Words that occur and how often, document after document.

    Examples
    --------
    >>> from credo.data.corpus import Corpus
    >>> Corpus.read([[2, 0, 1], [0, 3, 0]])
    Corpus(2 documents, 3 words, 6 tokens)
    """

    start: np.ndarray  # (documents + 1,) document d owns the entries start[d]:start[d+1]
    words: np.ndarray  # (entries,) positions in the vocabulary
    counts: np.ndarray  # (entries,)
    vocabulary: int  # words there are

    @classmethod
    def read(cls, x: Any) -> Corpus:
        """Counts (documents, words): an array, a sparse matrix, or a table or file with a column per word."""
        from scipy.sparse import csr_array, issparse

        if isinstance(x, Corpus):
            return x
        if not issparse(x):
            x = number_columns("X", x) if is_table(x) else np.asarray(x)
            if x.ndim != 2 or x.dtype.kind not in "iufb":
                raise DataError(f"X: expected counts of shape (documents, words), got {x.dtype} {x.shape}")
        rows = csr_array(x, dtype=np.float64)
        rows.sum_duplicates()
        if not (np.isfinite(rows.data).all() and (rows.data >= 0).all()):
            raise DataError("X: expected finite counts from 0, got others")
        rows.eliminate_zeros()
        found = cls(rows.indptr, rows.indices, rows.data, int(rows.shape[1]))
        if not found.tokens:
            raise DataError("X: expected at least one word, got none")
        return found

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def tokens(self) -> float:
        """Words in all, each as often as it occurs."""
        return float(self.counts.sum())

    @property
    def total(self) -> float:
        """Number of documents."""
        return float(len(self))

    @property
    def is_complete(self) -> bool:
        """Counts are never missing."""
        return True

    def take(self, which: np.ndarray) -> Corpus:
        """Some of the documents."""
        lengths = np.diff(self.start)[which]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(self.start.dtype)
        rows = np.arange(start[-1]) + np.repeat(self.start[which] - start[:-1], lengths)
        return Corpus(start, self.words[rows], self.counts[rows], self.vocabulary)

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[Corpus]:
        """The documents in random order, `size` at a time; everything at once for None."""
        return random_batches(self, size, rng)

    def __repr__(self) -> str:
        return f"Corpus({len(self)} documents, {self.vocabulary} words, {self.tokens:g} tokens)"
