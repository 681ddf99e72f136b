"""A family as the key of a compiled program: all that matters but the numbers."""

from __future__ import annotations

from typing import Any

__all__ = ["FamilyForm"]


class FamilyForm:
    """Equal for families that share programs."""

    def __init__(self, family: Any) -> None:
        self.family, self.key = family, family.structure

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FamilyForm) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)
