"""What pip and uv do with the packages, before and after the development files are unpacked."""

from __future__ import annotations

from pathlib import Path

import pytest
from sdk import ROOT, SONAME, Sdk
from venvs import Venv

pytestmark = pytest.mark.posix

SDK = Sdk(available=("gfx1100", "gfx942"))
GFX942 = f"{ROOT}/lib/rocblas/library/gfx942.co"
INSTALLERS = [
    "pip",
    "uv-hardlink",
    pytest.param("uv-copy", marks=pytest.mark.slow),
    pytest.param("uv-symlink", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheelhouse")
    wheels = [SDK.rocm(), SDK.core(), SDK.libraries(), SDK.devel()]
    for wheel in [*wheels, SDK.device("gfx942"), SDK.device("gfx1100")]:
        wheel.write(directory)
    return directory


@pytest.fixture(params=INSTALLERS)
def venv(request: pytest.FixtureRequest, tmp_path: Path, wheelhouse: Path) -> Venv:
    venv = Venv(tmp_path / "venv", request.param).create()
    names = ["rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel"]
    install(venv, wheelhouse, *names, "rocm-sdk-device-gfx942")
    return venv


def install(venv: Venv, wheelhouse: Path, *names: str) -> None:
    venv.install("--no-index", "--find-links", str(wheelhouse), *names)


def left(venv: Venv) -> list[str]:
    """What is there of the development files, packed or unpacked."""
    return sorted(
        str(path) for top in venv.site.glob("*sdk_devel*") for path in [top, *top.rglob("*")]
    )


def test_expanding_and_uninstalling_leaves_nothing(venv: Venv, wheelhouse: Path) -> None:
    assert venv.run("rocm-sdk", "path", "--root") == f"{venv.site / ROOT}\n"
    assert (venv.site / GFX942).is_file()
    hip = venv.site / ROOT / "lib" / SONAME
    # Even where an installer put links to its cache, programs find the development files.
    assert hip.is_file()
    assert not hip.is_symlink()
    # What a compiler or an import leaves behind is not in RECORD.
    venv.run("python", "-c", f"import {ROOT}, rocm_sdk_devel")
    venv.uninstall("rocm-sdk-device-gfx942")
    assert not (venv.site / GFX942).exists()
    assert (venv.site / "_rocm_sdk_libraries/__init__.py").is_file()
    venv.uninstall("rocm-sdk-devel")
    assert left(venv) == []
    install(venv, wheelhouse, "rocm-sdk-devel", "rocm-sdk-device-gfx942")
    assert venv.run("rocm-sdk", "path", "--root") == f"{venv.site / ROOT}\n"
    assert (venv.site / GFX942).is_file()


def test_targets_come_and_go(venv: Venv, wheelhouse: Path) -> None:
    venv.run("rocm-sdk", "init", "--quiet")
    install(venv, wheelhouse, "rocm-sdk-device-gfx1100")
    venv.run("rocm-sdk", "init", "--quiet")
    gfx1100 = venv.site / GFX942.replace("gfx942", "gfx1100")
    assert gfx1100.is_file()
    venv.uninstall("rocm-sdk-device-gfx942")
    assert gfx1100.is_file()
    assert not (venv.site / GFX942).exists()
    code = "import rocm_sdk; print(rocm_sdk.find_libraries('amdhip64')[0].name)"
    assert venv.run("python", "-c", code) == "libamdhip64.so.7\n"


def test_a_second_environment_from_the_same_cache_is_whole(
    venv: Venv, wheelhouse: Path, tmp_path: Path
) -> None:
    # Files may be shared with a cache, so nothing installed may be written to.
    venv.run("rocm-sdk", "init", "--quiet")
    venv.uninstall("rocm-sdk-device-gfx942")
    second = Venv(tmp_path / "second", venv.installer).create()
    names = ["rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel"]
    install(second, wheelhouse, *names, "rocm-sdk-device-gfx942")
    (record,) = second.site.glob("rocm_sdk_devel-*.dist-info/RECORD")
    assert ROOT not in record.read_text().replace("rocm_sdk_devel/", "")
    assert second.run("rocm-sdk", "init", "--quiet") == ""
    assert (second.site / GFX942).is_file()


DYING = """
import os, signal, sys
from rocm_sdk import _devel
left = int(sys.argv[1])
def watch(event, _):
    global left
    if event.startswith(("open", "os.", "shutil.")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
_devel.get_devel_root()
"""


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["pip", "uv-copy"])
def test_killed_while_expanding_and_uninstalled_leaves_nothing(
    installer: str, tmp_path: Path, wheelhouse: Path
) -> None:
    venv = Venv(tmp_path / "venv", installer).create()
    install(venv, wheelhouse, "rocm", "rocm-sdk-core", "rocm-sdk-libraries")
    for step in (30, 50, 70):
        install(venv, wheelhouse, "rocm-sdk-devel")
        died = venv.try_("python", "-c", DYING, str(step))
        assert died.returncode == -9, died.stderr
        assert left(venv) != []
        venv.uninstall("rocm-sdk-devel")
        assert left(venv) == []
