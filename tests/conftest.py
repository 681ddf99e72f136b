"""Settings shared by all tests."""

from __future__ import annotations

import gc
import os
import signal

from hypothesis import settings

from credo.kernels import jit

# Collecting twenty thousand tests makes millions of objects that stay. Looking for rings of garbage among
# them costs a fifth of the time, then and whenever a compiler makes many small ones. So none is done before
# the tests begin, and what is there by then is not looked at again.
gc.disable()

# Examples come from the test's own code, not from a clock or a database, so a run can be repeated;
# the first example may compile a kernel, so there is no deadline.
settings.register_profile("credo", deadline=None, derandomize=True, database=None)
settings.load_profile("credo")


def pytest_collection_finish() -> None:
    """Leave what the collection made alone, and look for garbage from here on."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


# Where two runs must agree to the last bit, the tier must not change between them. `make test` compiles all
# kernels first; what is interpreted is tested where it is said so, and in the processes that tests start.
if "CREDO_KERNELS" not in os.environ:
    jit._Process.tier = "compiled"

# What a script starts in the background inherits that Ctrl-C is ignored, and Python keeps to that; tests that
# send the signal would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
