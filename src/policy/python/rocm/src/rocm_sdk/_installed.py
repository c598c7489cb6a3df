"""The packages installed in one directory, read from the disk itself.

`importlib.metadata` remembers directory listings, in some versions of Python for ever, and would
miss a package that was installed while this process runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Installed(NamedTuple):
    """An installed package: its normal name, its version, and its `.dist-info` directory."""

    name: str
    version: str
    directory: Path

    @property
    def record(self) -> Path:
        return self.directory / "RECORD"


def installed(site: Path) -> list[Installed]:
    """What is installed in a directory, by name."""
    return sorted(_scan(site))


def find(site: Path, name: str) -> Installed | None:
    """The package of that name, the last installed one if an installer left an older one."""
    found = [package for package in _scan(site) if package.name == normal(name)]
    return max(found, key=_age, default=None)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _age(package: Installed) -> tuple[bool, int, str]:
    try:
        return True, package.record.stat().st_mtime_ns, package.version
    except OSError:
        return False, 0, package.version


def _scan(site: Path) -> Iterator[Installed]:
    for directory in site.glob("*.dist-info"):
        name, version = _header(directory)
        if name and not directory.name.startswith("~"):
            yield Installed(normal(name), version, directory)


def _header(directory: Path) -> tuple[str, str]:
    """Name and version as METADATA has them, or else as the directory has them."""
    name, _, version = directory.name.removesuffix(".dist-info").partition("-")
    try:
        text = (directory / "METADATA").read_text("utf-8", errors="replace")
    except OSError:
        return name, version
    for line in text.splitlines():
        if not line:
            break
        key, _, value = line.partition(":")
        if key.lower() == "name":
            name = value.strip()
        elif key.lower() == "version":
            version = value.strip()
    return name, version
