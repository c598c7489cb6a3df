"""The whole way: the packages of the built-in sample, from an index into an environment."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sdk import ROOT
from venvs import Venv

pytestmark = pytest.mark.posix

ALL = "rocm[libraries,devel,device-gfx942,profiler]"
INSTALLERS = ["pip", "uv-hardlink"]

# `rocm-sdk test` starts a program for each library, so that the tests with it take the longest. One
# installer each shows what differs by version of Python.
SLOW_PIP = [pytest.param("pip", marks=pytest.mark.slow), "uv-hardlink"]
SLOW_UV = ["pip", pytest.param("uv-hardlink", marks=pytest.mark.slow)]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name it has)
        pass


@pytest.fixture(scope="session")
def published() -> Path:
    """The directory that holds `dist` and `simple`."""
    place = os.environ.get("ROCWHEEL_PUBLISHED")
    assert place, "the sample is published by `.ci/run tests`"
    return Path(place)


@pytest.fixture(scope="session")
def index(published: Path) -> Iterator[str]:
    with served(published) as index:
        yield index


@pytest.fixture(scope="session")
def legacy_index() -> Iterator[str]:
    """The same sample with the device code inside of the libraries, for one family."""
    with served(Path(os.environ["ROCWHEEL_PUBLISHED_LEGACY"])) as index:
        yield index


@contextmanager
def served(directory: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple/"
    server.shutdown()
    thread.join()


def install(venv: Venv, index: str, *names: str, **env: str) -> str:
    """Nothing but the index is asked: `rocm` needs no other package, not even to be built."""
    return venv.install("--index-url", index, "--pre", *names, env=env)


@pytest.fixture(params=INSTALLERS)
def venv(request: pytest.FixtureRequest, tmp_path: Path) -> Venv:
    return Venv(tmp_path / "venv", request.param).create()


def device_files(published: Path, target: str) -> list[str]:
    (wheel,) = published.glob(f"dist/rocm_sdk_device_{target}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = "_rocm_sdk_libraries/"
    return [
        name.removeprefix(top)
        for name in names
        if name.startswith(top) and ".devel_links" not in name
    ]


@pytest.mark.whole
@pytest.mark.parametrize("venv", SLOW_PIP, indirect=True)
def test_everything_installs_and_passes_its_own_test(venv: Venv, index: str) -> None:
    install(venv, index, ALL)
    out = venv.try_("rocm-sdk", "test", "--json")
    summary = json.loads(out.stdout)
    assert out.returncode == 0, out.stderr
    assert summary["failed"] == []
    tested = {name.split(".")[0] for name in summary["passed"]}
    assert tested == {"base", "core", "libraries", "device", "devel", "profiler"}
    assert venv.run("rocm-sdk", "targets").strip() == "gfx1100;gfx942"


def test_targets_come_and_go(venv: Venv, index: str, published: Path) -> None:
    install(venv, index, "rocm[libraries,devel,device-gfx942]")
    root = venv.site / ROOT
    assert venv.run("rocm-sdk", "path", "--root") == f"{root}\n"
    install(venv, index, "rocm[device-gfx1100]")
    assert venv.run("rocm-sdk", "path", "--root") == f"{root}\n"
    for target in ("gfx942", "gfx1100"):
        for path in device_files(published, target):
            assert (root / path).is_file(), path
    venv.uninstall("rocm-sdk-device-gfx942")
    assert not [path for path in device_files(published, "gfx942") if (root / path).exists()]
    code = "import rocm_sdk; print(len(rocm_sdk.find_libraries('hipblas', 'rccl', 'amdhip64')))"
    assert venv.run("python", "-c", code) == "3\n"


@pytest.mark.slow
def test_uninstalling_everything_leaves_nothing(venv: Venv, index: str) -> None:
    before = sorted(path.name for path in venv.site.iterdir())
    install(venv, index, ALL)
    venv.run("rocm-sdk", "init", "--quiet")
    names = [path.name.split("-")[0] for path in venv.site.glob("roc*.dist-info")]
    assert len(names) == 6
    venv.uninstall(*names)
    # pip leaves empty directories where two packages met.
    left = [path for path in venv.site.rglob("*") if not path.is_dir()]
    assert [path for path in left if path.relative_to(venv.site).parts[0] not in before] == []


@pytest.mark.slow
def test_eight_at_once_succeed(venv: Venv, index: str) -> None:
    install(venv, index, "rocm[libraries,devel,device-gfx942]")
    running = [
        subprocess.Popen(
            [str(venv.root / "bin/rocm-sdk"), "path", "--root"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, f"{venv.site / ROOT}\n"), err


@pytest.mark.slow
def test_the_environment_chooses_the_device_extra(venv: Venv, index: str) -> None:
    install(venv, index, "rocm[libraries,device]", ROCM_SDK_TARGET_FAMILY="gfx1100")
    assert list(venv.site.glob("rocm_sdk_device_gfx1100-*.dist-info"))
    assert not list(venv.site.glob("rocm_sdk_device_gfx942-*.dist-info"))


@pytest.mark.slow
def test_development_files_without_libraries_say_what_to_install(venv: Venv, index: str) -> None:
    install(venv, index, "rocm[devel]")
    out = venv.try_("rocm-sdk", "path", "--root")
    if not list(venv.site.glob("rocm_sdk_libraries-*.dist-info")):
        assert (out.returncode, out.stdout) == (1, "")
        assert "development files belong to rocm-sdk-libraries" in out.stderr
        install(venv, index, "rocm[libraries]")
        out = venv.try_("rocm-sdk", "path", "--root")
    assert (out.returncode, out.stdout) == (0, f"{venv.site / ROOT}\n")


@pytest.mark.whole
@pytest.mark.parametrize("venv", SLOW_UV, indirect=True)
def test_a_set_with_device_code_inside_installs_and_passes_too(
    venv: Venv, legacy_index: str
) -> None:
    before = sorted(path.name for path in venv.site.iterdir())
    install(venv, legacy_index, "rocm[libraries,devel,profiler]")
    out = venv.try_("rocm-sdk", "test", "--json")
    summary = json.loads(out.stdout)
    assert out.returncode == 0, out.stderr
    assert summary["failed"] == []
    assert {"test": "device", "reason": "no package of device code is installed"} in (
        summary["skipped"]
    )
    names = [path.name.split("-")[0] for path in venv.site.glob("roc*.dist-info")]
    assert "rocm_sdk_libraries_gfx94x_dcgpu" in names
    code = "import rocm_sdk; print(rocm_sdk.find_libraries('hipblas')[0].is_file())"
    assert venv.run("python", "-c", code) == "True\n"
    venv.uninstall(*names)
    left = [path for path in venv.site.rglob("*") if not path.is_dir()]
    assert [path for path in left if path.relative_to(venv.site).parts[0] not in before] == []


def test_a_version_has_one_owner_for_each_file(published: Path) -> None:
    owners: dict[str, str] = {}
    for wheel in sorted(published.glob("dist/*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                assert name not in owners, f"{name}: {owners[name]} and {wheel.name}"
                owners[name] = wheel.name
    assert owners["_rocm_sdk_libraries/__init__.py"].startswith("rocm_sdk_libraries-")
