"""Where the development files are; unpacks them on first use.

The files are there completely or not at all: `_expand` says how. `rocm_sdk_devel/_devel.tar`
stays until everything is in place, so its presence means that there is work to do.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from . import _device_links, _dist_info, _expand
from ._lock import exclusive
from ._problem import DevelError, explained

_TARBALLS = ("_devel.tar.xz", "_devel.tar")


def get_devel_root() -> Path:
    """The root of the development files, complete and with the files of all device packages.

    Raises `ModuleNotFoundError` when they are not installed, and `DevelError`, an `ImportError`,
    when they cannot be unpacked. Any number of processes may call it at once.
    """
    package, root = _places()
    # The package's own file is the lock: nothing has to be created, and nothing is left behind.
    lock = package / "__init__.py"
    with explained(f"unpack the development files into {root}", package.parent):
        if not is_expanded(package, root):
            with exclusive(lock):
                # Another process may have done it in the meantime.
                if not is_expanded(package, root):
                    _expand.expand(package, root, _tarballs(package))
        _device_links.reconcile(root, lock)
    importlib.invalidate_caches()
    return root


def has_expanded() -> bool:
    """Whether there is nothing to unpack. Raises `ModuleNotFoundError` like `get_devel_root`."""
    return is_expanded(*_places())


def is_expanded(package: Path, root: Path) -> bool:
    """Whether the development files are in place, all of them."""
    return not _tarballs(package) and (root / "__init__.py").is_file()


def _tarballs(package: Path) -> list[Path]:
    return [package / name for name in _TARBALLS if (package / name).exists()]


def _places() -> tuple[Path, Path]:
    package = _package_directory()
    return package, package.parent / _dist_info.ALL_PACKAGES["devel"].get_py_package_name()


def _package_directory() -> Path:
    entry = _dist_info.ALL_PACKAGES["devel"]
    name = entry.pure_py_package_name
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "the development files are not installed; install them with: "
            f"{_dist_info.install_command('devel')}",
            name=name,
        )
    # Not resolved: an installer may have put links to its cache in place of files.
    return Path(spec.origin).absolute().parent


__all__ = ["DevelError", "get_devel_root", "has_expanded", "is_expanded"]
