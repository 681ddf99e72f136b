"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import settings

# Examples come from the test's own code, not from a clock or a database, so a run can be repeated;
# the first example may compile a kernel, so there is no deadline.
settings.register_profile("credo", deadline=None, derandomize=True, database=None)
settings.load_profile("credo")
