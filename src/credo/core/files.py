"""Files that are written whole or not at all.

What is written goes into a file beside, reaches the disk, and is then given the name: whoever reads finds
the old content or the new one, and a full disk or a killed process costs nothing that was there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, overload

__all__ = ["replacing"]


@overload
def replacing(path: str | os.PathLike[str]) -> contextlib.AbstractContextManager[IO[bytes]]: ...


@overload
def replacing(
    path: str | os.PathLike[str], *, text: Literal[True]
) -> contextlib.AbstractContextManager[IO[str]]: ...


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, text: bool = False) -> Iterator[IO[Any]]:
    """A file to write, which takes the place of `path` if the block ends well.

    Parameters
    ----------
    path
        Where to. A link stays one: the file it points to is replaced, and its permissions are kept. What is
        no file, as `/dev/stdout`, is written to directly.
    text
        Whether strings are written, in UTF-8 and with line ends as they are, or bytes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from credo.core.files import replacing
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with replacing(path, text=True) as file:
    ...     _ = file.write("whole")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('whole', 1)
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with _open(target, text) as file:
            yield file
        return
    # Two processes that write at once must not write into one file.
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with _open(beside, text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    _sync_folder(target.parent)


def _open(path: Path, text: bool) -> IO[Any]:
    return open(path, "w", newline="", encoding="utf-8") if text else open(path, "wb")


def _sync_folder(folder: Path) -> None:
    """Make the new name last, where the system lets folders be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
