"""A lock on a file that processes wait for; the system frees it when its holder dies."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Windows locks forbid reading, so the locked byte is one that the file will never have.
_FAR_AWAY = 1 << 30
# What is said of a lock that another process holds; Wine leaves the number out.
_HELD = (errno.EACCES, errno.EDEADLK, 0)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds the lock of an existing file, whose content stays as it is."""
    handle = _open(path)
    try:
        _acquire(handle, path)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags)
    except PermissionError:
        # Enough for a local disk; network disks want the right to write.
        return os.open(path, flags & ~os.O_RDWR | os.O_RDONLY)


if sys.platform == "win32":

    def _acquire(handle: int, path: Path) -> None:
        told = False
        while True:
            try:
                os.lseek(handle, _FAR_AWAY, os.SEEK_SET)
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
                return
            except OSError as error:
                if error.errno not in _HELD:
                    raise
                told = told or _tell(path)
                time.sleep(0.1)

else:

    def _acquire(handle: int, path: Path) -> None:
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _tell(path)
                fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EBADF):
                raise
            print(
                f"WARNING: {path} cannot be locked ({error.strerror}): do not run several ROCm "
                "commands at once until `rocm-sdk init` is done",
                file=sys.stderr,
            )


def _tell(path: Path) -> bool:
    print(f"waiting for another process that prepares {path.parent}", file=sys.stderr)
    return True
