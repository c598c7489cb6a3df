"""Device packages that come, go and change after the development files were unpacked."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from conftest import Importer
from sdk import ROOT, Archive, Sdk, rocm_sdk, run
from wheels import record_of, recorded, uninstall

GFX942 = "lib/rocblas/library/gfx942.co"
GFX1100 = "lib/rocblas/library/gfx1100.co"


@pytest.fixture
def root(installed: Path) -> Path:
    rocm_sdk(installed, "init")
    return installed / ROOT


def settle(root: Path, load: Importer) -> int:
    lock = root.parent / "rocm_sdk_devel/__init__.py"
    made = load("rocm_sdk._device_links").reconcile(root, lock)
    assert isinstance(made, int)
    return made


def mirrored(root: Path, path: str) -> bool:
    source = root.parent / "_rocm_sdk_libraries" / path
    return (root / path).is_file() and (root / path).samefile(source)


def test_the_first_expansion_links_and_records(root: Path) -> None:
    assert mirrored(root, GFX942)
    assert recorded(root.parent, "rocm-sdk-device-gfx942").count(f"{ROOT}/{GFX942}") == 1


def test_a_second_run_changes_no_byte(root: Path, load: Importer) -> None:
    record = record_of(root.parent, "rocm-sdk-device-gfx942")
    before = record.read_bytes(), record.stat().st_ino
    assert settle(root, load) == 0
    assert (record.read_bytes(), record.stat().st_ino) == before


def test_a_target_that_comes_later_is_added(root: Path, load: Importer) -> None:
    Sdk().device("gfx1100").unpack(root.parent)
    assert settle(root, load) == 1
    assert mirrored(root, GFX1100)
    assert mirrored(root, GFX942)


def test_uninstalling_a_target_removes_its_files_only(root: Path, load: Importer) -> None:
    Sdk().device("gfx1100").unpack(root.parent)
    settle(root, load)
    uninstall(root.parent, "rocm-sdk-device-gfx942")
    assert not (root / GFX942).exists()
    assert mirrored(root, GFX1100)
    assert settle(root, load) == 0


def test_uninstalling_a_device_package_leaves_working_libraries(root: Path, load: Importer) -> None:
    # Both packages once owned the same `__init__.py`.
    uninstall(root.parent, "rocm-sdk-device-gfx942")
    assert (root.parent / "_rocm_sdk_libraries/__init__.py").is_file()
    for name in Sdk().device("gfx942").files:
        assert not name.endswith("__init__.py")


@pytest.mark.posix
def test_a_libraries_package_without_its_init_is_still_found(root: Path, load: Importer) -> None:
    (root.parent / "_rocm_sdk_libraries/__init__.py").unlink()
    (root.parent / "_rocm_sdk_libraries/lib/librocblas.so.5").rename(
        root.parent / "_rocm_sdk_libraries/lib/libhipblas.so.3"
    )
    assert [path.name for path in load("rocm_sdk").find_libraries("hipblas")] == ["libhipblas.so.3"]


@pytest.mark.parametrize(
    ("sdk", "device", "same"),
    [
        ("7.14.0", "7.14.0", True),
        ("7.14.0", "7.14.0.post1", True),
        ("7.14.0.post1", "7.14.0", True),
        ("7.14.0.post1", "7.14.0.post2", True),
        ("7.14.0rc1", "7.14.0rc1.post1", True),
        ("7.14.0", "7.14.1", False),
        ("7.14.0", "7.14.0rc1", False),
        ("7.14.0", "7.14.0.dev1", False),
        ("7.14.0", "7.14.0+local.post1", False),
    ],
)
def test_only_packages_of_the_same_release_are_linked(
    site: Path, sdk: str, device: str, same: bool
) -> None:
    Sdk(version=sdk).install(site)
    Sdk(version=sdk).device("gfx942", version=device).unpack(site)
    result = run(site, "-m", "rocm_sdk", "path", "--root")
    assert result.returncode == 0
    assert result.stdout == f"{site / ROOT}\n"
    assert (site / ROOT / GFX942).exists() == same
    warning = f"WARNING: skipping rocm-sdk-device-gfx942 {device}: does not match rocm-sdk {sdk}"
    assert (warning in result.stderr) != same


def test_a_link_that_is_there_but_unrecorded_is_recorded(root: Path, load: Importer) -> None:
    record = record_of(root.parent, "rocm-sdk-device-gfx942")
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if not line.startswith(ROOT)))
    assert settle(root, load) == 0
    assert recorded(root.parent, "rocm-sdk-device-gfx942").count(f"{ROOT}/{GFX942}") == 1


def test_a_row_that_is_there_twice_is_kept_once(root: Path, load: Importer) -> None:
    record = record_of(root.parent, "rocm-sdk-device-gfx942")
    record.write_text(record.read_text() + f"{ROOT}/{GFX942},,\n")
    settle(root, load)
    assert recorded(root.parent, "rocm-sdk-device-gfx942").count(f"{ROOT}/{GFX942}") == 1


def test_a_record_without_a_final_newline_keeps_its_last_row(root: Path, load: Importer) -> None:
    Sdk().device("gfx1100").unpack(root.parent)
    record = record_of(root.parent, "rocm-sdk-device-gfx1100")
    record.write_text(record.read_text().rstrip("\n"))
    last = recorded(root.parent, "rocm-sdk-device-gfx1100")[-1]
    settle(root, load)
    rows = recorded(root.parent, "rocm-sdk-device-gfx1100")
    assert last in rows
    assert f"{ROOT}/{GFX1100}" in rows


@pytest.mark.posix
def test_a_symlink_or_a_stale_file_in_the_place_is_replaced(root: Path, load: Importer) -> None:
    (root / GFX942).unlink()
    (root / GFX942).symlink_to(root.parent / "_rocm_sdk_libraries" / GFX942)
    assert settle(root, load) == 1
    assert mirrored(root, GFX942)
    assert not (root / GFX942).is_symlink()
    (root / GFX942).unlink()
    (root / GFX942).write_bytes(b"of another version")
    assert settle(root, load) == 1
    assert mirrored(root, GFX942)


def test_an_upgraded_device_package_is_linked_again(root: Path, load: Importer) -> None:
    uninstall(root.parent, "rocm-sdk-device-gfx942")
    Sdk().device("gfx942", ["lib/new.co"]).unpack(root.parent)
    assert settle(root, load) == 1
    assert mirrored(root, "lib/new.co")


def test_reinstalled_development_files_get_their_device_files_back(
    root: Path, load: Importer
) -> None:
    uninstall(root.parent, "rocm-sdk-devel")
    Sdk().devel().unpack(root.parent)
    assert rocm_sdk(root.parent, "path", "--root") == f"{root}\n"
    assert mirrored(root, GFX942)


@pytest.mark.parametrize(
    ("relpath", "target"),
    [
        ("../outside.co", "../../_rocm_sdk_libraries/lib/librocblas.so.5"),
        ("/etc/outside.co", "../../_rocm_sdk_libraries/lib/librocblas.so.5"),
        ("lib/../../outside.co", "../../_rocm_sdk_libraries/lib/librocblas.so.5"),
        ("lib/x.co", "../../../../../../../../../../etc/hostname"),
        ("lib/x.co", "/etc/hostname"),
        ("lib/x.co", "hip/self"),
    ],
)
def test_a_list_that_leads_outside_is_ignored(root: Path, relpath: str, target: str) -> None:
    site = root.parent
    evil = Sdk().device("gfx906", [], links=[{"relpath": relpath, "target": target}])
    evil.unpack(site)
    before = sorted(path for path in site.parent.rglob("*") if "dist-info" not in str(path))
    result = run(site, "-m", "rocm_sdk", "path", "--root")
    assert result.returncode == 0, result.stderr
    assert "WARNING: ignoring the link" in result.stderr
    after = sorted(path for path in site.parent.rglob("*") if "dist-info" not in str(path))
    assert after == before
    assert not any("outside" in row for row in recorded(site, "rocm-sdk-device-gfx906"))


def test_a_link_whose_file_is_missing_is_not_recorded(root: Path, load: Importer) -> None:
    wheel = Sdk().device("gfx1100", ["lib/there.co", "lib/missing.co"])
    del wheel.files["_rocm_sdk_libraries/lib/missing.co"]
    wheel.unpack(root.parent)
    assert settle(root, load) == 1
    rows = recorded(root.parent, "rocm-sdk-device-gfx1100")
    assert f"{ROOT}/lib/there.co" in rows
    assert f"{ROOT}/lib/missing.co" not in rows
    assert settle(root, load) == 0


def test_a_file_that_two_packages_share_has_one_owner_and_survives_it(
    root: Path, load: Importer
) -> None:
    shared = "lib/rocblas/library/shared.dat"
    site = root.parent
    Sdk().device("gfx1100", [shared]).unpack(site)
    Sdk().device("gfx1101", [shared]).unpack(site)
    settle(root, load)
    owners = [t for t in ("gfx1100", "gfx1101") if f"{ROOT}/{shared}" in owned(site, t)]
    assert owners == ["gfx1100"]
    kept = (site / "_rocm_sdk_libraries" / shared).read_bytes()
    uninstall(site, "rocm-sdk-device-gfx1100")
    (site / "_rocm_sdk_libraries" / shared).parent.mkdir(parents=True, exist_ok=True)
    (site / "_rocm_sdk_libraries" / shared).write_bytes(kept)
    assert settle(root, load) == 1
    assert f"{ROOT}/{shared}" in owned(site, "gfx1101")


def owned(site: Path, target: str) -> list[str]:
    return recorded(site, f"rocm-sdk-device-{target}")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"links": 3}', '{"links": [{"relpath": "x"}]}'])
def test_a_damaged_list_is_ignored_with_a_warning(root: Path, text: str) -> None:
    site = root.parent
    wheel = Sdk().device("gfx1100", [])
    wheel.files["_rocm_sdk_libraries/.devel_links/gfx1100.json"] = text.encode()
    wheel.unpack(site)
    result = run(site, "-m", "rocm_sdk", "path", "--root")
    assert (result.returncode, result.stdout) == (0, f"{root}\n")
    assert "which is damaged" in result.stderr


def test_other_packages_and_those_without_a_record_are_left_alone(
    root: Path, load: Importer
) -> None:
    site = root.parent
    Sdk().device("gfx1100").unpack(site)
    record_of(site, "rocm-sdk-device-gfx1100").unlink()
    (site / "rocm_sdk_devices-1.0.dist-info").mkdir()
    (site / "~ocm_sdk_device_gfx90a-1.0.dist-info").mkdir()
    assert settle(root, load) == 0
    assert not (root / GFX1100).exists()


def test_copies_are_settled_until_the_file_changes(
    root: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    Sdk().device("gfx1100").unpack(root.parent)
    assert settle(root, load) == 1
    assert settle(root, load) == 0
    source = root.parent / "_rocm_sdk_libraries" / GFX1100
    source.write_bytes(b"changed!")
    assert settle(root, load) == 1
    assert (root / GFX1100).read_bytes() == b"changed!"


def test_nothing_is_left_of_a_device_package_after_everything_is_uninstalled(
    root: Path,
) -> None:
    site = root.parent
    for name in ("device-gfx942", "devel", "libraries", "core"):
        uninstall(site, f"rocm-sdk-{name}")
    assert sorted(path.name for path in site.iterdir() if "rocm_sdk_" in path.name) == []


def test_a_set_that_was_never_expanded_is_expanded_with_all_targets(site: Path) -> None:
    Sdk(available=("gfx942", "gfx1100")).install(site, "gfx942", "gfx1100")
    shutil.rmtree(site / "rocm_sdk_libraries")
    assert rocm_sdk(site, "init", "--quiet") == ""
    assert mirrored(site / ROOT, GFX942)
    assert mirrored(site / ROOT, GFX1100)
    assert Archive.usual(Sdk()).root == ROOT
