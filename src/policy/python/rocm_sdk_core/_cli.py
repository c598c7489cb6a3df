"""Console scripts: each becomes the program of the same name in the installed ROCm.

The functions that follow this text are generated from the scripts of the package.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from . import _dist_info

_TARBALLS = ("_devel.tar.xz", "_devel.tar")


def _run(relpath: str) -> NoReturn:
    """Becomes a program that may need the development files, unpacking them first."""
    package = _devel_package()
    if package is None:
        _become(_core_root() / relpath)
    if not _is_expanded(package):
        _expand()
    _become(_devel_root(package) / relpath)


def _query(relpath: str) -> NoReturn:
    """Becomes a program that only asks about the machine, and never unpacks anything."""
    package = _devel_package()
    expanded = package is not None and _is_expanded(package)
    root = _devel_root(package) if package is not None and expanded else _core_root()
    _become(root / relpath)


def _core_root() -> Path:
    name = _dist_info.ALL_PACKAGES["core"].get_py_package_name()
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        _fail(f"the package {name} is not installed; reinstall rocm-sdk-core")
    return Path(next(iter(spec.submodule_search_locations)))


def _devel_package() -> Path | None:
    """The directory of `rocm_sdk_devel`, when it is installed."""
    name = _dist_info.ALL_PACKAGES["devel"].pure_py_package_name
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        _warn(f"cannot look for {name} ({error}); falling back to core.")
        return None
    if spec is None:
        return None
    if spec.origin is None:
        _warn(f"{name} is only a left-over directory; falling back to core.")
        return None
    return Path(spec.origin).parent


def _devel_root(package: Path) -> Path:
    return package.parent / _dist_info.ALL_PACKAGES["devel"].get_py_package_name()


def _is_expanded(package: Path) -> bool:
    # The tarball goes last: while it is there, the tree may be incomplete.
    waiting = any((package / name).exists() for name in _TARBALLS)
    return not waiting and (_devel_root(package) / "__init__.py").is_file()


def _expand() -> None:
    command = [sys.executable, "-m", "rocm_sdk", "init", "--quiet"]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        _fail(
            "Failed to expand rocm[devel] package. "
            f"Run `{sys.executable} -m rocm_sdk init` to see why."
        )


def _become(program: Path) -> NoReturn:
    arguments = sys.argv[1:]
    if sys.platform == "win32":
        program = program.with_name(program.name + ".exe")
        sys.exit(_run_child([str(program), *arguments]))
    try:
        os.execv(program, [str(program), *arguments])
    except OSError as error:
        _fail(f"cannot run {program}: {error.strerror}")


def _run_child(command: list[str]) -> int:
    """Runs a child in the foreground; it gets Ctrl-C too and decides how to end."""
    # An exception in the middle of `wait` could lose the exit code. A handler, other than
    # ignoring, is not what the child starts with.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.Popen(command).wait()
    except OSError as error:
        _fail(f"cannot run {command[0]}: {error.strerror}")


def _warn(message: str) -> None:
    print(f"WARNING: {message}", file=sys.stderr)


def _fail(message: str) -> NoReturn:
    print(f"ERROR: {message}", file=sys.stderr)
    sys.exit(1)
