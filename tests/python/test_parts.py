"""The small parts: RECORD, versions, the manifest, the list of installed packages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sdk import module

records = module("_record")
versions = module("_versions")
manifests = module("_manifest")
installs = module("_installed")
problem = module("_problem")


def record(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "RECORD"
    path.write_bytes(data)
    return path


def test_names_with_commas_quotes_and_newlines_survive(tmp_path: Path) -> None:
    path = record(tmp_path, b'a.py,sha256=x,1\n"b,""c"".h",,\nRECORD,,\n')
    edited = records.Record(path)
    assert edited.paths() == ["a.py", 'b,"c".h', "RECORD"]
    edited.add(['d,e "f"', "g\nh", "é"])
    assert edited.save(tmp_path / "scratch")
    assert records.Record(path).paths() == ["a.py", 'b,"c".h', "RECORD", 'd,e "f"', "g\nh", "é"]
    assert path.read_bytes().startswith(b'a.py,sha256=x,1\n"b,""c"".h",,\n')
    assert "é,,\n".encode() in path.read_bytes()
    assert b"\r" not in path.read_bytes()


def test_a_missing_final_newline_glues_no_rows(tmp_path: Path) -> None:
    path = record(tmp_path, b"a.py,,\r\nRECORD,,")
    edited = records.Record(path)
    edited.add(["b.py"])
    edited.save(tmp_path / "scratch")
    assert path.read_bytes() == b"a.py,,\nRECORD,,\nb.py,,\n"


def test_a_record_that_does_not_change_is_not_written(tmp_path: Path) -> None:
    path = record(tmp_path, b"a.py,,\r\n")
    edited = records.Record(path)
    edited.add(["a.py"])
    assert not edited.save(tmp_path / "nowhere" / "scratch")
    assert path.read_bytes() == b"a.py,,\r\n"


@pytest.mark.posix
def test_the_mode_of_a_record_stays(tmp_path: Path) -> None:
    path = record(tmp_path, b"a.py,,\n")
    path.chmod(0o664)
    edited = records.Record(path)
    edited.add(["b.py"])
    edited.save(tmp_path / "scratch")
    assert path.stat().st_mode & 0o777 == 0o664


def test_a_record_shared_with_a_cache_is_replaced_and_not_written_to(tmp_path: Path) -> None:
    path = record(tmp_path, b"a.py,,\n")
    cached = tmp_path / "cached"
    cached.hardlink_to(path)
    edited = records.Record(path)
    edited.add(["b.py"])
    edited.save(tmp_path / "scratch")
    assert cached.read_bytes() == b"a.py,,\n"


def test_a_record_that_is_no_text_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(problem.DevelError, match="is damaged"):
        records.Record(record(tmp_path, b"\xff\xfe,,\n"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("7.14.0", "7.14", True),
        ("7.14.0-1", "7.14.0", True),
        ("7.14.0.rev3", "7.14.0", True),
        ("10.1.0a20260820", "10.1.0a20260820", True),
        ("10.1.0a20260820", "10.1.0a20260821", False),
        ("10.1.0ALPHA1", "10.1a1", True),
        ("10.1.0.dev0+ABC-def", "10.1.0.dev0+abc.def", True),
        ("10.1.0.dev0+abc", "10.1.0.dev0", False),
        ("10.1.0+x.post1", "10.1.0+x", False),
        ("10.1.0.dev", "10.1.0.dev0", True),
        ("10.1.0.dev0", "10.1.0", False),
        ("1!10.1.0", "10.1.0", False),
        ("not a version", "not a version", True),
        ("not a version", "10.1.0", False),
    ],
)
def test_versions_are_compared_without_their_post_release(one: str, other: str, same: bool) -> None:
    assert versions.same_release(one, other) is same
    assert versions.same_release(other, one) is same


def test_the_manifest_is_what_the_builder_writes() -> None:
    entries = [
        manifests.Entry("lib/b.so", "l", target="../../_rocm_sdk_core/lib/b.so"),
        manifests.Entry("lib", "d"),
        manifests.Entry("__init__.py", "f", size=0),
        manifests.Entry("include/é.h", "f", size=12),
    ]
    manifest = manifests.of("10.1.0", entries)
    assert manifest == manifests.of("10.1.0", entries[::-1])
    # The same figures are in the tests of `devel_manifest.rs`.
    assert manifest[:5] == ("10.1.0", 2, 1, 1, 12)
    assert manifest.sha256 == "a6baea49df3faf429536aaf574dd1ba83ea7be73da7322aab99ad12a1321598f"


def test_every_part_of_an_entry_counts(tmp_path: Path) -> None:
    entry = manifests.Entry("a", "f", size=1)
    digests = {
        manifests.of("1", [other]).sha256
        for other in (
            entry,
            entry._replace(path="b"),
            entry._replace(size=2),
            entry._replace(kind="d"),
            entry._replace(kind="l", target="1"),
            entry._replace(kind="l", target="2"),
        )
    }
    assert len(digests) == 6


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": "1"}'])
def test_a_damaged_manifest_is_not_taken_for_none(tmp_path: Path, text: str) -> None:
    assert manifests.load(tmp_path) is None
    (tmp_path / "_devel_manifest.json").write_text(text)
    with pytest.raises(problem.DevelError, match="is damaged"):
        manifests.load(tmp_path)


def test_installed_packages_are_read_from_the_disk_each_time(tmp_path: Path) -> None:
    def add(name: str, metadata: str | None) -> None:
        directory = tmp_path / f"{name}.dist-info"
        directory.mkdir()
        if metadata is not None:
            (directory / "METADATA").write_text(metadata)

    assert installs.installed(tmp_path) == []
    add("rocm_sdk_device_gfx942-1.0", "Name: rocm-sdk-device-gfx942\nVersion: 1.0\n\nName: no\n")
    add("Rocm.SDK_Core-2.0+a.b", None)
    add("~ocm_sdk_core-1.0", None)
    found = [(package.name, package.version) for package in installs.installed(tmp_path)]
    assert found == [("rocm-sdk-core", "2.0+a.b"), ("rocm-sdk-device-gfx942", "1.0")]
    assert (
        installs.find(tmp_path, "rocm_sdk.core").directory.name == "Rocm.SDK_Core-2.0+a.b.dist-info"
    )
    assert installs.find(tmp_path, "rocm") is None


def test_the_last_installed_of_two_of_one_name_counts(tmp_path: Path) -> None:
    for version, time in (("1.0", 10), ("3.0", 20), ("2.0", 30), ("4.0", None)):
        directory = tmp_path / f"rocm-{version}.dist-info"
        directory.mkdir()
        if time is not None:
            (directory / "RECORD").touch()
            os.utime(directory / "RECORD", (time, time))
    assert installs.find(tmp_path, "rocm").version == "2.0"


def test_a_file_that_another_process_looks_at_is_replaced_as_soon_as_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = module("_patience")
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    waited: list[float] = []
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if len(waited) < 3:
            raise PermissionError(13, "Access denied", str(target))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("sys.platform", "win32")
        patch.setattr("time.sleep", waited.append)
        patch.setattr("os.replace", replace)
        patience.rename(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"
    assert waited == [0.1, 0.2, 0.5]
