"""`_devel_manifest.json`: what the development files are, to know that none is missing.

`{"version", "files", "links", "directories", "bytes", "sha256"}`: three counts, the total size of
the files, and the digest of one line per entry, sorted by path. A line is the kind (`f`, `l` or
`d`), the path below the root, and the size or the target of the link, with NUL between them and a
newline behind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ._problem import DevelError

FILE_NAME = "_devel_manifest.json"


class Entry(NamedTuple):
    """One member of the archive; the path is relative to the root of the development files."""

    path: str
    kind: str  # `f`: a file, `l`: a link, `d`: a directory
    size: int = 0
    target: str = ""

    @property
    def line(self) -> bytes:
        detail = {"f": str(self.size), "l": self.target}.get(self.kind, "")
        return f"{self.kind}\0{self.path}\0{detail}\n".encode("utf-8", "surrogateescape")


class Manifest(NamedTuple):
    version: str
    files: int
    links: int
    directories: int
    bytes: int
    sha256: str


def of(version: str, entries: Iterable[Entry]) -> Manifest:
    """The manifest of these entries."""
    ordered = sorted(entries, key=lambda entry: entry.path.encode("utf-8", "surrogateescape"))
    kinds = [entry.kind for entry in ordered]
    digest = hashlib.sha256()
    for entry in ordered:
        digest.update(entry.line)
    return Manifest(
        version=version,
        files=kinds.count("f"),
        links=kinds.count("l"),
        directories=kinds.count("d"),
        bytes=sum(entry.size for entry in ordered if entry.kind == "f"),
        sha256=digest.hexdigest(),
    )


def load(package: Path) -> Manifest | None:
    """The manifest of the installed package; builders before this one wrote none."""
    path = package / FILE_NAME
    try:
        facts = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DevelError(f"{path} is damaged; reinstall rocm-sdk-devel") from error
    try:
        return Manifest(**{name: facts[name] for name in Manifest._fields})
    except (KeyError, TypeError) as error:
        raise DevelError(f"{path} is damaged ({error!r}); reinstall rocm-sdk-devel") from error


def check(expected: Manifest, entries: Iterable[Entry], archive: Path) -> None:
    """Raises unless the entries are exactly those of the manifest."""
    found = of(expected.version, entries)
    if found == expected:
        return
    raise DevelError(
        f"{archive} does not hold what its manifest says: {found.files} files, {found.links} links "
        f"and {found.directories} directories, {found.bytes} bytes, instead of {expected.files}, "
        f"{expected.links} and {expected.directories}, {expected.bytes} bytes. "
        "Reinstall rocm-sdk-devel."
    )
