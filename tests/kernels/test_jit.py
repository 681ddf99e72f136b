"""Kernels in two tiers: when they change tier, what they share on disk, and what stays the same."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

from credo.kernels import background, disk_cache, jit
from credo.kernels.jit import Kernel, inner, parallel, prange
from credo.optimise.run import call


def _scaled(x, i):
    return STEP * x[i]  # noqa: F821, a constant of the kernel's world


def _total(x, skip):
    total = 0.0
    for i in range(skip, len(x)):
        total += _scaled(x, i)
    return total


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for compiled kernels, and a process that has compiled nothing."""
    monkeypatch.setattr(disk_cache, "folders", lambda: (tmp_path,))
    _look_again()
    for name, value in {"tier": "tiered", "spent": 0.0, "helper": background.Helper()}.items():
        monkeypatch.setattr(jit._Process, name, value)
    yield tmp_path
    jit._Process.helper.stop()
    _look_again()


def _look_again():
    for looked in (disk_cache._listing, disk_cache._prefixes, disk_cache.can_keep):
        looked.cache_clear()


def kernel(step: int = 3) -> Kernel:
    """A kernel nobody has called, and one it calls, in a module of their own."""
    world = {"STEP": step, "__name__": __name__}
    world["_scaled"] = inner(types.FunctionType(_scaled.__code__, world))
    return jit.jit(types.FunctionType(_total.__code__, world))


def test_a_small_call_is_interpreted_and_a_long_one_compiled(folder):
    total, x = kernel(), np.arange(5.0)
    assert total(x, 1) == 30.0
    assert total._run is None and not list(folder.iterdir())
    assert total(np.ones(10**6), 0) == 3e6
    assert total._run is not None
    assert total(x, 1) == 30.0  # once compiled, always compiled


def test_many_small_calls_are_compiled_in_the_end(folder, monkeypatch):
    monkeypatch.setattr(background, "_cores", lambda: 1)
    monkeypatch.setattr(jit, "FREE", 0.01)
    total, x = kernel(), np.ones(500)
    monkeypatch.setattr(Kernel, "price", property(lambda self: 0.1))
    calls = 0
    while total._run is None:
        assert total(x, 0) == 1500.0
        calls += 1
        assert calls < 10**5
    assert jit.SHARE * total.price / 2 < total._spent < 0.1


def test_the_work_that_is_said_counts_not_the_size_of_the_arrays(folder, monkeypatch):
    monkeypatch.setattr(background, "_cores", lambda: 1)
    x = np.ones(5)
    small, large = kernel(), kernel()
    small.over(5)(x, 0)
    large.over(1e8)(x, 0)
    assert small._run is None and large._run is not None
    assert small.portion(1.0, 10**6) < 10**6 and large.portion(1.0, 10**6) == 10**6
    assert small.portion(1e9, 10**6) == 1


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_either_tier_can_be_forced(folder, tier, monkeypatch):
    monkeypatch.setattr(jit._Process, "tier", tier)
    total = kernel()
    total(np.ones(3), 0)
    total.over(1e12)(np.ones(3), 0)
    assert (total._run is not None) == (tier == "compiled")


def test_a_tier_that_does_not_exist_is_refused():
    run = _python("import credo.kernels.jit", CREDO_KERNELS="quick")
    assert "expected 'compiled', 'interpreted' or 'tiered', got 'quick'" in run.stderr


def test_literals_and_read_only_arrays_add_no_signature(folder, monkeypatch):
    monkeypatch.setattr(jit._Process, "tier", "compiled")
    total, x = kernel(), np.arange(4.0)
    frozen = x.copy()
    frozen.flags.writeable = False
    assert total(x, 0) == total(frozen, 0) == total(frozen, np.int64(0)) == 18.0
    assert len(total.compiled.signatures) == 1

    @jit.jit
    def both(y):
        return total(y, 0) + total(y, 1)

    assert both(frozen) == 36.0
    assert len(total.compiled.signatures) == 1


def test_the_next_process_loads_what_this_one_compiled(folder, monkeypatch):
    monkeypatch.setattr(jit._Process, "tier", "compiled")
    kernel()(np.ones(3), 0)
    assert {p.name.partition("-")[0] for p in folder.iterdir()} == {"test_jit._total", "test_jit._scaled"}
    again = kernel()
    again(np.ones(3), 0)
    assert sum(again.compiled.stats.cache_hits.values()) == 1


def test_a_kernel_on_disk_is_taken_as_soon_as_loading_it_pays(folder, monkeypatch):
    monkeypatch.setattr(jit._Process, "tier", "compiled")
    kernel()(np.ones(3), 0)
    monkeypatch.setattr(jit._Process, "tier", "tiered")
    _look_again()
    total, other = kernel(), jit.jit(lambda x: x[0])
    assert disk_cache.holds(total) and not disk_cache.holds(other)
    total(np.ones(3), 0)
    assert total._run is None
    total.over(1e6 * (jit._NUMBA + 2 * jit._LOADING))(np.ones(3), 0)
    assert total._run is not None


@pytest.mark.parametrize("damage", [b"", b"no pickle", b"\x80\x04\x95"])
def test_damaged_files_are_made_again(folder, damage, monkeypatch):
    monkeypatch.setattr(jit._Process, "tier", "compiled")
    kernel()(np.ones(3), 0)
    sizes = {p: p.stat().st_size for p in folder.iterdir()}
    for path in sizes:
        path.write_bytes(damage)
    assert kernel()(np.ones(3), 0) == 9.0
    assert all(path.stat().st_size > len(damage) for path in sizes)


def test_an_edited_constant_or_callee_makes_another_file_and_removes_the_old_one(folder, monkeypatch):
    monkeypatch.setattr(jit._Process, "tier", "compiled")
    kernel()(np.ones(3), 0)
    before = {p.name for p in folder.iterdir()}
    assert kernel(step=5)(np.ones(3), 0) == 15.0
    after = {p.name for p in folder.iterdir()}
    assert len(after) == len(before) and not after & before


def test_without_a_folder_that_takes_files_kernels_are_compiled_all_the_same(tmp_path, folder, monkeypatch):
    file = tmp_path / "file"
    file.write_text("in the way")
    monkeypatch.setattr(disk_cache, "folders", lambda: (file / "below",))
    monkeypatch.setattr(jit._Process, "tier", "compiled")
    assert kernel()(np.ones(3), 0) == 9.0
    assert not disk_cache.can_keep()


def test_files_go_to_the_first_folder_that_takes_them(tmp_path, folder, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(disk_cache, "folders", lambda: (tmp_path / "file" / "below", tmp_path / "second"))
    monkeypatch.setattr(jit._Process, "tier", "compiled")
    kernel()(np.ones(3), 0)
    assert len(list((tmp_path / "second").iterdir())) == 2


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no users here")
def test_a_temporary_folder_others_can_write_to_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    assert disk_cache._is_ours(mine)
    mine.chmod(0o777)
    assert not disk_cache._is_ours(mine)
    assert not disk_cache._is_ours(tmp_path / "absent")


def test_a_helper_compiles_while_calls_are_interpreted(folder, monkeypatch):
    monkeypatch.setattr(background, "_cores", lambda: 2)
    monkeypatch.setattr(jit, "FREE", 0.0)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    # What the helper imports must be a module: one of the library's own kernels.
    from credo.kernels import tables

    again = jit.jit(tables.best_states.py_func)
    again.__module__, again.__name__ = tables.best_states.__module__, "best_states"
    monkeypatch.setattr(Kernel, "price", property(lambda self: 1e-3))
    start, values = np.array([0, 2]), np.array([1.0, 2.0])
    first = again(start, values)
    while again._run is None:
        np.testing.assert_array_equal(again.over(200.0)(start, values), first)
    assert sum(again.compiled.stats.cache_hits.values()) == 1


def test_a_helper_that_cannot_start_is_done_without(folder, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    helper = background.Helper()
    assert not helper.ask(kernel(), (np.ones(2), 0))
    assert not helper.ask(kernel(), (np.ones(2), 0))


def test_a_signal_ends_the_wait_for_what_the_helper_compiles(monkeypatch):
    helper, total = background.Helper(), kernel()
    monkeypatch.setattr(background.Helper, "has_made", lambda *_: False)
    helper._asked.append(total)
    with pytest.raises(KeyboardInterrupt, match="stopped before there was anything to answer with"):
        with call() as run:
            run.note(signal.SIGINT)
            helper.wait_for(total)


def test_long_work_goes_in_parts_between_which_a_signal_ends_it(monkeypatch):
    total, done = kernel(), []
    monkeypatch.setattr(Kernel, "portion", lambda self, work, most: min(2, most))
    assert [(part.start, part.stop) for _, part in total.parts(1.0, 5)] == [(0, 2), (2, 4), (4, 5)]
    with pytest.raises(KeyboardInterrupt, match="stopped before there was anything to answer with"):
        with call() as run:
            for _, part in total.parts(1.0, 5):
                done.append(part)
                run.note(signal.SIGINT)
    assert len(done) == 1


def test_a_call_that_would_be_long_asks_the_helper_for_what_is_long_to_compile(folder, monkeypatch):
    asked = []
    monkeypatch.setattr(background.Helper, "ask", lambda self, kernel, args: asked.append(kernel) or True)
    for price, expected in ((1e-3, 0), (10.0, 1)):
        monkeypatch.setattr(Kernel, "price", property(lambda self, price=price: price))
        total = kernel(step=expected + 3)
        total.over(1e9)(np.ones(3), 0)
        assert total._run is not None and len(asked) == expected


def test_examples_have_the_types_of_what_they_stand_for():
    from numba import typeof

    x = np.arange(24.0).reshape(2, 3, 4)
    for value in (x, x.T, x[::2, ::2], x[0], 3, 2.5, True, (x, 1), np.int32(4), np.zeros(3, np.uint8)):
        assert typeof(background.example(value)) == typeof(value)


def test_threads_may_call_one_kernel_at_once(folder, monkeypatch):
    monkeypatch.setattr(background, "_cores", lambda: 1)
    total, found = kernel(), []

    def work():
        found.extend(total(np.ones(size), 0) for size in (10, 10**5, 10, 10**6))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(found)) == [30.0, 3e5, 3e6] and len(found) == 32


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_process_has_a_lock_and_a_helper_of_its_own():
    code = """
import os, numpy as np
from credo.kernels import jit
jit._Process.lock.acquire()
helper = jit._Process.helper
child = os.fork()
if child == 0:
    free = jit._Process.lock.acquire(timeout=1)
    os._exit(0 if free and jit._Process.helper is not helper else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert _python(code).stdout == "0\n"


def test_compiling_is_counted_and_told_on_a_terminal_only(folder, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(jit._Process, "tier", "compiled")
    for stream, told in ((Terminal(), True), (io.StringIO(), False)):
        for path in folder.iterdir():
            path.unlink()
        monkeypatch.setattr(sys, "stderr", stream)
        before = jit.compile_seconds()
        kernel()(np.ones(3), 0)
        assert jit.compile_seconds() > before
        text = stream.getvalue()
        assert (text.startswith("credo: compiling test_jit._total for this machine, once ... ")) == told
        assert text.count("\n") == told


@parallel
def _doubled(x):
    out = np.empty_like(x)
    for i in prange(len(x)):
        out[i] = 2 * x[i]
    return out


def test_parallel_loops_run_in_both_tiers(folder):
    x = np.arange(100.0)
    np.testing.assert_array_equal(_doubled.plain(x), 2 * x)
    np.testing.assert_array_equal(_doubled.compiled(x), 2 * x)


def test_warnings_mean_the_same_in_both_tiers(folder, monkeypatch):
    @jit.jit
    def ratio(a, b, k):
        return a[0] / b[0], a[0] * b[1], k[0] + k[0]

    arguments = (np.array([0.0]), np.array([0.0, np.inf]), np.array([2**63 - 1]))
    for tier in ("interpreted", "compiled"):
        monkeypatch.setattr(jit._Process, "tier", tier)
        found = ratio(*arguments)
        assert np.isnan(found[0]) and np.isnan(found[1]) and found[2] == -2


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_parts_of_kernels_are_interpreted_where_python_calls_them(folder, monkeypatch):
    monkeypatch.setattr(jit._Process, "tier", "compiled")
    total = kernel()
    part = total.py_func.__globals__["_scaled"]
    assert total(np.ones(3), 0) == 9.0
    assert part._compiled is not None
    assert part(np.ones(3), 1) == 3.0
