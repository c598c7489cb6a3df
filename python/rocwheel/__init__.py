"""Finds the program `rocwheel` that this package installs."""

from __future__ import annotations

import sys
import sysconfig
from importlib import metadata
from pathlib import Path

__all__ = ["find_program"]


def find_program() -> str:
    """The path of the program. Raises `FileNotFoundError` if it is not where installers put it."""
    name = "rocwheel.exe" if sys.platform == "win32" else "rocwheel"
    tried = []
    for path in _candidates(name):
        if path.is_file():
            return str(path)
        tried.append(str(path))
    message = f"no program `{name}`: install the package again; looked for {', '.join(tried)}"
    raise FileNotFoundError(message)


def _candidates(name: str) -> list[Path]:
    package = Path(__file__).resolve().parent
    # What the installer wrote down: right in environments, below `--user` and below `--prefix`.
    try:
        files = metadata.distribution("rocwheel").files or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())).resolve() for file in files if file.name == name]
    # `pip install --target` moves the program afterwards.
    found += [package.parent / folder / name for folder in ("bin", "Scripts")]
    return [*found, Path(sysconfig.get_path("scripts")) / name]
