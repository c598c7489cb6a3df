"""The `rocm` sdist as the builder writes it: its metadata, and what installers make of it."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from sdk import Sdk
from venvs import Venv, must

SETS = ["both", "legacy", "none", "partial", "single"]


@pytest.fixture(params=SETS)
def sdist(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return copy_of(str(request.param), tmp_path)


@pytest.fixture
def both(tmp_path: Path) -> Path:
    return copy_of("both", tmp_path)


def copy_of(name: str, tmp_path: Path) -> Path:
    stage = os.environ.get("ROCWHEEL_SDISTS")
    assert stage, "the sdists are written by `.ci/run tests`"
    path = tmp_path / "rocm-10.1.0"
    shutil.copytree(Path(stage, name), path)
    return path


def without_gpu(tmp_path: Path, **more: str) -> dict[str, str]:
    """An environment in which nothing is detected; `gpu` is a program that detects."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ROCM_SDK_")}
    (tmp_path / "bin").mkdir(exist_ok=True)
    return {**env, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", **more}


def with_gpu(tmp_path: Path, target: str) -> dict[str, str]:
    env = without_gpu(tmp_path)
    program = tmp_path / "bin" / "offload-arch"
    program.write_text(f"#!/bin/sh\necho {target}\n")
    program.chmod(0o755)
    return env


def facts(text: str) -> dict[str, list[str]]:
    """What metadata says about requirements, with any tool as its writer."""
    message: Message = Parser().parsestr(text)
    return {
        name: sorted(normal(str(value)) for value in message.get_all(name, []))
        for name in ("Name", "Version", "Requires-Dist", "Provides-Extra", "Requires-Python")
    }


def normal(requirement: str) -> str:
    return requirement.replace("(", "").replace(")", "").replace("'", '"').replace(" ", "")


def setup(sdist: Path, env: Mapping[str, str], *arguments: str) -> str:
    must([sys.executable, "setup.py", "-q", *arguments], env, cwd=sdist)
    return ""


def test_the_metadata_is_what_the_installed_python_computes(sdist: Path, tmp_path: Path) -> None:
    code = "import rocm_build, sys; sys.stdout.write(rocm_build.metadata(None))"
    for env in (without_gpu(tmp_path), with_gpu(tmp_path, "gfx1201")):
        said = must([sys.executable, "-c", code], env, cwd=sdist)
        assert said == (sdist / "PKG-INFO").read_text()
    assert (sdist / "src/rocm.egg-info/PKG-INFO").read_text() == (sdist / "PKG-INFO").read_text()


@pytest.mark.parametrize("variable", ["", "gfx1201"])
def test_an_sdist_by_setuptools_says_the_same_on_every_machine(
    sdist: Path, tmp_path: Path, variable: str
) -> None:
    # Upstream's published metadata depends on the GPU of the machine that built it.
    env = {**with_gpu(tmp_path, "gfx1201"), "ROCM_SDK_TARGET_FAMILY": variable}
    ours = {
        name: (sdist / "src/rocm.egg-info" / name).read_text()
        for name in ("requires.txt", "entry_points.txt", "top_level.txt", "dependency_links.txt")
    }
    expected = facts((sdist / "PKG-INFO").read_text())
    shutil.rmtree(sdist / "src/rocm.egg-info")
    setup(sdist, env, "sdist", "--dist-dir", str(tmp_path / "dist"))
    archive = tmp_path / "dist" / "rocm-10.1.0.tar.gz"
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        content = tar.extractfile("rocm-10.1.0/PKG-INFO")
        assert content is not None
        assert facts(content.read().decode()) == expected
        for name, text in ours.items():
            content = tar.extractfile(f"rocm-10.1.0/src/rocm.egg-info/{name}")
            assert content is not None
            assert content.read().decode().strip() == text.strip(), name
    shipped = [path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if path.is_file()]
    missing = {f"rocm-10.1.0/{name}" for name in shipped} - set(names)
    assert {name for name in missing if "__pycache__" not in name} == set()


def test_setuptools_and_our_own_builder_agree_where_it_is_installed(
    sdist: Path, tmp_path: Path
) -> None:
    for env in (without_gpu(tmp_path), with_gpu(tmp_path, "gfx942")):
        setup(sdist, env, "egg_info")
        theirs = facts((sdist / "src/rocm.egg-info/PKG-INFO").read_text())
        code = "import rocm_build as b; print(b.prepare_metadata_for_build_wheel('meta'))"
        said = must([sys.executable, "-c", code], env, cwd=sdist).splitlines()
        ours = facts((sdist / "meta" / said[-1] / "METADATA").read_text())
        assert ours == theirs


@pytest.mark.posix
def test_the_machine_decides_when_it_is_installed(both: Path, tmp_path: Path) -> None:
    def extras(env: Mapping[str, str]) -> str:
        code = "import rocm_build as b; print(b.extras(b.choose()).get('device'))"
        return must([sys.executable, "-c", code], env, cwd=both)

    assert extras(with_gpu(tmp_path, "gfx942")) == "['rocm-sdk-device-gfx942==10.1.0']\n"
    env = {**with_gpu(tmp_path, "gfx942"), "ROCM_SDK_TARGET_FAMILY": "gfx1201"}
    assert extras(env) == "['rocm-sdk-device-gfx1201==10.1.0']\n"
    (tmp_path / "bin/offload-arch").unlink()
    said = extras(without_gpu(tmp_path))
    assert said.endswith("None\n")
    assert "no GPU of this release was found, so there is no extra `device`" in said


def test_a_wheel_is_the_same_each_time_and_says_what_was_promised(
    both: Path, tmp_path: Path
) -> None:
    code = (
        "import rocm_build as b, os; m = b.prepare_metadata_for_build_wheel('m')\n"
        "os.environ['ROCM_SDK_TARGET_FAMILY'] = 'gfx942'\n"
        "os.makedirs('a'); os.makedirs('b')\n"
        "b.build_wheel('a', None, 'm/' + m); b.build_wheel('b', None, 'm')"
    )
    must([sys.executable, "-c", code], without_gpu(tmp_path), cwd=both)
    name = "rocm-10.1.0-py3-none-any.whl"
    assert (both / "a" / name).read_bytes() == (both / "b" / name).read_bytes()
    with zipfile.ZipFile(both / "a" / name) as wheel:
        assert wheel.testzip() is None
        members = wheel.namelist()
        text = wheel.read("rocm-10.1.0.dist-info/METADATA").decode()
    assert "Provides-Extra: device\n" not in text
    assert "Dynamic" not in text
    assert members[-1] == "rocm-10.1.0.dist-info/RECORD"
    assert "rocm_sdk/tests/runner.py" in members
    assert "rocm_sdk/py.typed" in members


def archive_of(sdist: Path) -> Path:
    path = sdist.parent / "rocm-10.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(sdist, "rocm-10.1.0")
    return path


def wheelhouse(tmp_path: Path) -> Path:
    directory = tmp_path / "wheelhouse"
    directory.mkdir()
    sdk = Sdk(available=("gfx1100", "gfx1201", "gfx942"))
    for wheel in (sdk.core(), sdk.libraries(), sdk.devel(), sdk.device("gfx942")):
        wheel.write(directory)
    return directory


@pytest.mark.posix
@pytest.mark.parametrize("installer", ["pip", "uv-copy"])
@pytest.mark.parametrize("isolation", [True, False])
def test_it_installs_without_an_index_and_without_setuptools(
    both: Path, tmp_path: Path, installer: str, isolation: bool
) -> None:
    directory = wheelhouse(tmp_path)
    archive_of(both).rename(directory / "rocm-10.1.0.tar.gz")
    venv = Venv(tmp_path / "venv", installer).create()
    options = [] if isolation else ["--no-build-isolation"]
    venv.install(
        *["--no-index", "--find-links", str(directory), *options],
        "rocm[libraries,devel,device-gfx942]",
    )
    assert venv.run("rocm-sdk", "version") == "10.1.0\n"
    assert venv.run("rocm-sdk", "path", "--root").endswith("_rocm_sdk_devel\n")
    assert (venv.site / "_rocm_sdk_devel/lib/rocblas/library/gfx942.co").is_file()


@pytest.mark.posix
def test_an_unknown_gpu_is_a_warning_and_no_wrong_code(both: Path, tmp_path: Path) -> None:
    directory = wheelhouse(tmp_path)
    archive_of(both).rename(directory / "rocm-10.1.0.tar.gz")
    venv = Venv(tmp_path / "venv", "pip").create()
    said = venv.install("--no-index", "--find-links", str(directory), "rocm[device]")
    assert "rocm 10.1.0 does not provide the extra 'device'" in said
    assert not list(venv.site.glob("rocm_sdk_device*"))


def test_setuptools_alone_builds_it_too(both: Path, tmp_path: Path) -> None:
    setup(both, without_gpu(tmp_path), "bdist_wheel", "--dist-dir", str(tmp_path / "dist"))
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "rocm_sdk/__main__.py" in names
    assert "rocm_sdk/_dist_info.json" in names
    assert "rocm_sdk/py.typed" in names
    assert "rocm_sdk/tests/runner.py" in names
    assert not any(name.startswith("rocm_build") for name in names)


def test_build_makes_the_same_sdist_again(both: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    must(
        [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(out), "."],
        with_gpu(tmp_path, "gfx1201"),
        cwd=both,
    )
    with tarfile.open(out / "rocm-10.1.0.tar.gz") as tar:
        content = tar.extractfile("rocm-10.1.0/PKG-INFO")
        assert content is not None
        assert content.read() == (both / "PKG-INFO").read_bytes()
        assert "rocm-10.1.0/src/rocm_sdk/_dist_info.py" in tar.getnames()
        assert "rocm-10.1.0/src/rocm_sdk/_dist_info.json" in tar.getnames()
