"""Where the libraries of ROCm are."""

import ctypes
import importlib
from pathlib import Path

from ._dist_info import ALL_LIBRARIES, __version__, determine_target_family

__all__ = ["__version__", "find_libraries", "preload_libraries"]


def find_libraries(*names):
    paths = []
    for name in names:
        if name not in ALL_LIBRARIES:
            raise ModuleNotFoundError(f"Unknown rocm library '{name}'")
        library = ALL_LIBRARIES[name]
        family = determine_target_family()
        module = importlib.import_module(library.package.get_py_package_name(family))
        directory = Path(module.__file__).parent / library.posix_relpath
        found = sorted(directory.glob(library.so_pattern))
        if not found and not library.optional:
            raise FileNotFoundError(f"Could not find rocm library '{name}' at path '{directory}'")
        paths += found[:1]
    return paths


def preload_libraries(*names):
    for path in find_libraries(*names):
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
