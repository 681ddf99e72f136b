"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from credo.core.files import replacing


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "some.txt"
    found.write_bytes(b"old")
    return found


class WriterError(Exception):
    """What a writer raises midway."""


@pytest.mark.parametrize("error", [WriterError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("text", [False, True])
def test_a_writer_that_fails_midway_leaves_the_old_file_and_nothing_else(path, error, text):
    with pytest.raises(error), replacing(path, text=text) as file:
        file.write("new" if text else b"new")
        file.flush()
        raise error
    assert path.read_bytes() == b"old" and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(path, failing, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match="No space left"), replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old" and os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are of POSIX")
def test_a_file_larger_than_allowed_leaves_the_old_one(path):
    code = f"""
import resource, signal
from credo.core.files import replacing
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with replacing({str(path)!r}) as file:
    file.write(bytes(5000))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode and "File too large" in ended.stderr
    assert path.read_bytes() == b"old" and os.listdir(path.parent) == [path.name]


def test_the_new_content_comes_when_all_is_written(path):
    with replacing(path, text=True) as file:
        file.write("a\nb\r\n\u00e9")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == "a\nb\r\n\u00e9".encode() and os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="links and permissions of POSIX")
def test_links_and_permissions_stay(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    path.chmod(0o640)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink() and path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="there is no such device")
def test_a_device_is_written_to():
    with replacing("/dev/null") as file:
        file.write(b"new")
    assert not os.path.isfile("/dev/null")
