"""What goes wrong with the development files, in words that say what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DevelError(ImportError):
    """The development files are installed but cannot be used."""


@contextmanager
def explained(task: str, site: Path) -> Iterator[None]:
    """Turns a refusal of the operating system into a `DevelError`."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        reason = f"cannot {task}: {error.strerror or error}{where}"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            reason += (
                f". This user may not write to {site}. Run `rocm-sdk init` once as a user who "
                "may, or install the packages in a virtual environment of your own."
            )
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason += ". Free some disk space and run `rocm-sdk init`."
        raise DevelError(reason) from error
