"""Reads the archive of the development files, and trusts nothing in it."""

from __future__ import annotations

import lzma
import shutil
import stat
import sys
import tarfile
from pathlib import Path
from typing import IO

from ._links import long
from ._manifest import Entry
from ._problem import DevelError

_BLOCK = 1 << 20


def unpack(archive: Path, root_name: str, tree: Path) -> list[Entry]:
    """Writes the directories and files of an archive below `tree`; links are only returned.

    Members may come in any order, and no file is ever written through a link.
    """
    entries: dict[str, Entry] = {}
    tree.mkdir()
    try:
        with _opened(archive) as raw, tarfile.open(fileobj=raw, mode="r:") as tar:
            for member in tar:
                entry = _entry(member, root_name)
                if entry is None:
                    continue
                if entry.path in entries and (entry.kind, entries[entry.path].kind) != ("d", "d"):
                    raise DevelError(f"{archive} holds {entry.path} twice")
                entries[entry.path] = entry
                if entry.kind == "d":
                    long(tree / entry.path).mkdir(parents=True, exist_ok=True)
                elif entry.kind == "f":
                    content = tar.extractfile(member)
                    assert content is not None, "a regular member has content"
                    _write(long(tree / entry.path), content, member)
            _check_end(raw, tar.offset)
        _check_ancestors(entries)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise DevelError(f"{archive} is damaged ({error}); reinstall rocm-sdk-devel") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise DevelError(f"{archive} uses a file as a directory: {error.filename}") from error
    return list(entries.values())


def parts(path: str) -> list[str] | None:
    """The components of a relative path that stays where it is; else `None`."""
    components = path.split("/")
    refused = "\\\0:" if sys.platform == "win32" else "\\\0"
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return None
    if any(part in ("", ".", "..") for part in components) or any(c in path for c in refused):
        return None
    return components


def _check_ancestors(entries: dict[str, Entry]) -> None:
    """Nothing may lie below a link or a file: it would be written somewhere else."""
    for path in entries:
        for end, character in enumerate(path):
            above = entries.get(path[:end]) if character == "/" else None
            if above is not None and above.kind != "d":
                raise DevelError(f"the archive uses {above.path} as a directory, which it is not")


def _entry(member: tarfile.TarInfo, root_name: str) -> Entry | None:
    """The member as an entry below the root; `None` for the root itself."""
    top, _, path = member.name.rstrip("/").partition("/")
    if top != root_name or (path and parts(path) is None):
        raise DevelError(f"a member lies outside of {root_name}: {member.name!r}")
    if not path:
        if member.isdir():
            return None
        raise DevelError(f"{root_name} is not a directory in its own archive")
    if member.isdir():
        return Entry(path, "d")
    if member.isreg():
        return Entry(path, "f", size=member.size)
    if member.issym():
        return Entry(path, "l", target=member.linkname)
    if member.islnk():
        up = "../" * path.count("/")
        return Entry(path, "l", target=up + member.linkname.removeprefix(f"{root_name}/"))
    raise DevelError(f"{member.name!r} is neither a file nor a link nor a directory")


def _write(path: Path, content: IO[bytes], member: tarfile.TarInfo) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as out:
        shutil.copyfileobj(content, out, _BLOCK)
    if member.mode & 0o111:
        mode = stat.S_IMODE(path.stat().st_mode)
        # Executable for whoever the umask lets read it.
        path.chmod(mode | (mode & 0o444) >> 2)


def _opened(archive: Path) -> IO[bytes]:
    return lzma.open(archive) if archive.suffix == ".xz" else open(archive, "rb")


def _check_end(content: IO[bytes], end: int) -> None:
    """An archive that was cut between two members looks whole but for its missing end.

    Reading to the very end also verifies the checksum of a compressed archive.
    """
    content.seek(end)
    zeros = 0
    while block := content.read(_BLOCK):
        if any(block):
            raise tarfile.ReadError("there is something behind its end")
        zeros += len(block)
    if zeros < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("its end is missing")
