"""What the tests share: where things are, and how to run programs without hanging."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .. import _dist_info, _installed
from .._libraries import package_root

WINDOWS = sys.platform == "win32"
TIMEOUT_SECONDS = 300
# The libraries of the runtime. Windows finds a DLL of another package only once it is loaded.
_RUNTIME = ("amd_comgr", "amdhip64", "hiprtc", "rocm_kpack")
SITE = Path(__file__).absolute().parents[2]


class Options:
    """What `rocm-sdk test` was asked for."""

    gpu = False


class Ran(NamedTuple):
    """How a program ended, and all that it said."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


def root_of(logical_name: str) -> Path | None:
    """The directory of a package's files, when it is installed."""
    try:
        return package_root(_dist_info.ALL_PACKAGES[logical_name])
    except (KeyError, ValueError):
        # A package for one target, and no target fits this machine.
        return None


def dist_of(logical_name: str) -> _installed.Installed | None:
    package = _dist_info.ALL_PACKAGES.get(logical_name)
    if package is None:
        return None
    try:
        target = _dist_info.determine_target_family() if package.is_target_specific else None
    except ValueError:
        return None
    return _installed.find(SITE, package.get_dist_package_name(target))


def is_installed(logical_name: str) -> bool:
    """Not a matter of directories: uninstallers leave empty ones."""
    return dist_of(logical_name) is not None


def runtime() -> list[str]:
    """The short names of the runtime's libraries, as far as this build has them."""
    return [name for name in _RUNTIME if name in _dist_info.ALL_LIBRARIES]


def devices() -> list[_installed.Installed]:
    """The installed packages of device code."""
    return [
        package
        for package in _installed.installed(SITE)
        if package.name.startswith("rocm-sdk-device-")
    ]


def run(
    command: list[str], env: Mapping[str, str | None] | None = None, timeout: int = TIMEOUT_SECONDS
) -> Ran:
    """Runs a program without input; a program that hangs has failed."""
    environment = dict(os.environ)
    for name, value in (env or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(-1, "", f"{command[0]} did not end within {timeout} seconds")
    except OSError as error:
        return Ran(-1, "", f"{command[0]} could not be started: {error}")
    return Ran(result.returncode, result.stdout, result.stderr)


def run_python(code: str, *arguments: str, env: Mapping[str, str | None] | None = None) -> Ran:
    return run([sys.executable, "-c", code, *arguments], env)


def run_cli(*arguments: str) -> Ran:
    return run([sys.executable, "-m", "rocm_sdk", *arguments])


def console_scripts(logical_name: str) -> dict[str, str]:
    """The commands that a package installed, and the functions behind them."""
    package = dist_of(logical_name)
    if package is None:
        return {}
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(package.directory / "entry_points.txt", encoding="utf-8")
    return dict(parser["console_scripts"]) if "console_scripts" in parser else {}


def console_script(name: str) -> Path | None:
    """The installed file of a command."""
    user = sysconfig.get_path("scripts", "nt_user" if WINDOWS else "posix_user")
    for directory in (sysconfig.get_path("scripts"), user):
        # Not `with_suffix`: a name may have a dot in it.
        path = Path(directory) / (f"{name}.exe" if WINDOWS else name)
        if path.is_file():
            return path
    return None


def holds(entry: _dist_info.FileEntry) -> bool:
    """Whether the package of a file has it."""
    root = root_of(entry.package.logical_name)
    suffix = ".exe" if WINDOWS and entry.command is not None else ""
    return root is not None and any(root.glob(entry.relpath + suffix))


def shared_libraries(root: Path, skipped: Iterable[str] = ()) -> tuple[list[Path], list[Path]]:
    """The libraries below a directory that load by themselves, and those that do not."""
    patterns = ("**/*.dll",) if WINDOWS else ("**/*.so.*", "**/*.so")
    found = sorted({path for pattern in patterns for path in root.glob(pattern)})
    load: list[Path] = []
    leave: list[Path] = []
    for path in found:
        text = path.relative_to(root).as_posix()
        (leave if any(part in text for part in skipped) else load).append(path)
    return load, leave


_LOAD = """
import ctypes, os, sys
import rocm_sdk
for name in filter(None, sys.argv[2].split(",")):
    try:
        rocm_sdk.preload_libraries(name)
    except FileNotFoundError:
        pass
for directory in sys.argv[3:]:
    os.add_dll_directory(directory)
ctypes.CDLL(sys.argv[1])
"""


def load_all(
    libraries: Iterable[Path],
    preload: Iterable[str] = (),
    dll_directories: Callable[[Path], list[Path]] = lambda _: [],
) -> dict[Path, str]:
    """Loads each library in a process of its own; returns what those that failed said."""

    def load(path: Path) -> tuple[Path, Ran]:
        directories = [str(directory) for directory in dll_directories(path)]
        return path, run_python(_LOAD, str(path), ",".join(preload), *directories)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return {
            path: ran.err.strip() or f"exit code {ran.code}"
            for path, ran in pool.map(load, libraries)
            if ran.code != 0
        }


def shown(failures: Mapping[Path, str], root: Path) -> str:
    """What failed, one line each."""
    lines = [
        f"  {path.relative_to(root).as_posix()}: {text.splitlines()[-1]}"
        for path, text in failures.items()
    ]
    return "\n".join([f"{len(failures)} of the libraries in {root} do not load:", *lines])
