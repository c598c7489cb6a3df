"""Unpacking the development files: complete, recorded, or not at all."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest
from conftest import Importer
from sdk import ROOT, SONAME, Archive, Sdk, rocm_sdk, run
from wheels import record_of, recorded, uninstall


def expand(load: Importer) -> Path:
    root = load("rocm_sdk._devel").get_devel_root()
    assert isinstance(root, Path)
    return root


def test_everything_is_in_place_and_the_archive_is_gone(installed: Path, load: Importer) -> None:
    root = expand(load)
    assert root == installed / ROOT
    assert (root / "include/hip/hip_runtime.h").read_bytes() == b"#pragma once\n"
    assert (root / "empty").is_dir()
    assert os.access(root / "bin/rocprof", os.X_OK)
    assert not (installed / "rocm_sdk_devel/_devel.tar").exists()
    assert sorted(path.name for path in installed.glob("*.part")) == []


def test_files_of_other_packages_are_hard_links(installed: Path, load: Importer) -> None:
    root = expand(load)
    for mine, other in (
        (f"lib/{SONAME}", f"_rocm_sdk_core/lib/{SONAME}"),
        ("lib/librocblas.so.5", "_rocm_sdk_libraries/lib/librocblas.so.5"),
        ("bin/hipcc", "_rocm_sdk_core/bin/hipcc"),
    ):
        assert not (root / mine).is_symlink()
        assert (root / mine).samefile(installed / other)


@pytest.mark.posix
def test_links_between_development_files_stay_links(installed: Path, load: Importer) -> None:
    # A hard link in `bin` to a program below `lib/llvm/bin` finds its libraries one level off.
    root = expand(load)
    assert os.readlink(root / "bin/offload-arch") == "../lib/llvm/bin/offload-arch"
    assert os.readlink(root / "bin/amdclang") == "../lib/llvm/bin/amdclang"
    assert os.readlink(root / "lib/libamdhip64.so") == SONAME
    assert (root / "llvm/bin/amdclang").samefile(root / "lib/llvm/bin/amdclang")


@pytest.mark.posix
def test_the_order_of_the_archive_does_not_matter(installed: Path, load: Importer) -> None:
    archive = Archive.usual(Sdk())
    archive.entries.reverse()
    Sdk().devel(archive).unpack(installed)
    root = expand(load)
    assert os.readlink(root / "lib/libamdhip64.so") == SONAME
    assert (root / "lib/cmake/hip/hip-config.cmake").is_file()
    assert (root / "lib/librocblas.so.5").samefile(
        installed / "_rocm_sdk_libraries/lib/librocblas.so.5"
    )


@pytest.mark.posix
def test_every_file_is_recorded_once_and_uninstalling_leaves_nothing(
    installed: Path, load: Importer
) -> None:
    root = expand(load)
    rows = recorded(installed, "rocm-sdk-devel")
    assert len(rows) == len(set(rows))
    files = [
        path.relative_to(installed).as_posix()
        for path in root.rglob("*")
        if path.is_symlink() or not path.is_dir()
    ]
    device = f"{ROOT}/lib/rocblas/library/gfx942.co"
    # A walk follows `llvm` in old versions of Python, which RECORD must not.
    mine = {path for path in files if not path.startswith(f"{ROOT}/llvm/")} - {device}
    assert mine | {f"{ROOT}/empty"} == {row for row in rows if row.startswith(f"{ROOT}/")}
    uninstall(installed, "rocm-sdk-device-gfx942")
    uninstall(installed, "rocm-sdk-devel")
    assert not root.exists()
    assert not (installed / "rocm_sdk_devel").exists()


def test_a_second_call_changes_nothing(installed: Path, load: Importer) -> None:
    expand(load)
    record = record_of(installed, "rocm-sdk-devel")
    before = (record.read_bytes(), record.stat().st_ino, (installed / ROOT).stat().st_ino)
    expand(load)
    assert before == (record.read_bytes(), record.stat().st_ino, (installed / ROOT).stat().st_ino)


def test_a_compressed_archive_works_too(installed: Path, load: Importer) -> None:
    archive = Archive.usual(Sdk())
    archive.name = "_devel.tar.xz"
    (installed / "rocm_sdk_devel/_devel.tar").unlink()
    Sdk().devel(archive).unpack(installed)
    assert (expand(load) / "bin/hipcc").is_file()


def test_a_nonce_reaches_every_name(site: Path, load: Importer) -> None:
    Sdk(nonce="_v1").install(site, "gfx942")
    root = expand(load)
    assert root.name == f"{ROOT}_v1"
    assert (root / "lib/rocblas/library/gfx942.co").is_file()


def test_reinstalling_after_uninstalling_expands_again(installed: Path, load: Importer) -> None:
    root = expand(load)
    # Python leaves compiled files beside the recorded ones, so the directory survives.
    (root / "__pycache__").mkdir()
    (root / "__pycache__/x.pyc").touch()
    uninstall(installed, "rocm-sdk-devel")
    assert root.is_dir()
    Sdk().devel().unpack(installed)
    assert not load("rocm_sdk._devel").is_expanded(installed / "rocm_sdk_devel", root)
    assert (expand(load) / "include/hip/hip_runtime.h").is_file()
    assert not (root / "__pycache__").exists()


def test_a_file_that_was_left_in_the_way_is_replaced(installed: Path, load: Importer) -> None:
    (installed / ROOT).write_text("left over")
    (installed / f"{ROOT}.part").write_text("left over")
    assert (expand(load) / "bin/hipcc").is_file()


def test_without_hard_links_files_are_copied(
    installed: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    root = expand(load)
    hip = root / f"lib/{SONAME}"
    assert hip.read_bytes() == b"hip"
    assert not hip.samefile(installed / f"_rocm_sdk_core/lib/{SONAME}")
    assert os.access(root / "bin/hipcc", os.X_OK)
    assert (root / "lib/rocblas/library/gfx942.co").is_file()
    # A copy counts as settled: the next call has nothing to do.
    assert load("rocm_sdk._device_links").reconcile(root, installed / "nowhere") == 0


def test_without_symbolic_links_the_tree_is_still_complete(
    installed: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "A required privilege is not held by the client")

    monkeypatch.setattr(os, "symlink", refuse)
    root = expand(load)
    assert (root / "lib/libamdhip64.so").samefile(root / f"lib/{SONAME}")
    assert (root / "llvm/bin/amdclang").samefile(root / "lib/llvm/bin/amdclang")
    assert not any(path.is_symlink() for path in root.rglob("*"))
    rows = set(recorded(installed, "rocm-sdk-devel"))
    assert f"{ROOT}/llvm/bin/amdclang" in rows
    uninstall(installed, "rocm-sdk-device-gfx942")
    uninstall(installed, "rocm-sdk-devel")
    assert not root.exists()


def test_missing_libraries_are_named_and_nothing_is_left(installed: Path, load: Importer) -> None:
    uninstall(installed, "rocm-sdk-libraries")
    before = record_of(installed, "rocm-sdk-devel").read_bytes()
    with pytest.raises(ImportError, match="1 development files belong to rocm-sdk-libraries"):
        expand(load)
    assert not (installed / ROOT).exists()
    assert not list(installed.glob("*.part"))
    assert (installed / "rocm_sdk_devel/_devel.tar").is_file()
    assert record_of(installed, "rocm-sdk-devel").read_bytes() == before


@pytest.mark.posix
def test_an_archive_of_another_builder_keeps_links_to_what_is_missing(
    installed: Path, load: Importer
) -> None:
    archive = Archive.usual(Sdk())
    archive.has_manifest = False
    archive.entries.append(("lib/gone.so", "../../_rocm_sdk_core/lib/gone.so"))
    (installed / "rocm_sdk_devel/_devel_manifest.json").unlink()
    Sdk().devel(archive).unpack(installed)
    assert (expand(load) / "lib/gone.so").is_symlink()


@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_truncated_archive_is_never_reported_as_ready(
    site: Path, load: Importer, has_manifest: bool
) -> None:
    archive = Archive.usual(Sdk())
    archive.has_manifest = has_manifest
    for wheel in (Sdk().rocm(), Sdk().core(), Sdk().libraries(), Sdk().devel(archive)):
        wheel.unpack(site)
    tarball = site / "rocm_sdk_devel/_devel.tar"
    whole = archive.data()
    content_end = len(whole.rstrip(b"\0"))
    for size in range(0, content_end, 512):
        tarball.write_bytes(whole[:size])
        with pytest.raises(ImportError):
            expand(load)
        assert not (site / ROOT).exists()
        assert tarball.exists()
    tarball.write_bytes(whole)
    assert (expand(load) / "bin/hipcc").is_file()


def test_an_archive_that_lacks_what_the_manifest_lists_is_refused(
    installed: Path, load: Importer
) -> None:
    # Some 95 of 7,000 files once passed for a whole tree.
    archive = Archive.usual(Sdk())
    archive.entries = archive.entries[:5]
    (installed / "rocm_sdk_devel/_devel.tar").write_bytes(archive.data())
    with pytest.raises(ImportError, match="does not hold what its manifest says: 1 files, 0 links"):
        expand(load)
    assert not (installed / ROOT).exists()


def test_a_tree_without_its_package_file_is_refused(installed: Path, load: Importer) -> None:
    archive = Archive([("include", None)], has_manifest=False)
    (installed / "rocm_sdk_devel/_devel_manifest.json").unlink()
    Sdk().devel(archive).unpack(installed)
    with pytest.raises(ImportError, match="holds no Python package"):
        expand(load)


def test_a_damaged_tree_without_an_archive_has_to_be_reinstalled(
    installed: Path, load: Importer
) -> None:
    (expand(load) / "__init__.py").unlink()
    with pytest.raises(ImportError, match=r"Expected to find _devel\.tar or _devel\.tar\.xz in"):
        expand(load)
    Sdk().devel().unpack(installed)
    assert (expand(load) / "__init__.py").is_file()


@pytest.mark.posix
def test_a_failure_at_the_last_moment_leaves_record_and_old_tree_as_they_were(
    installed: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = installed / ROOT / "old"
    old.parent.mkdir()
    old.touch()
    record = record_of(installed, "rocm-sdk-devel")
    record.write_text(record.read_text() + f"{ROOT}/old,,\n")
    before = record.read_bytes()
    module = load("rocm_sdk._expand")
    real = module.rename

    def refuse(source: Path, target: Path) -> None:
        if source.name == "tree":
            raise PermissionError(errno.EACCES, "Access is denied", str(target))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(module, "rename", refuse)
        with pytest.raises(ImportError, match="Access is denied"):
            expand(load)
    assert record.read_bytes() == before
    assert old.exists()
    assert not list(installed.glob("*.part"))
    assert (expand(load) / "bin/hipcc").is_file()
    assert not old.exists()


def test_without_a_record_the_system_is_blamed(installed: Path, load: Importer) -> None:
    record_of(installed, "rocm-sdk-devel").unlink()
    with pytest.raises(ImportError, match=r"managed by the system.*virtual environment"):
        expand(load)


def test_a_full_disk_is_noticed_before_anything_is_written(
    installed: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("rocm_sdk._expand")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: os.terminal_size((0, 0)))
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1})())
    with pytest.raises(ImportError, match="GB are free"):
        expand(load)
    assert not list(installed.glob("*.part"))


def test_a_disk_that_fills_up_leaves_nothing(
    installed: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = record_of(installed, "rocm-sdk-devel").read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(load("rocm_sdk._archive").shutil, "copyfileobj", full)
        with pytest.raises(ImportError, match=r"No space left.*Free some disk space"):
            expand(load)
    assert not list(installed.glob(f"{ROOT}*"))
    assert record_of(installed, "rocm-sdk-devel").read_bytes() == before
    assert (expand(load) / "bin/hipcc").is_file()


@pytest.mark.posix
def test_a_site_that_may_not_be_written_gives_a_reason_and_no_traceback(
    installed: Path,
) -> None:
    for path in [installed, *installed.rglob("*")]:
        if path.is_dir():
            path.chmod(0o555)
    try:
        result = run(installed, "-c", UNPRIVILEGED)
    finally:
        for path in [installed, *installed.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "Run `rocm-sdk init` once as a user who may" in result.stderr


# Permissions do not bind the superuser, so it gives up that power first.
UNPRIVILEGED = """
import ctypes, os, sys
if os.geteuid() == 0:
    libc = ctypes.CDLL(None)
    for capability in (1, 2):
        libc.prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "rocm_sdk", "path", "--root"])
"""


def test_long_paths_reach_the_disk(installed: Path, load: Importer) -> None:
    deep = "/".join(["include"] + ["a-directory-with-a-long-name"] * 12 + ["x.h"])
    assert len(deep) > 260
    archive = Archive.usual(Sdk())
    archive.entries.append((deep, b"deep"))
    Sdk().devel(archive).unpack(installed)
    assert (expand(load) / deep).read_bytes() == b"deep"


@pytest.mark.posix
def test_windows_gets_the_form_of_path_that_may_be_long(
    load: Importer, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = load("rocm_sdk._links")
    monkeypatch.setattr(links.sys, "platform", "win32")
    try:
        assert str(links.long(Path("/a/b"))) == "\\\\?\\/a/b"
    finally:
        monkeypatch.undo()


def test_the_commands_say_where_and_nothing_else(installed: Path) -> None:
    root = installed / ROOT
    assert rocm_sdk(installed, "init") == f"Devel contents expanded to '{root}'\n"
    assert rocm_sdk(installed, "path", "--root") == f"{root}\n"
    assert rocm_sdk(installed, "path", "--bin") == f"{root / 'bin'}\n"
    assert rocm_sdk(installed, "path", "--cmake") == f"{root / 'lib' / 'cmake'}\n"
    assert rocm_sdk(installed, "init") == f"Devel contents already expanded to '{root}'\n"
    assert rocm_sdk(installed, "init", "--quiet") == ""


def test_a_python_without_the_package_is_told_how_to_get_it(site: Path) -> None:
    Sdk().rocm().unpack(site)
    for arguments in (["path", "--root"], ["init", "--quiet"]):
        result = run(site, "-m", "rocm_sdk", *arguments)
        assert result.returncode == 1
        assert result.stdout == ""
        assert "ERROR" in result.stderr
        assert 'pip install --index-url INDEX_URL "rocm[devel]==10.1.0"' in result.stderr


def test_python_is_new_enough() -> None:
    assert sys.version_info >= (3, 10)
