"""Sphinx settings."""

from __future__ import annotations

import credo

project = "credo"
author = "the credo developers"
copyright = "the credo developers"
version = release = credo.__version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"credo {release}"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
