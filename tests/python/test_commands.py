"""`rocm-sdk`, and the programs that stand for those of ROCm."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Importer
from sdk import ROOT, SOURCES, Sdk, environment, rocm_sdk, run
from wheels import Wheel, uninstall


def script(
    site: Path, name: str, *arguments: str, package: str = "rocm_sdk_core"
) -> subprocess.CompletedProcess[str]:
    """Calls a console script as the launcher of an installer does."""
    code = (
        f"import sys; sys.argv[0] = {name!r}; from {package}._cli import {name}; sys.exit({name}())"
    )
    return run(site, "-c", code, *arguments)


def test_version_and_targets_are_single_lines(site: Path) -> None:
    Sdk(available=("gfx942", "gfx1100")).install(site)
    assert rocm_sdk(site, "version") == "10.1.0\n"
    assert rocm_sdk(site, "targets") == "gfx942;gfx1100\n"
    assert rocm_sdk(site, "targets", "--separator", " ") == "gfx942 gfx1100\n"


def test_help_names_the_commands(site: Path) -> None:
    Sdk().rocm().unpack(site)
    text = rocm_sdk(site, "--help")
    assert text.startswith("usage: rocm-sdk {command} ...\n")
    for command in ("path", "init", "test", "version", "targets"):
        assert re.search(rf"^ +{command} ", text, re.MULTILINE), command


@pytest.mark.parametrize(
    "arguments", [[], ["nope"], ["path"], ["path", "--bin", "--root"], ["version", "--nope"]]
)
def test_wrong_usage_is_said_on_stderr(site: Path, arguments: list[str]) -> None:
    Sdk().rocm().unpack(site)
    result = run(site, "-m", "rocm_sdk", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "usage: rocm-sdk" in result.stderr
    # A subcommand shows its own usage.
    assert "{command} ... " not in result.stderr


@pytest.mark.parametrize("content", [None, "", "{}", "[]"])
def test_targets_without_the_file_are_an_error(installed: Path, content: str | None) -> None:
    facts = installed / "_rocm_sdk_core/share/therock/dist_info.json"
    if content is None:
        facts.unlink()
    else:
        facts.write_text(content)
    result = run(installed, "-m", "rocm_sdk", "targets")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("ERROR: no targets in ")


@pytest.mark.posix
def test_a_tool_runs_from_core_without_development_files(installed: Path) -> None:
    uninstall(installed, "rocm-sdk-devel")
    result = script(installed, "amdclang", "-c", "a b.c", "it's")
    program = installed / "_rocm_sdk_core/lib/llvm/bin/amdclang"
    assert result.stdout == f"amdclang {program} -c a b.c it's\n"
    assert result.stderr == ""


@pytest.mark.posix
def test_a_tool_for_building_expands_first(installed: Path) -> None:
    result = script(installed, "hipcc", "--version")
    assert result.stdout == f"hipcc {installed / ROOT}/bin/hipcc --version\n"


@pytest.mark.posix
@pytest.mark.parametrize("name", ["offload_arch", "rocm_info"])
def test_a_question_about_the_machine_expands_nothing(installed: Path, name: str) -> None:
    # `pip install rocm` asks for the target, and must not unpack gigabytes.
    result = script(installed, name)
    assert result.returncode == 0, result.stderr
    assert "_rocm_sdk_core" in result.stdout
    assert not (installed / ROOT).exists()
    rocm_sdk(installed, "init")
    if name == "offload_arch":
        assert ROOT in script(installed, name).stdout


def test_asking_for_the_target_expands_nothing(installed: Path, tmp_path: Path) -> None:
    scripts = tmp_path / "bin"
    scripts.mkdir()
    launcher = scripts / "offload-arch"
    code = "from rocm_sdk_core._cli import offload_arch; offload_arch()"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}"\n')
    launcher.chmod(0o755)
    path = {"PATH": f"{scripts}:/usr/bin:/bin"}
    code = "import rocm_sdk._dist_info as d; print(d._targets_of_offload_arch())"
    assert run(installed, "-c", code, env=path).returncode == 0
    assert not (installed / ROOT).exists()


def test_an_expansion_that_fails_says_why(installed: Path) -> None:
    (installed / "rocm_sdk_devel/_devel.tar").write_bytes(b"damaged")
    result = script(installed, "hipcc")
    assert (result.returncode, result.stdout) == (1, "")
    assert "ERROR: running init:" in result.stderr
    assert "ERROR: Failed to expand rocm[devel] package." in result.stderr


@pytest.mark.posix
def test_what_is_left_of_uninstalled_development_files_is_not_used(installed: Path) -> None:
    rocm_sdk(installed, "init")
    (installed / ROOT / "left-over").touch()
    (installed / "rocm_sdk_devel/__pycache__").mkdir(exist_ok=True)
    (installed / "rocm_sdk_devel/__pycache__/left-over.pyc").touch()
    uninstall(installed, "rocm-sdk-devel")
    result = script(installed, "hipcc")
    assert "_rocm_sdk_core/bin/hipcc" in result.stdout
    assert "WARNING: rocm_sdk_devel is only a left-over directory; falling back to core." in (
        result.stderr
    )
    # And once it is installed again, it is expanded again.
    Sdk().devel().unpack(installed)
    assert f"{ROOT}/bin/hipcc" in script(installed, "hipcc").stdout


@pytest.mark.posix
def test_a_tool_that_is_not_there_is_named(installed: Path) -> None:
    # These had entry points that led nowhere, and an ImportError.
    for name in ("roc_obj", "roc_obj_ls", "roc_obj_extract"):
        result = script(installed, name)
        assert result.returncode == 1
        assert "Traceback" not in result.stderr
        assert f"bin/{name.replace('_', '-')}: No such file or directory" in result.stderr


def test_windows_runs_a_child_with_its_arguments_and_exit_code(
    installed: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = load("rocm_sdk_core._cli")
    commands: list[list[str]] = []

    def run_child(command: list[str]) -> int:
        commands.append(command)
        return 7

    monkeypatch.setattr(cli, "_run_child", run_child)
    monkeypatch.setattr("sys.argv", ["rocminfo", "a b"])
    with monkeypatch.context() as patch:
        patch.setattr("sys.platform", "win32")
        with pytest.raises(SystemExit) as caught:
            cli.rocm_info()
    assert caught.value.code == 7
    assert commands == [[str(installed / "_rocm_sdk_core/bin/rocminfo.exe"), "a b"]]


@pytest.mark.posix
def test_a_child_decides_what_an_interrupt_means(installed: Path) -> None:
    code = (
        "import sys; from rocm_sdk_core._cli import _run_child\n"
        "child = 'import signal, sys, time\\n'\n"
        "child += 'signal.signal(signal.SIGINT, lambda *_: sys.exit(9))\\n'\n"
        # One long sleep could begin just after the signal came.
        "child += 'print(1, flush=True)\\nwhile True: time.sleep(0.01)'\n"
        "sys.exit(_run_child([sys.executable, '-c', child]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(installed),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 9
    process.stdout.close()


def profiler(site: Path, nonce: str = "") -> None:
    Sdk(nonce=nonce).core({"lib/rocm_sysdeps/lib/libx.so": b""}).unpack(site)
    show = b'#!/bin/sh\necho "$@" "LD=$LD_LIBRARY_PATH" "PY=$PYTHONPATH"\n'
    root = f"_rocm_profiler{nonce}"
    files = {
        f"{root}/__init__.py": b"",
        f"{root}/bin/rocprof-compute": show,
        f"{root}/lib/libx.so": b"",
        f"{root}/libexec/rocprofiler-compute/x.py": b"",
        **Sdk(nonce=nonce).pure("rocm_profiler", "profiler"),
    }
    Wheel("rocm-profiler", "10.1.0", files, executables={f"{root}/bin/rocprof-compute"}).unpack(
        site
    )


@pytest.mark.posix
@pytest.mark.parametrize("nonce", ["", "_v1"])
def test_a_profiler_finds_its_libraries_and_modules_first(site: Path, nonce: str) -> None:
    profiler(site, nonce)
    code = "from rocm_profiler._cli import rocprof_compute; rocprof_compute()"
    own = str(site / f"_rocm_profiler{nonce}")
    result = run(site, "-c", code, "profile", env={"LD_LIBRARY_PATH": f"/x:{own}/lib"})
    libexec = f"{own}/libexec/rocprofiler-compute"
    sysdeps = f"{site}/_rocm_sdk_core{nonce}/lib/rocm_sysdeps/lib"
    # What the user put into a place stays there.
    assert result.stdout == f"profile LD={sysdeps}:/x:{own}/lib PY={libexec}:{site}\n"
    result = run(site, "-c", code, env={"LD_LIBRARY_PATH": ""})
    assert f"LD={own}/lib:{sysdeps} PY" in result.stdout


@pytest.mark.posix
def test_a_profiler_that_is_not_there_is_named(site: Path) -> None:
    profiler(site)
    result = run(site, "-c", "from rocm_profiler._cli import rocprof_sys_run as r; r()")
    assert result.returncode == 1
    assert "FileNotFoundError: Profiler tool not found: " in result.stderr


def test_profilers_are_not_for_windows(
    site: Path, load: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler(site)
    cli = load("rocm_profiler._cli")
    with monkeypatch.context() as patch:
        patch.setattr("sys.platform", "win32")
        with pytest.raises(RuntimeError, match="rocm-profiler is not supported on Windows"):
            cli.rocprof_compute()


def test_every_console_script_leads_to_a_function(site: Path, load: Importer) -> None:
    Sdk().install(site)
    profiler(site)
    catalog = (SOURCES.parent / "packages.toml").read_text("utf-8")
    rows = re.findall(r'{ name = "(.*?)", runs = .*?(?:function = "(\w+)".*)?}', catalog)
    assert len(rows) > 30
    for name, given in rows:
        module = "rocm_profiler" if name.startswith("rocprof-") else "rocm_sdk_core"
        function = given or name.replace("+", "p").replace("-", "_")
        assert callable(getattr(load(f"{module}._cli"), function)), f"{module}: {function}"
