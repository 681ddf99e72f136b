"""Where Bethe variational inference starts: the place and the scale of every real variable."""

from __future__ import annotations

from ..starting_places import Places, starting_places

__all__ = ["Places", "starting_places"]
