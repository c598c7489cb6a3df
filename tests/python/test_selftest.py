"""`rocm-sdk test`: it passes on what is whole, and names what is not."""

from __future__ import annotations

import _ctypes
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from sdk import ROOT, Archive, Sdk, echo, module, run, tables

SDK = Sdk(available=("gfx1100", "gfx942"))


def loadable() -> bytes:
    """Any library that loads: one of this Python's own."""
    return Path(_ctypes.__file__).read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with every library that has a name."""
    site = tmp_path_factory.mktemp("whole") / "site-packages"
    library = loadable()
    names: dict[str, dict[str, bytes]] = {"core": {}, "libraries": {}}
    source = site.parent / "_dist_info.py"
    source.with_suffix(".json").write_bytes(tables())
    facts: dict[str, Any] = {"__name__": "facts", "__file__": str(source)}
    exec(compile(SDK.dist_info("meta"), source, "exec"), facts)
    for entry in facts["ALL_LIBRARIES"].values():
        path = f"{entry.posix_relpath}/{entry.so_pattern.partition('.')[0].rstrip('*')}.so.1"
        names[entry.package.logical_name][path] = library
    for file in facts["ALL_FILES"]:
        if file.package.logical_name in names and not file.optional:
            names[file.package.logical_name].setdefault(file.relpath, echo(file.relpath))
    del names["core"]["lib/libamdhip64.so.1"]
    names["core"]["lib/libamdhip64.so.7"] = library
    names["libraries"]["lib/librocblas.so.5"] = library
    archive = Archive.usual(SDK)
    archive.entries += [
        (path, f"{'../' * len(path.split('/'))}_rocm_sdk_libraries/{path}")
        for path in names["libraries"]
        if path != "lib/librocblas.so.5"
    ]
    archive.entries.append(("lib/llvm/bin/clang++", b"#!/bin/sh\n"))
    wheels = [SDK.rocm(), SDK.core(names["core"]), SDK.libraries(names["libraries"])]
    for wheel in [*wheels, SDK.devel(archive), SDK.device("gfx942")]:
        wheel.unpack(site)
    return site


@pytest.fixture
def site(whole: Path, tmp_path: Path) -> Path:
    path = tmp_path / "site-packages"
    shutil.copytree(whole, path, symlinks=True)
    return path


def report(site: Path, *arguments: str, **env: str) -> dict[str, Any]:
    quiet = {"PATH": f"{site.parent}/bin:/usr/bin:/bin", **env}
    result = run(site, "-m", "rocm_sdk", "test", "--json", *arguments, env=quiet)
    summary = json.loads(result.stdout)
    assert isinstance(summary, dict)
    assert result.returncode == (0 if summary["ok"] else 1), result.stderr
    summary["talk"] = result.stderr
    return summary


def failed(summary: dict[str, Any]) -> list[str]:
    return [entry["test"] for entry in summary["failed"]]


def gpu(site: Path, target: str) -> None:
    program = site.parent / "bin" / "offload-arch"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho {target}\n")
    program.chmod(0o755)


@pytest.mark.posix
def test_what_is_whole_passes_without_a_gpu(site: Path) -> None:
    summary = report(site)
    assert summary["ok"], summary["talk"]
    assert failed(summary) == []
    passed = summary["passed"]
    for name in (
        "base.CommandTest.testTargets",
        "core.CoreTest.testPreloadLibraries",
        "core.CoreTest.testSharedLibrariesLoad",
        "libraries.LibrariesTest.testSharedLibrariesLoad",
        "device.DeviceTest.testPayloadIsThere",
        "devel.DevelTest.testNothingIsMissing",
        "devel.DevelTest.testLibrariesMirroredIntoDevel",
    ):
        assert name in passed
    skipped = {entry["test"]: entry["reason"] for entry in summary["skipped"]}
    assert skipped["profiler"] == "rocm-profiler is not installed"
    assert skipped["device.DeviceTest.testDeviceCodeIsForThisGPU"] == "no GPU was found"
    assert "skipped profiler: rocm-profiler is not installed" in summary["talk"]
    assert '"rocm[profiler]==10.1.0"' in summary["talk"]
    assert f"rocm-sdk test of ROCm 10.1.0: {len(passed)} passed, 0 failed," in summary["talk"]


def test_without_json_stdout_is_empty(site: Path) -> None:
    result = run(site, "-m", "rocm_sdk", "test", "-k", "CommandTest.testVersion")
    assert result.stdout == ""
    assert result.returncode == 0, result.stderr
    assert ": 1 passed, 0 failed, " in result.stderr


def test_a_pattern_that_matches_nothing_has_shown_nothing(site: Path) -> None:
    assert not report(site, "-k", "no such test")["ok"]


def test_parts_that_are_not_installed_are_named(tmp_path: Path) -> None:
    site = tmp_path / "bare"
    for wheel in (SDK.rocm(), SDK.core()):
        wheel.unpack(site)
    summary = report(site, "-k", "testInstallationLayout")
    assert summary["ok"]
    assert [entry["test"] for entry in summary["skipped"]] == [
        "libraries",
        "device",
        "devel",
        "profiler",
    ]


@pytest.mark.posix
def test_a_library_that_does_not_load_is_named(site: Path) -> None:
    (site / "_rocm_sdk_libraries/lib/librccl.so.1").write_bytes(b"broken")
    summary = report(site, "-k", "LibrariesTest")
    assert failed(summary) == ["libraries.LibrariesTest.testSharedLibrariesLoad"]
    assert "lib/librccl.so.1: OSError" in summary["talk"]


@pytest.mark.posix
def test_a_library_that_is_not_there_is_named(site: Path) -> None:
    (site / "_rocm_sdk_core/lib/libhiprtc.so.1").unlink()
    summary = report(site, "-k", "testPreloadLibraries")
    assert failed(summary) == ["core.CoreTest.testPreloadLibraries [hiprtc]"]


@pytest.mark.posix
def test_a_program_that_is_not_there_is_named(site: Path) -> None:
    (site / "_rocm_sdk_core" / "bin" / "rocgdb").unlink()
    summary = report(site, "-k", "testPromisedFilesAreThere")
    assert failed(summary) == ["core.FilesTest.testPromisedFilesAreThere [bin/rocgdb]"]
    assert "rocm-sdk-core lacks bin/rocgdb" in summary["talk"]


def test_a_libraries_package_without_its_init_is_noticed(site: Path) -> None:
    (site / "_rocm_sdk_libraries/__init__.py").unlink()
    summary = report(site, "-k", "testInstallationLayout")
    assert failed(summary) == ["libraries.LibrariesTest.testInstallationLayout"]


@pytest.mark.posix
def test_development_files_that_are_missing_are_noticed(site: Path) -> None:
    assert report(site, "-k", "DevelTest.testNothing")["ok"]
    (site / ROOT / "include/hip/hip_runtime.h").unlink()
    summary = report(site, "-k", "DevelTest.testNothing")
    assert failed(summary) == ["devel.DevelTest.testNothingIsMissing"]


def test_device_code_that_is_missing_is_noticed(site: Path) -> None:
    (site / "_rocm_sdk_libraries/lib/rocblas/library/gfx942.co").unlink()
    summary = report(site, "-k", "DeviceTest")
    assert failed(summary) == [
        "device.DeviceTest.testListsForDevelAreTrue [rocm-sdk-device-gfx942]",
        "device.DeviceTest.testPayloadIsThere [rocm-sdk-device-gfx942]",
    ]


def test_a_library_of_device_code_has_further_names_in_the_list_alone(site: Path) -> None:
    listed = site / "_rocm_sdk_libraries" / ".devel_links" / "gfx942.json"
    facts = json.loads(listed.read_text("utf-8"))
    link = facts["links"][0]
    facts["links"].append({**link, "relpath": f"{link['relpath']}.1"})
    listed.write_text(json.dumps(facts), "utf-8")
    assert report(site, "-k", "testListsForDevelAreTrue")["ok"]


@pytest.mark.parametrize("path", ["lib/rocblas/library/gfx1100.co", "lib/gfx1100/x.co"])
def test_device_code_may_be_named_or_lie_in_a_directory_of_that_name(site: Path, path: str) -> None:
    wheel = SDK.device("gfx1100", [path])
    wheel.unpack(site)
    assert report(site, "-k", "testPayload")["ok"]
    (site / "_rocm_sdk_libraries" / path).write_bytes(b"")
    assert not report(site, "-k", "testPayload")["ok"]


@pytest.mark.parametrize("files", [[], ["lib/rocblas/library/gfx942.co"]])
def test_a_device_package_without_code_for_its_target_is_noticed(
    site: Path, files: list[str]
) -> None:
    SDK.device("gfx1100", files).unpack(site)
    summary = report(site, "-k", "testPayload")
    assert [name.split(" ")[0] for name in failed(summary)] == [
        "device.DeviceTest.testPayloadIsThere"
    ]
    assert "gfx1100" in failed(summary)[0]


def test_device_code_of_another_version_is_noticed(site: Path) -> None:
    SDK.device("gfx1100", version="10.2.0").unpack(site)
    assert not report(site, "-k", "testVersions")["ok"]


@pytest.mark.posix
def test_device_code_for_another_gpu_is_noticed(site: Path) -> None:
    # A test that passes with code for the wrong GPU gives false confidence.
    gpu(site, "gfx1100")
    summary = report(site, "-k", "testDeviceCode")
    assert failed(summary) == ["device.DeviceTest.testDeviceCodeIsForThisGPU"]
    assert '--index-url INDEX_URL "rocm[device-gfx1100]==10.1.0"' in summary["failed"][0]["message"]
    gpu(site, "gfx942:sramecc+:xnack-")
    assert report(site, "-k", "testDeviceCode")["ok"]


def test_asking_for_a_gpu_demands_one(site: Path) -> None:
    assert not report(site, "--gpu", "-k", "testDeviceCode")["ok"]


def test_a_program_that_hangs_has_failed(site: Path) -> None:
    code = (
        "import sys\nfrom rocm_sdk.tests import utils\n"
        "print(utils.run([sys.executable, '-c', 'import time; time.sleep(60)'], timeout=1))"
    )
    result = run(site, "-c", code)
    assert "did not end within 1 seconds" in result.stdout, result.stderr
    assert module("_problem").DevelError


def framework(site: Path, requirement: str, device: str | None = None) -> None:
    """A framework that was tied and split, with the device code of one target."""
    info = site / "fw-1.0.dist-info"
    info.mkdir()
    (site / "fw").mkdir()
    (site / "fw" / "libfw.so").write_bytes(loadable())
    lines = [
        f'Requires-Dist: amd-fw-device-{name}==1.0; extra == "device-{target}"'
        for target, name in (("gfx942", "gfx942"), ("gfx1100", "gfx1100"), ("gfx1100", "gfx11"))
    ]
    text = "\n".join(["Metadata-Version: 2.1", "Name: fw", "Version: 1.0", *lines, ""])
    (info / "METADATA").write_text(text, "utf-8")
    (info / "RECORD").write_text("fw/libfw.so,,\n", "utf-8")
    facts = {
        "requirement": requirement,
        "preload": [],
        "run-paths": [["fw/libfw.so", "$ORIGIN/../_rocm_sdk_core/lib"]],
    }
    (info / "rocm_tie.json").write_text(json.dumps(facts), "utf-8")
    if device is not None:
        info = site / f"amd_fw_device_{device}-1.0.dist-info"
        info.mkdir()
        archive = site / "fw" / ".kpack" / f"fw_{device}.kpack"
        archive.parent.mkdir()
        archive.write_bytes(b"code")
        text = f"Metadata-Version: 2.1\nName: amd-fw-device-{device}\nVersion: 1.0\n"
        (info / "METADATA").write_text(text, "utf-8")
        (info / "RECORD").write_text(f"fw/.kpack/{archive.name},,\n", "utf-8")


def test_a_framework_that_fits_passes(site: Path) -> None:
    assert "frameworks" not in report(site)["talk"]
    framework(site, "rocm[libraries]==10.1.*", "gfx942")
    gpu(site, "gfx942")
    summary = report(site, "-k", "FrameworksTest")
    assert summary["ok"], summary["talk"]
    assert len(summary["passed"]) == 3


@pytest.mark.posix
def test_a_framework_without_device_code_for_the_gpu_is_noticed(site: Path) -> None:
    framework(site, "rocm==10.1.0", "gfx942")
    gpu(site, "gfx1100")
    summary = report(site, "-k", "FrameworksTest")
    assert failed(summary) == ["frameworks.FrameworksTest.testDeviceCodeIsThere [fw]"]
    assert 'INDEX_URL "fw[device-gfx1100]==1.0"' in summary["talk"]
    gpu(site, "gfx90a")
    assert "fw has device code for gfx1100, gfx942" in report(site, "-k", "FrameworksTest")["talk"]


def test_a_framework_for_another_rocm_is_noticed(site: Path) -> None:
    framework(site, "rocm==10.2.*")
    (site / "fw" / "libfw.so").write_bytes(b"broken")
    summary = report(site, "-k", "FrameworksTest")
    assert failed(summary) == [
        "frameworks.FrameworksTest.testLibrariesLoad [fw]",
        "frameworks.FrameworksTest.testVersions [fw]",
    ]
    assert "fw/libfw.so: OSError" in summary["talk"]


def test_an_archive_that_is_missing_is_noticed(site: Path) -> None:
    framework(site, "rocm==10.1.0", "gfx942")
    (site / "fw" / ".kpack" / "fw_gfx942.kpack").unlink()
    summary = report(site, "-k", "FrameworksTest")
    assert failed(summary) == ["frameworks.FrameworksTest.testDeviceCodeIsThere [fw]"]
