"""`_dist_info.py`: which target, which extras."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from sdk import Sdk, tables

Loader = Callable[[Sdk], ModuleType]


@pytest.fixture
def info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loader:
    """Loads the text as `setup.py` does, on a machine without a GPU."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "scripts"))

    def load(sdk: Sdk) -> ModuleType:
        path = tmp_path / "_dist_info.py"
        path.write_bytes(sdk.dist_info("meta"))
        path.with_suffix(".json").write_bytes(tables())
        spec = importlib.util.spec_from_file_location("dist_info_under_test", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setattr(module, "_SYSFS", str(tmp_path / "sys"))
        return module

    return load


def offload_arch(tmp_path: Path, script: str) -> None:
    (tmp_path / "bin").mkdir(exist_ok=True)
    program = tmp_path / "bin" / "offload-arch"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def gpus(tmp_path: Path, *targets: str) -> None:
    offload_arch(tmp_path, "".join(f"echo '{target}'\n" for target in targets))


FAMILIES = {
    "dgpu-all": "gfx900 gfx906 gfx1010 gfx1011 gfx1012 gfx1030 gfx1031 gfx1032 gfx1034 gfx1100 "
    "gfx1101 gfx1102 gfx1200 gfx1201",
    "igpu-all": "gfx90c gfx1033 gfx1035 gfx1036 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153",
    "dcgpu-all": "gfx908 gfx90a gfx942 gfx950 gfx1250",
    "gfx900-dgpu": "gfx900",
    "gfx90c-igpu": "gfx90c",
    "gfx906-dgpu": "gfx906",
    "gfx908-dcgpu": "gfx908",
    "gfx90a-dcgpu": "gfx90a",
    "gfx94X-all": "gfx942",
    "gfx94X-dcgpu": "gfx942",
    "gfx950-all": "gfx950",
    "gfx950-dcgpu": "gfx950",
    "gfx101X-all": "gfx1010 gfx1011 gfx1012",
    "gfx101X-dgpu": "gfx1010 gfx1011 gfx1012",
    "gfx103X-all": "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036",
    "gfx103X-dgpu": "gfx1030 gfx1031 gfx1032 gfx1034",
    "gfx103X-igpu": "gfx1033 gfx1035 gfx1036",
    "gfx110X-all": "gfx1100 gfx1101 gfx1102 gfx1103",
    "gfx110X-dgpu": "gfx1100 gfx1101 gfx1102",
    "gfx110X-igpu": "gfx1103",
    "gfx115X-all": "gfx1150 gfx1151 gfx1152 gfx1153",
    "gfx115X-igpu": "gfx1150 gfx1151 gfx1152 gfx1153",
    "gfx120X-all": "gfx1200 gfx1201",
    "gfx125X-all": "gfx1250",
    "gfx125X-dcgpu": "gfx1250",
}
TARGETS = sorted({target for targets in FAMILIES.values() for target in targets.split()})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_for_exactly_its_targets(info: Loader, family: str) -> None:
    module = info(Sdk(available=[family], split=False))
    found = [target for target in TARGETS if module.match_target_family(target) == family]
    assert found == sorted(FAMILIES[family].split())
    assert module.match_target_family(family) == family


def test_the_narrowest_family_wins(info: Loader) -> None:
    available = ["dgpu-all", "gfx103X-all", "gfx103X-dgpu", "igpu-all"]
    module = info(Sdk(available=available, split=False))
    assert module.match_target_family("gfx1030") == "gfx103X-dgpu"
    assert module.match_target_family("gfx1036") == "gfx103X-all"
    assert module.match_target_family("gfx1100") == "dgpu-all"
    assert module.match_target_family("gfx1150") == "igpu-all"
    assert module.match_target_family("gfx942") is None


def test_a_target_younger_than_the_table_finds_the_families_named_after_it(
    info: Loader,
) -> None:
    module = info(Sdk(available=["gfx130X-all"], split=False))
    assert module.match_target_family("gfx1301") == "gfx130X-all"
    assert module.match_target_family("gfx1401") is None


def test_features_of_a_target_do_not_hide_it(info: Loader, tmp_path: Path) -> None:
    gpus(tmp_path, "gfx90a:sramecc+:xnack-")
    assert info(Sdk(available=["gfx90a", "gfx942"])).determine_target_family() == "gfx90a"
    assert info(Sdk(available=["gfx90a:xnack+"])).determine_target_family() == "gfx90a:xnack+"


@pytest.mark.posix
def test_the_first_gpu_that_is_supported_wins_every_time(info: Loader, tmp_path: Path) -> None:
    gpus(tmp_path, "gfx803", "gfx942", "gfx1100", "gfx942")
    sdk = Sdk(available=["gfx1100", "gfx1201", "gfx942"])
    assert {info(sdk).determine_target_family() for _ in range(5)} == {"gfx942"}


def test_the_environment_wins_over_the_machine(
    info: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(tmp_path, "gfx942")
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "gfx1100")
    module = info(Sdk(available=["gfx1100", "gfx942"]))
    assert module.choose_target_family() == ("gfx1100", "environment")


@pytest.mark.posix
@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_asks_for_nothing(
    info: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    gpus(tmp_path, "gfx942")
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", value)
    module = info(Sdk(available=["gfx1100", "gfx942"]))
    assert module.choose_target_family() == ("gfx942", "detected")


def test_the_environment_may_name_a_family_of_split_packages(
    info: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "gfx94X-dcgpu")
    assert info(Sdk(available=["gfx1100", "gfx942"])).determine_target_family() == "gfx942"


def test_an_unknown_request_names_what_there_is(
    info: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "gfx1201")
    with pytest.raises(ValueError) as caught:
        info(Sdk(available=["gfx1100", "gfx942"])).determine_target_family()
    assert str(caught.value) == (
        "Requested ROCM_SDK_TARGET_FAMILY=gfx1201 is not available in the distribution "
        "(available: gfx1100, gfx942)"
    )


def test_a_wrong_default_is_not_blamed_on_the_environment(info: Loader) -> None:
    with pytest.raises(ValueError) as caught:
        info(Sdk(available=["gfx942"], default="gfx1100")).determine_target_family()
    assert "ROCM_SDK_TARGET_FAMILY" not in str(caught.value)
    assert "default target gfx1100" in str(caught.value)


def test_without_gpu_the_default_is_taken_and_kept(info: Loader, tmp_path: Path) -> None:
    module = info(Sdk(available=["gfx1100", "gfx942"]))
    assert module.determine_target_family() == "gfx1100"
    gpus(tmp_path, "gfx942")
    assert module.determine_target_family() == "gfx1100"


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["0", "90402"], "gfx942"),
        (["0", "0"], None),
        (["0", "110000", "90402"], "gfx1100"),
        (["90010"], "gfx90a"),
        (["90012"], "gfx90c"),
        (["not a number"], None),
    ],
)
def test_the_kernel_tells_where_no_rocm_is_installed_yet(
    info: Loader, tmp_path: Path, versions: Sequence[str], expected: str | None
) -> None:
    for number, version in enumerate(versions):
        node = tmp_path / "sys/class/kfd/kfd/topology/nodes" / str(number)
        node.mkdir(parents=True)
        simds = 8 if version else 0
        text = f"simd_count {simds}\ngfx_target_version {version}\n"
        (node / "properties").write_text(text)
    module = info(Sdk(available=["gfx1100", "gfx90a", "gfx90c", "gfx942"]))
    assert module.discover_current_target_family() == expected


MACHINES = Path(__file__).resolve().parents[1] / "it" / "targets" / "machines"


@pytest.mark.posix
@pytest.mark.parametrize("machine", sorted(path.stem for path in MACHINES.glob("*.txt")))
def test_recorded_machines_are_detected_as_rocwheel_detects_them(
    info: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    module = info(Sdk())
    expected: list[str] = []
    for line in (MACHINES / f"{machine}.txt").read_text().splitlines():
        if line.startswith("# targets:"):
            expected = line.partition(":")[2].split()
        elif " -> " in line:
            name, _, target = line.partition(" -> ")
            (tmp_path / "sys" / name).symlink_to(target)
        elif not line.startswith("#"):
            name, _, text = line.partition(": ")
            path = tmp_path / "sys" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("; ", "\n") + "\n")
    read = module._read

    def forbid(path: str) -> str:
        text: str = read(path)
        if text == "EPERM\n":
            raise PermissionError(1, "Operation not permitted", path)
        return text

    monkeypatch.setattr(module, "_read", forbid)
    assert module._detected_targets() == expected


def test_the_variables_of_rocm_bootstrap_replace_the_machine(
    info: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(tmp_path, "gfx942")
    module = info(Sdk())
    monkeypatch.setenv("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", "gfx1100, gfx1201")
    assert module._detected_targets() == ["gfx1100", "gfx1201"]
    monkeypatch.setenv("ROCM_BOOTSTRAP_DISABLE_DETECTION", "1")
    assert module._detected_targets() == []


@pytest.mark.parametrize(
    "script", ["exit 1", "echo no gpu; exit 0", "kill -9 $$", "echo gfx >&2", "printf '\\377'"]
)
def test_a_tool_that_fails_is_no_gpu_and_prints_nothing(
    info: Loader, tmp_path: Path, script: str, capfd: pytest.CaptureFixture[str]
) -> None:
    offload_arch(tmp_path, script)
    assert info(Sdk()).discover_current_target_family() is None
    assert capfd.readouterr() == ("", "")


def test_a_tool_that_hangs_is_left_behind(
    info: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offload_arch(tmp_path, "exec /bin/sleep 60")
    module = info(Sdk())
    monkeypatch.setattr(module, "_DETECTION_TIMEOUT_SECONDS", 0.2)
    assert module.discover_current_target_family() is None


def test_verbose_explains_on_stderr(
    info: Loader, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROCM_SDK_VERBOSE", "1")
    assert info(Sdk()).discover_current_target_family() is None
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("[rocm_sdk] ")


BOTH = Sdk(
    available=["gfx1100", "gfx1201", "gfx942"],
    linux=["gfx1100", "gfx942"],
    windows=["gfx1100", "gfx1201"],
)


def test_extras_per_target_carry_the_platform_that_has_them(info: Loader) -> None:
    linux, windows = '; sys_platform == "linux"', '; sys_platform == "win32"'
    assert info(BOTH).build_per_target_extras() == {
        "device-gfx1100": ["rocm-sdk-device-gfx1100==10.1.0"],
        "device-gfx1201": [f"rocm-sdk-device-gfx1201==10.1.0{windows}"],
        "device-gfx942": [f"rocm-sdk-device-gfx942==10.1.0{linux}"],
        "device-all": [
            "rocm-sdk-device-gfx1100==10.1.0",
            f"rocm-sdk-device-gfx1201==10.1.0{windows}",
            f"rocm-sdk-device-gfx942==10.1.0{linux}",
        ],
    }


def test_one_platform_needs_no_markers(info: Loader) -> None:
    module = info(Sdk(available=["gfx1100", "gfx942"], linux=["gfx1100", "gfx942"]))
    assert not any(";" in pin for pins in module.build_per_target_extras().values() for pin in pins)


@pytest.mark.parametrize("available", [["gfx942"], ["gfx942", "gfx942:xnack+"]])
def test_one_target_can_be_asked_for_by_name_too(info: Loader, available: list[str]) -> None:
    extras = info(Sdk(available=available)).build_per_target_extras()
    assert list(extras) == ["device-gfx942", "device-all"]
    assert extras["device-gfx942"] == extras["device-all"]


def test_no_target_has_no_extras(info: Loader) -> None:
    assert info(Sdk(available=[])).build_per_target_extras() == {}


@pytest.mark.posix
def test_a_detected_target_is_the_device_extra(info: Loader, tmp_path: Path) -> None:
    gpus(tmp_path, "gfx942")
    module = info(BOTH)
    extras = module.build_extras(module.choose_target_family())
    assert extras["device"] == ["rocm-sdk-device-gfx942==10.1.0"]


def test_a_guessed_target_is_no_device_extra(info: Loader) -> None:
    # Installers then warn, instead of fetching half a gigabyte for another GPU.
    module = info(BOTH)
    choice = module.choose_target_family()
    assert choice == ("gfx1100", "default")
    assert list(module.build_extras(choice)) == ["libraries", "devel", "profiler"]


def test_the_only_target_is_no_guess(info: Loader) -> None:
    module = info(Sdk(available=["gfx942", "gfx942:xnack+"]))
    for choice in (None, module.choose_target_family()):
        assert module.build_extras(choice)["device"] == ["rocm-sdk-device-gfx942==10.1.0"]


def test_for_any_machine_the_device_extra_holds_nothing(
    info: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(tmp_path, "gfx942")
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "gfx1201")
    assert info(BOTH).build_extras(None)["device"] == []


def test_the_profiler_is_for_linux(info: Loader) -> None:
    assert info(BOTH).build_extras(None)["profiler"] == [
        'rocm-profiler==10.1.0; sys_platform == "linux"'
    ]


def test_a_set_without_gpu_targets_can_be_installed(info: Loader) -> None:
    module = info(Sdk(available=[]))
    choice = module.choose_target_family()
    assert choice == (None, "default")
    assert list(module.build_extras(choice)) == ["libraries", "devel", "profiler"]
    assert module.build_install_requires(choice.family) == ["rocm-sdk-core==10.1.0"]


def test_absent_packages_have_no_extra(info: Loader, tmp_path: Path) -> None:
    module = info(BOTH)
    module.ABSENT_PACKAGES.append("profiler")
    module.ABSENT_PACKAGES.append("device")
    assert list(module.build_extras(None)) == ["libraries", "devel"]
    assert module.build_per_target_extras() == {}


@pytest.mark.posix
def test_legacy_libraries_are_per_family_and_have_no_device_extra(
    info: Loader, tmp_path: Path
) -> None:
    gpus(tmp_path, "gfx942")
    module = info(Sdk(available=["gfx110X-all", "gfx94X-dcgpu"], split=False))
    extras = module.build_extras(module.choose_target_family())
    assert extras["libraries"] == ["rocm-sdk-libraries-gfx94X-dcgpu==10.1.0"]
    assert "device" not in extras
    assert list(module.build_per_target_extras()) == [
        "libraries-gfx110X-all",
        "libraries-gfx94X-dcgpu",
        "libraries-all",
    ]


def test_names_are_those_of_the_specification(info: Loader) -> None:
    module = info(Sdk(nonce="_v1"))
    packages = module.ALL_PACKAGES
    assert list(packages) == ["meta", "core", "libraries", "device", "devel", "profiler"]
    assert packages["core"].get_py_package_name() == "_rocm_sdk_core_v1"
    assert packages["device"].get_py_package_name("gfx942:xnack+") == "_rocm_sdk_device_gfx942_v1"
    assert packages["libraries"].get_dist_package_require() == "rocm-sdk-libraries==10.1.0"
    assert repr(packages["device"]) == "rocm-sdk-device-{target_family}"
    with pytest.raises(ValueError, match="Package device is target specific, but no target"):
        packages["device"].get_dist_package_name()
    with pytest.raises(ValueError, match="Package already defined: core"):
        module.PackageEntry("core", "x", pure_py_package_name="x")
    with pytest.raises(AssertionError):
        module.LibraryEntry("rccl", "core", "x", "")
    assert len(module.ALL_LIBRARIES) == 28


def test_hostile_texts_stay_texts(info: Loader, tmp_path: Path) -> None:
    evil = "'); import os; os.mkdir('pwned') #\n\\"
    module = info(Sdk(version=evil, available=[evil]))
    assert module.__version__ == evil
    assert [evil] == module.AVAILABLE_TARGET_FAMILIES
    assert not (Path.cwd() / "pwned").exists()
    assert os.sep in str(tmp_path)
    assert sys.version_info >= (3, 10)
