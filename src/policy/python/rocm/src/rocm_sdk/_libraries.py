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
        found = [] if root is None else _matches(entry, root)
        if found or entry.optional:
            paths.extend(found)
        elif root is not None and (root / "__init__.py").is_file():
            raise FileNotFoundError(_not_found(entry, root))
        elif entry.package not in missing:
            # Uninstallers leave empty directories behind, which look like packages.
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


def _matches(entry: _dist_info.LibraryEntry, root: Path) -> list[Path]:
    """The file of a library, or nothing."""
    directory, pattern = _place(entry, root)

    def rank(path: Path) -> tuple[bool, str]:
        # `*hipblas*.dll` also matches hipblaslt: the exact name goes first.
        return path.stem.removeprefix("lib") != entry.shortname, path.name

    return sorted(directory.glob(pattern), key=rank)[:1]


def _place(entry: _dist_info.LibraryEntry, root: Path) -> tuple[Path, str]:
    if sys.platform == "win32":
        return root / entry.windows_relpath, entry.dll_pattern
    return root / entry.posix_relpath, entry.so_pattern


def _not_found(entry: _dist_info.LibraryEntry, root: Path) -> str:
    directory, pattern = _place(entry, root)
    return (
        f"Could not find rocm library '{entry.shortname}' at path '{directory},' "
        f"no match for pattern '{pattern}'"
    )


def _missing(packages: list[_dist_info.PackageEntry], shortnames: tuple[str, ...]) -> str:
    extras = [package.logical_name for package in packages if not package.required]
    names = ", ".join(repr(name) for name in shortnames)
    return (
        f"ROCm packages are missing for the libraries {names}. "
        f"Install them with: {_dist_info.install_command(*extras)}"
    )
