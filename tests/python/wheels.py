"""Wheels made by hand, for installers and for trees that look installed."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import shutil
import zipfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Wheel:
    name: str
    version: str
    files: dict[str, bytes]
    executables: set[str] = field(default_factory=set)
    requires: list[str] = field(default_factory=list)
    scripts: dict[str, str] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        return f"{self.name.replace('-', '_').lower()}-{self.version}"

    @property
    def dist_info(self) -> str:
        return f"{self.stem}.dist-info"

    def members(self) -> dict[str, bytes]:
        lines = ["Metadata-Version: 2.4", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in self.requires]
        members = dict(self.files)
        members[f"{self.dist_info}/METADATA"] = ("\n".join(lines) + "\n").encode()
        members[f"{self.dist_info}/WHEEL"] = (
            b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        if self.scripts:
            text = "".join(f"{name} = {call}\n" for name, call in self.scripts.items())
            members[f"{self.dist_info}/entry_points.txt"] = f"[console_scripts]\n{text}".encode()
        record = io.StringIO(newline="")
        rows = csv.writer(record, lineterminator="\n")
        for name, data in members.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            rows.writerow([name, f"sha256={digest.decode()}", len(data)])
        rows.writerow([f"{self.dist_info}/RECORD", "", ""])
        members[f"{self.dist_info}/RECORD"] = record.getvalue().encode()
        return members

    def write(self, directory: Path) -> Path:
        path = directory / f"{self.stem}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in self.members().items():
                member = zipfile.ZipInfo(name)
                member.external_attr = (0o100755 if name in self.executables else 0o100644) << 16
                archive.writestr(member, data)
        return path

    def unpack(self, site: Path) -> None:
        """What an installer leaves, without the installer."""
        for name, data in self.members().items():
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            if name in self.executables:
                path.chmod(0o755)


def recorded(site: Path, name: str) -> list[str]:
    """The paths in the RECORD of an installed package."""
    with open(record_of(site, name), newline="", encoding="utf-8") as file:
        return [row[0] for row in csv.reader(file) if row]


def record_of(site: Path, name: str) -> Path:
    (directory,) = site.glob(f"{name.replace('-', '_').lower()}-*.dist-info")
    return directory / "RECORD"


def uninstall(site: Path, name: str) -> None:
    """What an uninstaller does: removes what RECORD lists, then directories left empty."""
    parents: set[Path] = set()
    for path in recorded(site, name):
        target = site / path
        parents.update(parent for parent in target.parents if site in parent.parents)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        elif os.path.lexists(target):
            target.unlink()
    for parent in sorted(parents, key=lambda path: len(path.parts), reverse=True):
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
