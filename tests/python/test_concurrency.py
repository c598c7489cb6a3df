"""Many processes at once, and processes that die at any point."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Importer
from sdk import ROOT, Archive, Sdk, environment, rocm_sdk
from wheels import recorded, uninstall


def start(site: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(site),
        cwd=site.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("round_", range(3))
def test_eight_processes_at_once_all_succeed_and_one_expands(site: Path, round_: int) -> None:
    archive = Archive.usual(Sdk())
    archive.entries += [(f"include/many/{n}.h", b"x" * 100) for n in range(500)]
    for wheel in (Sdk().rocm(), Sdk().core(), Sdk().libraries(), Sdk().devel(archive)):
        wheel.unpack(site)
    for target in ("gfx942", "gfx1100"):
        Sdk().device(target).unpack(site)
    counted = "import rocm_sdk._expand as e\nreal = e._unpack\n"
    counted += "def unpack(*a):\n    print('expanded'); return real(*a)\n"
    counted += "e._unpack = unpack\nfrom rocm_sdk.__main__ import main; main(['path', '--root'])"
    running = [start(site, "-c", counted) for _ in range(8)]
    results = [(*process.communicate(timeout=120), process.returncode) for process in running]
    assert [code for _, _, code in results] == [0] * 8, results
    assert sum(out.count("expanded") for out, _, _ in results) == 1
    assert all(out.endswith(f"{site / ROOT}\n") for out, _, _ in results)
    for name in ("rocm-sdk-devel", "rocm-sdk-device-gfx942", "rocm-sdk-device-gfx1100"):
        rows = recorded(site, name)
        assert len(rows) == len(set(rows))
    assert (site / ROOT / "lib/rocblas/library/gfx1100.co").is_file()
    assert len(list((site / ROOT / "include/many").iterdir())) == 500


def test_a_process_that_waits_says_so_on_stderr_only(installed: Path) -> None:
    hold = "import time, rocm_sdk._lock as l, pathlib\n"
    hold += f"with l.exclusive(pathlib.Path({str(installed / 'rocm_sdk_devel/__init__.py')!r})):\n"
    hold += "    print('held', flush=True); time.sleep(60)"
    holder = start(installed, "-c", hold)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    waiter = start(installed, "-m", "rocm_sdk", "path", "--root")
    assert waiter.stderr is not None
    assert "waiting for another process" in waiter.stderr.readline()
    # The system frees the lock of a process that dies.
    holder.kill()
    out, _ = waiter.communicate(timeout=60)
    holder.communicate()
    assert (out, waiter.returncode) == (f"{installed / ROOT}\n", 0)


@pytest.mark.posix
def test_a_disk_without_locks_is_used_with_a_warning(
    installed: Path,
    load: Importer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert load("rocm_sdk._devel").get_devel_root() == installed / ROOT
    assert "cannot be locked (Function not implemented)" in capsys.readouterr().err


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    path = tmp_path / "pristine"
    sdk = Sdk()
    for wheel in (sdk.core(), sdk.libraries(), sdk.devel(), sdk.device("gfx942")):
        wheel.unpack(path)
    # What is copied at every step is only what can change.
    shutil.rmtree(path / "rocm_sdk_core")
    sdk.rocm().unpack(tmp_path / "code")
    return path


@pytest.mark.slow
@pytest.mark.posix
def test_killed_at_any_point_the_next_call_repairs(pristine: Path, site: Path) -> None:
    """The process kills itself at its first, second, third… step that the interpreter reports."""
    killed = 0
    for step in range(1, 2000):
        shutil.rmtree(site)
        copy_tree(pristine, site)
        if not dies(site, step):
            break
        killed += 1
        check_invariants(site)
        copy = site.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        copy_tree(site, copy)
        check_uninstall(copy)
        assert in_child(site, 0) == 0, f"not repaired after step {step}"
        check_complete(site)
    assert killed > 100


def copy_tree(source: Path, target: Path) -> None:
    # Files are replaced, never written to, so the copies may share them.
    def link(one: str, other: str) -> None:
        os.link(one, other, follow_symlinks=False)

    shutil.copytree(source, target, symlinks=True, copy_function=link)


def dies(site: Path, step: int) -> bool:
    status = in_child(site, step)
    assert status in (0, -signal.SIGKILL), status
    return status == -signal.SIGKILL


def in_child(site: Path, step: int) -> int:
    """Calls `get_devel_root` in a child, which dies at a step; 0 is never."""
    child = os.fork()
    if child == 0:
        try:
            sys.path[:0] = [str(site), str(site.with_name("code"))]
            sys.dont_write_bytecode = True
            from rocm_sdk import _devel

            left = step

            def watch(event: str, _: tuple[object, ...]) -> None:
                nonlocal left
                if event.startswith(("open", "os.", "shutil.")):
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            if step:
                sys.addaudithook(watch)
            _devel.get_devel_root()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_invariants(site: Path) -> None:
    """A reader of the final place sees everything or nothing."""
    root = site / ROOT
    if root.exists():
        assert (root / "__init__.py").is_file()
        assert (root / "llvm/bin/amdclang").is_file()


def check_uninstall(site: Path) -> None:
    uninstall(site, "rocm-sdk-device-gfx942")
    uninstall(site, "rocm-sdk-devel")
    # The work directory is made an instant before it is recorded, and is empty then.
    for path in site.glob(f"{ROOT}.part"):
        assert not any(child.name != "RECORD" for child in path.iterdir())
        shutil.rmtree(path)
    left = [path for path in site.glob(f"{ROOT}*") if any(p.is_file() for p in path.rglob("*"))]
    assert not [path for path in left if next(iter(path.rglob("*"))).name != ".RECORD.part"]


def check_complete(site: Path) -> None:
    root = site / ROOT
    assert not list(site.glob("*.part"))
    assert not (site / "rocm_sdk_devel/_devel.tar").exists()
    assert (root / "include/hip/hip_runtime.h").is_file()
    assert (root / "lib/rocblas/library/gfx942.co").samefile(
        site / "_rocm_sdk_libraries/lib/rocblas/library/gfx942.co"
    )
    uninstall(site, "rocm-sdk-device-gfx942")
    uninstall(site, "rocm-sdk-devel")
    left = list(site.glob(f"{ROOT}*"))
    assert left == [], [list(path.rglob("*")) for path in left]


@pytest.mark.slow
def test_killed_from_outside_at_any_time_the_next_call_repairs(site: Path) -> None:
    archive = Archive.usual(Sdk())
    archive.entries += [(f"include/many/{n}.h", b"x" * 1000) for n in range(500)]
    wheels = (Sdk().rocm(), Sdk().core(), Sdk().libraries(), Sdk().devel(archive))
    for attempt in range(8):
        for wheel in wheels:
            wheel.unpack(site)
        process = start(site, "-m", "rocm_sdk", "init")
        time.sleep(0.04 * attempt)
        process.kill()
        process.communicate()
        check_invariants(site)
        rocm_sdk(site, "init")
        assert len(list((site / ROOT / "include/many").iterdir())) == 500
