"""Settings shared by all tests."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

from credo.kernels import jit

# Examples come from the test's own code, not from a clock or a database, so a run can be repeated;
# the first example may compile a kernel, so there is no deadline.
settings.register_profile("credo", deadline=None, derandomize=True, database=None)
settings.load_profile("credo")

# Where two runs must agree to the last bit, the tier must not change between them. `make test` compiles all
# kernels first; what is interpreted is tested where it is said so, and in the processes that tests start.
if "CREDO_KERNELS" not in os.environ:
    jit._Process.tier = "compiled"

# What a script starts in the background inherits that Ctrl-C is ignored, and Python keeps to that; tests that
# send the signal would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
