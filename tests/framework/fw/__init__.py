"""A framework."""

import ctypes
from pathlib import Path

_C = ctypes.CDLL(str(Path(__file__).with_name("_C.so")))


def answer() -> int:
    """Return what the libraries of ROCm return together."""
    return int(_C.answer())
