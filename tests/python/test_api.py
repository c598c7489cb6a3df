"""`rocm_sdk`: what programs import."""

from __future__ import annotations

import ctypes
import re
import shutil
import warnings
from pathlib import Path

import pytest
from conftest import Importer
from sdk import SONAME, Sdk, module, run
from wheels import uninstall

# Another index may have a `rocm` of somebody else.
COMMAND = 'pip install --index-url INDEX_URL "rocm[libraries]==10.1.0"'


class Loaded:
    """Stands in for `ctypes.CDLL`: the libraries of the tests are not real."""

    calls: list[tuple[str, int]] = []

    def __init__(self, path: str, mode: int) -> None:
        self.calls.append((Path(path).name, mode))


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    Loaded.calls = []
    monkeypatch.setattr(ctypes, "CDLL", Loaded)
    return Loaded.calls


def test_the_public_names(installed: Path, load: Importer) -> None:
    sdk = load("rocm_sdk")
    assert sdk.__version__ == "10.1.0"
    assert {"__version__", "find_libraries", "initialize_process"} <= set(sdk.__all__)
    assert (installed / "rocm_sdk/py.typed").is_file()


@pytest.mark.posix
def test_libraries_are_found_in_the_order_of_their_names(installed: Path, load: Importer) -> None:
    for wheel in (
        Sdk().core({"lib/libhiprtc.so.7": b""}),
        Sdk().libraries({"lib/librccl.so.1": b""}),
    ):
        wheel.unpack(installed)
    found = load("rocm_sdk").find_libraries("rccl", "amdhip64", "hiprtc")
    assert [path.name for path in found] == ["librccl.so.1", SONAME, "libhiprtc.so.7"]
    assert found[1] == installed / "_rocm_sdk_core/lib" / SONAME


def test_an_unknown_library_is_named(installed: Path, load: Importer) -> None:
    with pytest.raises(ModuleNotFoundError, match="Unknown rocm library 'nope'"):
        load("rocm_sdk").find_libraries("nope")


@pytest.mark.posix
def test_a_library_that_its_package_lacks_is_named_with_its_place(
    installed: Path, load: Importer
) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load("rocm_sdk").find_libraries("rccl")
    assert str(caught.value) == (
        f"Could not find rocm library 'rccl' at path '{installed}/_rocm_sdk_libraries/lib,' "
        "no match for pattern 'librccl.so*'"
    )


@pytest.mark.posix
@pytest.mark.parametrize("names", [("rccl",), ("amdhip64", "rccl"), ("rccl", "amdhip64", "miopen")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    installed: Path, load: Importer, names: tuple[str, ...]
) -> None:
    # Once an UnboundLocalError, or a search in the package of the name before.
    uninstall(installed, "rocm-sdk-libraries")
    uninstall(installed, "rocm-sdk-device-gfx942")
    with pytest.raises(ModuleNotFoundError, match=re.escape(COMMAND)):
        load("rocm_sdk").find_libraries(*names)


@pytest.mark.posix
def test_empty_directories_of_an_uninstalled_package_are_no_package(
    installed: Path, load: Importer
) -> None:
    shutil.rmtree(installed / "_rocm_sdk_libraries")
    (installed / "_rocm_sdk_libraries/lib/rocblas").mkdir(parents=True)
    with pytest.raises(ModuleNotFoundError, match=re.escape(COMMAND)):
        load("rocm_sdk").find_libraries("rccl")


def test_optional_libraries_may_be_missing(installed: Path, load: Importer) -> None:
    assert load("rocm_sdk").find_libraries("rocdxg") == []


def test_windows_finds_dlls_and_skips_what_it_does_not_have(
    installed: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"bin/{name}.dll": b"" for name in ("hipblaslt", "libhipblas", "hiprtc-builtins0702")}
    Sdk().libraries(files).unpack(installed)
    Sdk().core({"bin/hiprtc0702.dll": b"", "bin/hiprtc-builtins0702.dll": b""}).unpack(installed)
    find = load("rocm_sdk").find_libraries
    with monkeypatch.context() as patch:
        patch.setattr("sys.platform", "win32")
        assert [path.name for path in find("hipblas", "rccl", "hipblaslt", "hiprtc")] == [
            "libhipblas.dll",
            "hipblaslt.dll",
            "hiprtc0702.dll",
        ]


@pytest.mark.posix
def test_libraries_are_loaded_once(
    installed: Path, load: Importer, loads: list[tuple[str, int]]
) -> None:
    sdk = load("rocm_sdk")
    sdk.preload_libraries("amdhip64", "amdhip64")
    sdk.preload_libraries("amdhip64", rtld_global=False)
    sdk.preload_libraries("rocdxg")
    assert loads == [(SONAME, ctypes.RTLD_GLOBAL)]
    assert list(sdk._ALL_CDLLS) == ["amdhip64"]


@pytest.mark.posix
def test_a_process_may_load_libraries_for_itself(
    installed: Path, load: Importer, loads: list[tuple[str, int]]
) -> None:
    load("rocm_sdk").initialize_process(preload_shortnames=["amdhip64"], rtld_global=False)
    assert loads == [(SONAME, ctypes.RTLD_LOCAL)]


@pytest.mark.posix
@pytest.mark.parametrize("value", ["amdhip64", " ,amdhip64, ,rocdxg,", "amdhip64;rocdxg", ";"])
def test_the_environment_names_further_libraries(
    installed: Path,
    load: Importer,
    loads: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
    value: str,
) -> None:
    monkeypatch.setenv("ROCM_SDK_PRELOAD_LIBRARIES", value)
    load("rocm_sdk").initialize_process()
    assert [name for name, _ in loads] == ([SONAME] if "amdhip64" in value else [])


def test_the_environment_can_be_ignored(
    installed: Path,
    load: Importer,
    loads: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROCM_SDK_PRELOAD_LIBRARIES", "nope")
    load("rocm_sdk").initialize_process(env_override=False)
    assert loads == []


def test_a_wrong_variable_is_named_with_its_value(
    installed: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_SDK_PRELOAD_LIBRARIES", "nope")
    with pytest.raises(
        RuntimeError, match=r"ROCM_SDK_PRELOAD_LIBRARIES='nope'.*unset it"
    ) as caught:
        load("rocm_sdk").initialize_process()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


@pytest.mark.parametrize(
    "wanted", ["10.1.0", "10.*", "*", "*.1.*", re.compile("10"), re.compile(r".+"), None]
)
def test_a_matching_version_is_silent(
    installed: Path, load: Importer, wanted: str | re.Pattern[str] | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("rocm_sdk").initialize_process(check_version=wanted, fail_on_version_mismatch=True)


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ("10.1", "10.1"),
        ("10.1.0.*", "10.1.0.*"),
        ("10?1?0", "10?1?0"),
        ("1.*.1.0", "1.*.1.0"),
        (re.compile("11"), "11"),
    ],
)
def test_another_version_is_a_warning_or_an_error(
    installed: Path, load: Importer, wanted: str | re.Pattern[str], shown: str
) -> None:
    # A compiled pattern that does not match was once an UnboundLocalError.
    message = (
        f"The program was compiled against a ROCm version matching '{shown}' but the installed "
        "ROCm version in this Python environment is 10.1.0."
    )
    initialize = load("rocm_sdk").initialize_process
    with pytest.raises(RuntimeError) as failed:
        initialize(check_version=wanted, fail_on_version_mismatch=True)
    assert str(failed.value) == message
    with pytest.warns(UserWarning) as warned:
        initialize(check_version=wanted)
    text = f"{message} This incompatibility may result in unexpected behavior"
    assert [str(warning.message) for warning in warned] == [text]
    assert warned[0].filename == __file__


def test_unknown_parameters_are_ignored_but_not_silently(installed: Path, load: Importer) -> None:
    with pytest.warns(UserWarning, match="unknown parameters: check_versoin"):
        load("rocm_sdk").initialize_process(check_versoin="9.*")


@pytest.mark.posix
def test_a_targeted_distribution_uses_the_target_of_the_machine(
    site: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = Sdk(available=("gfx110X-all", "gfx94X-dcgpu"), split=False)
    sdk.rocm().unpack(site)
    library = site / "_rocm_sdk_libraries_gfx94X_dcgpu/lib/librccl.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "gfx942")
    assert load("rocm_sdk").find_libraries("rccl") == [library]


def test_nothing_is_printed_by_an_import(installed: Path) -> None:
    result = run(installed, "-W", "error", "-c", "import rocm_sdk, rocm_sdk._devel")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert module("_problem").DevelError.__mro__[1] is ImportError
