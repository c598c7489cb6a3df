"""Archives that are broken, or mean harm."""

from __future__ import annotations

import io
import lzma
import os
import tarfile
from pathlib import Path

import pytest
from sdk import ROOT, module

archive_module = module("_archive")
problem = module("_problem")
INIT = ("__init__.py", tarfile.REGTYPE, b"")


def member(name: str, kind: bytes, content: bytes | str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = 0o7777
    data = content if isinstance(content, bytes) else b""
    info.size = len(data)
    if isinstance(content, str):
        info.linkname = content
    return info, data


def tar(path: Path, *members: tuple[str, bytes, bytes | str]) -> Path:
    with tarfile.open(path, "w") as out:
        for name, kind, content in members:
            info, data = member(name, kind, content)
            out.addfile(info, io.BytesIO(data))
    return path


def unpack(path: Path) -> list[object]:
    tree = path.parent / "tree"
    entries = archive_module.unpack(path, ROOT, tree)
    assert isinstance(entries, list)
    return entries


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "other/file",
        f"{ROOT}/../file",
        f"{ROOT}/a/../../file",
        f"{ROOT}//a",
        f"{ROOT}/./a",
        f"{ROOT}/a\\b",
        "../file",
        f"{ROOT}x/file",
    ],
)
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE])
def test_a_member_that_lies_elsewhere_is_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    path = tar(tmp_path / "a.tar", (name, kind, b"" if kind != tarfile.SYMTYPE else "x"))
    with pytest.raises(problem.DevelError, match="outside of _rocm_sdk_devel"):
        unpack(path)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.tar", "tree"]


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", (f"{ROOT}/\udcff", tarfile.REGTYPE, b""))
    with pytest.raises(problem.DevelError, match="outside of"):
        unpack(path)


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(tmp_path: Path, kind: bytes) -> None:
    path = tar(tmp_path / "a.tar", (f"{ROOT}/x", kind, b""))
    with pytest.raises(problem.DevelError, match="neither a file nor a link nor a directory"):
        unpack(path)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for order in (0, 1):
        members: list[tuple[str, bytes, bytes | str]] = [
            (f"{ROOT}/lib", tarfile.SYMTYPE, str(outside)),
            (f"{ROOT}/lib/x", tarfile.REGTYPE, b"evil"),
        ]
        path = tar(tmp_path / f"{order}.tar", *(members[::-1] if order else members))
        with pytest.raises(problem.DevelError, match="lib as a directory, which it is not"):
            archive_module.unpack(path, ROOT, tmp_path / f"tree{order}")
    path = tar(
        tmp_path / "links.tar",
        (f"{ROOT}/lib", tarfile.SYMTYPE, str(outside)),
        (f"{ROOT}/lib/x", tarfile.SYMTYPE, "y"),
    )
    with pytest.raises(problem.DevelError, match="lib as a directory"):
        archive_module.unpack(path, ROOT, tmp_path / "tree2")
    assert list(outside.iterdir()) == []


def test_a_file_used_as_a_directory_is_refused(tmp_path: Path) -> None:
    path = tar(
        tmp_path / "a.tar",
        (f"{ROOT}/lib", tarfile.REGTYPE, b"x"),
        (f"{ROOT}/lib/x", tarfile.REGTYPE, b"x"),
    )
    with pytest.raises(problem.DevelError, match="uses a file as a directory"):
        unpack(path)


def test_a_member_that_comes_twice_is_refused(tmp_path: Path) -> None:
    one = (f"{ROOT}/x", tarfile.REGTYPE, b"1")
    with pytest.raises(problem.DevelError, match="holds x twice"):
        unpack(tar(tmp_path / "a.tar", one, one))


def test_a_directory_may_come_twice(tmp_path: Path) -> None:
    one = (f"{ROOT}/x", tarfile.DIRTYPE, b"")
    assert len(unpack(tar(tmp_path / "a.tar", one, one))) == 1


@pytest.mark.posix
def test_special_mode_bits_do_not_reach_the_disk(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        unpack(tar(tmp_path / "a.tar", (f"{ROOT}/x", tarfile.REGTYPE, b"1")))
    finally:
        os.umask(old)
    assert (tmp_path / "tree/x").stat().st_mode & 0o7777 == 0o755


@pytest.mark.posix
def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        unpack(tar(tmp_path / "a.tar", (f"{ROOT}/x", tarfile.REGTYPE, b"1")))
    finally:
        os.umask(old)
    assert (tmp_path / "tree/x").stat().st_mode & 0o7777 == 0o700


def test_a_hard_link_member_is_a_link_and_not_lost(tmp_path: Path) -> None:
    path = tar(
        tmp_path / "a.tar",
        (f"{ROOT}/lib/x", tarfile.REGTYPE, b"1"),
        (f"{ROOT}/bin/y", tarfile.LNKTYPE, f"{ROOT}/lib/x"),
    )
    entries = unpack(path)
    assert [(entry.path, entry.kind, entry.target) for entry in entries][1] == (  # type: ignore[attr-defined]
        "bin/y",
        "l",
        "../lib/x",
    )


@pytest.mark.parametrize("data", [b"", b"x" * 2000, b"\x1f\x8b" + b"x" * 2000])
def test_what_is_no_archive_is_called_damaged(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(data)
    with pytest.raises(problem.DevelError, match="is damaged"):
        unpack(path)


def test_a_compressed_archive_that_is_cut_is_called_damaged(tmp_path: Path) -> None:
    whole = lzma.compress(
        tar(tmp_path / "a.tar", (f"{ROOT}/x", tarfile.REGTYPE, b"1")).read_bytes()
    )
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path = tmp_path / f"{size}.tar.xz"
        path.write_bytes(whole[:size])
        with pytest.raises(problem.DevelError, match="is damaged"):
            archive_module.unpack(path, ROOT, tmp_path / f"tree{size}")
