"""ROCm for Python programs: finds, loads and checks what the `rocm` packages installed."""

from __future__ import annotations

from ._dist_info import __version__
from ._libraries import _ALL_CDLLS as _ALL_CDLLS
from ._libraries import find_libraries, preload_libraries
from ._process import initialize_process

__all__ = [
    "__version__",
    "find_libraries",
    "initialize_process",
    "preload_libraries",
]
