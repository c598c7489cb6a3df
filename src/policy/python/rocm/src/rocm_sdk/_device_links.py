"""Keeps the development files in step with the device packages, which come and go later.

A device package lists which of its files belong among the development files. Each becomes a
hard link there, recorded as the device package's own, so that uninstalling it removes them.
"""

from __future__ import annotations

import json
import os
import posixpath
import sys
from pathlib import Path
from typing import NamedTuple

from . import _dist_info, _links
from ._archive import parts
from ._installed import Installed, installed
from ._lock import exclusive
from ._record import Record
from ._versions import same_release

_PREFIX = "rocm-sdk-device"


class _Link(NamedTuple):
    source: Path
    dest: Path
    recorded: str  # the path of `dest` in RECORD


class _Device(NamedTuple):
    package: Installed
    links: list[_Link]


def reconcile(root: Path, lock: Path) -> int:
    """Makes what is missing and records it; returns how many links were made."""
    devices = _devices(root)
    if all(_is_settled(device, root) for device in devices):
        return 0
    with exclusive(lock):
        # Read again: whoever held the lock may have done it, or an installer was at work.
        return sum(_settle(device, root) for device in _devices(root))


def _devices(root: Path) -> list[_Device]:
    """The device packages of this version, with the links that are theirs."""
    devices: list[_Device] = []
    taken: set[Path] = set()
    for package in installed(root.parent):
        if package.name != _PREFIX and not package.name.startswith(f"{_PREFIX}-"):
            continue
        if not package.record.is_file():
            continue
        if not same_release(package.version, _dist_info.__version__):
            print(
                f"WARNING: skipping {package.name} {package.version}: "
                f"does not match rocm-sdk {_dist_info.__version__}",
                file=sys.stderr,
            )
            continue
        # A file that two packages share belongs to the first, and to the second after it.
        links = [link for link in _links_of(package, root) if link.dest not in taken]
        taken.update(link.dest for link in links)
        devices.append(_Device(package, links))
    return devices


def _links_of(package: Installed, root: Path) -> list[_Link]:
    site = root.parent
    links: dict[Path, _Link] = {}
    for path in Record(package.record).paths():
        if posixpath.basename(posixpath.dirname(path)) != ".devel_links":
            continue
        if not path.endswith(".json"):
            continue
        for relpath, target in _listed(site / path):
            link = checked(root, relpath, target)
            if link is not None and link.source.is_file():
                links[link.dest] = link
    return list(links.values())


def _listed(manifest: Path) -> list[tuple[str, str]]:
    try:
        facts = json.loads(manifest.read_bytes())
        return [(str(link["relpath"]), str(link["target"])) for link in facts["links"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        print(f"WARNING: ignoring {manifest}, which is damaged: {error!r}", file=sys.stderr)
        return []


def checked(root: Path, relpath: str, target: str) -> _Link | None:
    """The link if it leads from inside the root to another package of the same site."""
    dest = f"{root.name}/{relpath}"
    source = posixpath.normpath(posixpath.join(posixpath.dirname(dest), target))
    inside = source.startswith(f"{root.name}/")
    if parts(relpath) is None or parts(source) is None or inside or source.startswith("/"):
        print(f"WARNING: ignoring the link {relpath!r} to {target!r}", file=sys.stderr)
        return None
    return _Link(root.parent / source, root / relpath, dest)


def _is_settled(device: _Device, root: Path) -> bool:
    linked = all(_links.is_linked(link.source, link.dest) for link in device.links)
    return linked and not _correct(Record(device.package.record), device, root)


def _settle(device: _Device, root: Path) -> int:
    record = Record(device.package.record)
    if _correct(record, device, root):
        # First the record: a file that it lists and that is not there yet does no harm.
        record.save(root / ".RECORD.part")
    made = 0
    for link in device.links:
        if _links.is_linked(link.source, link.dest):
            continue
        dest = _links.long(link.dest)
        dest.parent.mkdir(parents=True, exist_ok=True)
        dest.unlink(missing_ok=True)
        _links.link_or_copy(link.source, link.dest)
        made += 1
    return made


def _correct(record: Record, device: _Device, root: Path) -> bool:
    """Makes the record list each link once, and nothing that is gone; tells if it did not."""
    before = list(record.rows)
    wanted = {link.recorded for link in device.links}

    def is_gone(path: str) -> bool:
        below = path.startswith(f"{root.name}/") and path not in wanted
        return below and not os.path.lexists(root.parent / path)

    record.unique()
    record.remove(is_gone)
    record.add(link.recorded for link in device.links)
    return record.rows != before
