"""Finds shared libraries by their short names, and loads them into this process."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path

from . import _dist_info

# Handles of what `preload_libraries` loaded; they must outlive every user of the libraries.
_ALL_CDLLS: dict[str, ctypes.CDLL] = {}


def find_libraries(*shortnames: str) -> list[Path]:
    """The files of the named libraries, in the order of the names.

    Libraries that this platform does not have, and optional ones that are not installed, are left
    out. Raises `ModuleNotFoundError` for unknown names and for packages that are not installed,
    and `FileNotFoundError` for a library that its package should hold but does not.
    """
    paths: list[Path] = []
    missing: list[_dist_info.PackageEntry] = []
    for shortname in shortnames:
        entry = _dist_info.ALL_LIBRARIES.get(shortname)
        if entry is None:
            raise ModuleNotFoundError(f"Unknown rocm library '{shortname}'")
        if sys.platform == "win32" and not entry.dll_pattern:
            continue
        root = package_root(entry.package)
        if root is not None:
            paths.extend(_find(entry, root))
        elif not entry.optional and entry.package not in missing:
            missing.append(entry.package)
    if missing:
        raise ModuleNotFoundError(_missing(missing, shortnames))
    return paths


def preload_libraries(*shortnames: str, rtld_global: bool = True) -> None:
    """Loads the named libraries and keeps them loaded."""
    mode = ctypes.RTLD_GLOBAL if rtld_global else ctypes.RTLD_LOCAL
    for shortname in shortnames:
        if shortname in _ALL_CDLLS:
            continue
        for path in find_libraries(shortname):
            _ALL_CDLLS[shortname] = ctypes.CDLL(str(path), mode=mode)


def package_root(package: _dist_info.PackageEntry) -> Path | None:
    """The directory that holds the files of a package, when it is installed."""
    target = _dist_info.determine_target_family() if package.is_target_specific else None
    spec = importlib.util.find_spec(package.get_py_package_name(target))
    if spec is None or not spec.submodule_search_locations:
        return None
    # Not the origin: a package whose `__init__.py` got lost still has a place.
    return Path(next(iter(spec.submodule_search_locations)))


def _find(entry: _dist_info.LibraryEntry, root: Path) -> list[Path]:
    windows = sys.platform == "win32"
    directory = root / (entry.windows_relpath if windows else entry.posix_relpath)
    pattern = entry.dll_pattern if windows else entry.so_pattern

    def rank(path: Path) -> tuple[bool, str]:
        # `*hipblas*.dll` also matches hipblaslt: the exact name goes first.
        return path.stem.removeprefix("lib") != entry.shortname, path.name

    matches = sorted(directory.glob(pattern), key=rank)
    if not matches and not entry.optional:
        raise FileNotFoundError(
            f"Could not find rocm library '{entry.shortname}' at path '{directory},' "
            f"no match for pattern '{pattern}'"
        )
    return matches[:1]


def _missing(packages: list[_dist_info.PackageEntry], shortnames: tuple[str, ...]) -> str:
    extras = [package.logical_name for package in packages if not package.required]
    wanted = f"rocm[{','.join(extras)}]" if extras else "rocm"
    names = ", ".join(repr(name) for name in shortnames)
    return (
        f"ROCm packages are missing for the libraries {names}. "
        f"Install them with: pip install {wanted}"
    )
