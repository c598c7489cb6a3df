"""Moving files and directories while others look at them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def rename(source: Path, target: Path) -> None:
    """Moves in one step, in place of an older file."""
    # Windows refuses while another process, or a virus scanner, has one of the two open.
    for wait in (0.1, 0.2, 0.5, 1.0, 2.0, 4.0):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if sys.platform != "win32":
                raise
            time.sleep(wait)
    os.replace(source, target)
