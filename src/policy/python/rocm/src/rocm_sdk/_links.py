"""Puts the links of the development files in place, whatever the file system can do.

A link to a file of another package becomes a hard link: programs that look for themselves find
the development files, and Windows needs no privilege. A link between development files stays a
link, so that a program behind it is found at its own depth, where its library paths are right.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import _dist_info
from ._manifest import Entry
from ._problem import DevelError


def place(tree: Path, root: Path, entries: Iterable[Entry], *, strict: bool) -> set[str]:
    """Makes all links of the entries in `tree`, which will become `root`.

    Returns the paths of links to nothing that this system could not make. With `strict`, links
    to other packages must lead to something.
    """
    missing: list[str] = []
    inner: dict[str, str] = {}
    for entry in entries:
        if entry.kind != "l":
            continue
        place_in_site = posixpath.normpath(
            posixpath.join(root.name, posixpath.dirname(entry.path), entry.target)
        )
        dest = tree / entry.path
        long(dest.parent).mkdir(parents=True, exist_ok=True)
        if place_in_site.startswith(f"{root.name}/"):
            if not _symlink(entry.target, dest):
                inner[entry.path] = place_in_site.removeprefix(f"{root.name}/")
        elif _is_outside(place_in_site):
            if not _symlink(entry.target, dest):
                raise DevelError(f"cannot make the link {dest} to {entry.target}")
        elif os.path.isfile(long(root.parent / place_in_site)):
            link_or_copy(root.parent / place_in_site, dest)
        elif os.path.isdir(long(root.parent / place_in_site)) and _symlink(entry.target, dest):
            pass
        elif strict or not _symlink(entry.target, dest):
            missing.append(place_in_site)
    if missing:
        raise DevelError(_missing(missing))
    return _mirror(tree, inner)


def link_or_copy(source: Path, dest: Path) -> None:
    """Makes `dest` the same file as `source`, or where that is impossible an equal one."""
    # Installers may have put links to their cache in place of files.
    real = long(Path(os.path.realpath(source)))
    try:
        os.link(real, long(dest))
    except FileExistsError:
        raise
    except OSError:
        shutil.copy2(real, long(dest))


def is_linked(source: Path, dest: Path) -> bool:
    """Whether `link_or_copy` has been done, and holds."""
    try:
        if dest.is_symlink():
            return False
        one, other = long(source).stat(), long(dest).stat()
    except OSError:
        return False
    return os.path.samestat(one, other) or (one.st_size, one.st_mtime_ns) == (
        other.st_size,
        other.st_mtime_ns,
    )


def recorded_paths(tree: Path) -> Iterator[str]:
    """What RECORD has to list of a tree: files, links, and directories that hold nothing."""
    for top, directories, files in os.walk(long(tree)):
        directories.sort()
        below = os.path.relpath(top, long(tree)).replace(os.sep, "/")
        prefix = "" if below == "." else f"{below}/"
        names = files + [name for name in directories if os.path.islink(os.path.join(top, name))]
        yield from (prefix + name for name in sorted(names))
        if prefix and not directories and not files:
            yield below


def long(path: Path) -> Path:
    """The path in the form that Windows reads beyond 260 characters."""
    if sys.platform != "win32":
        return path
    text = os.path.abspath(path)
    return Path(text if text.startswith("\\\\") else f"\\\\?\\{text}")


def _is_outside(place_in_site: str) -> bool:
    return place_in_site.startswith(("../", "/")) or place_in_site in ("..", ".")


def _symlink(target: str, dest: Path) -> bool:
    """Whether a symbolic link could be made; on Windows none is, as few users may."""
    if sys.platform == "win32":
        return False
    try:
        os.symlink(target, dest)
    except FileExistsError as error:
        raise DevelError(f"the archive uses {dest} as a link and as a directory") from error
    except OSError:
        return False
    return True


def _mirror(tree: Path, links: dict[str, str]) -> set[str]:
    """Makes links inside of the tree without symbolic links; returns those that lead nowhere.

    Links to directories become directories of hard links, once their targets are complete.
    """
    pending = dict(links)
    while pending:
        done = [path for path in sorted(pending) if _mirror_one(tree, path, pending)]
        if not done:
            return set(pending)
        for path in done:
            del pending[path]
    return set()


def _mirror_one(tree: Path, path: str, pending: dict[str, str]) -> bool:
    target = pending[path]
    source, dest = long(tree / target), long(tree / path)
    if source.is_file():
        link_or_copy(source, dest)
        return True
    waits = any(other.startswith(f"{target}/") for other in pending)
    if not source.is_dir() or waits or path.startswith(f"{target}/"):
        return False
    shutil.copytree(
        source, dest, copy_function=lambda one, other: link_or_copy(Path(one), Path(other))
    )
    return True


def _missing(places: list[str]) -> str:
    packages = sorted({place.split("/", 1)[0] for place in places})
    names = " and ".join(name.lstrip("_").replace("_", "-") for name in packages)
    return (
        f"{len(places)} development files belong to {names} but are not there, for example "
        f"{places[0]}. Install or reinstall the same version of {names}, "
        f"such as with: {_dist_info.install_command('libraries', 'devel')}"
    )
