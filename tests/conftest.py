"""Settings shared by all tests."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
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

_MOST = 1_500_000_000  # bytes of a test process above which it gives back what earlier files compiled


def _bytes_in_use() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Between files, drop what JAX compiled when it fills memory: a whole run would keep gigabytes."""
    if "jax" not in sys.modules or (nextitem is not None and nextitem.path == item.path):
        return
    if _bytes_in_use() > _MOST:
        sys.modules["jax"].clear_caches()
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
