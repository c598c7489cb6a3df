"""Unpacks the development files: all of them, or none that anybody can see.

They are unpacked into a work directory beside their final place, checked, and moved there in one
step; the archive is deleted last. RECORD lists the work directory before the first file is
written, and every file before the move. So a process may be killed at any point: what it leaves
is removed by the next attempt, or by uninstalling the package.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from . import _archive, _dist_info, _installed, _links, _manifest
from ._patience import rename
from ._problem import DevelError
from ._record import Record
from ._versions import same_release

_SCRATCH = "RECORD"


def expand(package: Path, root: Path, archives: list[Path]) -> None:
    """Unpacks `archives[0]` as `root`; the caller holds the lock."""
    site = package.parent
    if not archives:
        raise DevelError(
            f"Expected to find _devel.tar or _devel.tar.xz in {package}; reinstall rocm-sdk-devel"
        )
    record = _record(site)
    manifest = _manifest.load(package)
    if manifest is not None:
        _check_before(manifest, site)
    # Not an importable name, even half-way.
    work = site / f"{root.name}.part"
    _remove(work)
    work.mkdir()
    rows = record.rows
    try:
        record.remove(lambda path: path == work.name or path.startswith(f"{root.name}/"))
        record.add([work.name])
        record.save(work / _SCRATCH)
        tree = work / "tree"
        _unpack(archives[0], tree, root, manifest)
        record.add(f"{root.name}/{path}" for path in _links.recorded_paths(tree))
        record.save(work / _SCRATCH)
        if os.path.lexists(root):
            rename(root, work / "old")
        rename(tree, root)
        rows = record.rows
        _remove(work / "old")
        record.remove(lambda path: path == work.name)
        record.save(work / _SCRATCH)
        _remove(work)
        for archive in archives:
            archive.unlink()
    except BaseException:
        record.rows = rows
        _give_up(work, record, root)
        raise


def _unpack(archive: Path, tree: Path, root: Path, manifest: _manifest.Manifest | None) -> None:
    entries = _archive.unpack(archive, root.name, tree)
    if manifest is not None:
        _manifest.check(manifest, entries, archive)
    dangling = _links.place(tree, root, entries, strict=manifest is not None)
    for entry in entries:
        path = _links.long(tree / entry.path)
        there = (
            path.is_file() and path.stat().st_size == entry.size
            if entry.kind == "f"
            else path.is_dir()
            if entry.kind == "d"
            else os.path.lexists(path) or entry.path in dangling
        )
        if not there:
            raise DevelError(f"{entry.path} of {archive} did not reach the disk")
    if not (tree / "__init__.py").is_file():
        raise DevelError(f"{archive} holds no Python package; reinstall rocm-sdk-devel")


def _record(site: Path) -> Record:
    found = _installed.find(site, "rocm-sdk-devel")
    if found is None or not found.record.is_file():
        raise DevelError(
            f"rocm-sdk-devel in {site} has no RECORD, so its files are managed by the system. "
            "Install rocm[devel] in a virtual environment."
        )
    return Record(found.record)


def _check_before(manifest: _manifest.Manifest, site: Path) -> None:
    if not same_release(manifest.version, _dist_info.__version__):
        print(
            f"WARNING: the development files are of ROCm {manifest.version}, "
            f"the installed ROCm is {_dist_info.__version__}",
            file=sys.stderr,
        )
    free = shutil.disk_usage(site).free
    if free < manifest.bytes:
        raise DevelError(
            f"the development files take {manifest.bytes / 1e9:.1f} GB in {site}, "
            f"where {free / 1e9:.1f} GB are free"
        )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(_links.long(path))
    elif os.path.lexists(path):
        path.unlink()


def _give_up(work: Path, record: Record, root: Path) -> None:
    """Leaves nothing but the archive; if even that fails, RECORD still lists the rest."""
    try:
        if not os.path.lexists(root) and (work / "old").is_dir():
            rename(work / "old", root)
        record.remove(lambda path: path == work.name)
        if work.is_dir():
            record.save(work / _SCRATCH)
        _remove(work)
    except OSError as error:
        print(f"WARNING: could not tidy {work}: {error}", file=sys.stderr)
