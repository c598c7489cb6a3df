"""Console scripts of the profilers: each becomes the program of the same name.

The functions that follow this text are generated from the scripts of the package.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import NoReturn

from . import _dist_info


def _run(relpath: str) -> NoReturn:
    if sys.platform == "win32":
        raise RuntimeError("rocm-profiler is not supported on Windows.")
    program = _root("profiler") / relpath
    if not program.exists():
        raise FileNotFoundError(f"Profiler tool not found: {program}")
    os.execve(program, [str(program), *sys.argv[1:]], _environment(dict(os.environ)))


def _environment(env: dict[str, str]) -> dict[str, str]:
    """The environment with the profilers' own libraries and modules in front."""
    profiler, core = _root("profiler"), _root("core")
    libraries = [profiler / "lib", core / "lib" / "rocm_sysdeps" / "lib"]
    _prepend(env, "LD_LIBRARY_PATH", libraries)
    _prepend(env, "PYTHONPATH", [profiler / "libexec" / "rocprofiler-compute"])
    return env


def _prepend(env: dict[str, str], name: str, directories: list[Path]) -> None:
    old = env.get(name, "")
    present = old.split(os.pathsep) if old else []
    new = [str(path) for path in directories if path.is_dir()]
    joined = [path for path in new if path not in present] + present
    if joined:
        env[name] = os.pathsep.join(joined)


def _root(logical_name: str) -> Path:
    name = _dist_info.ALL_PACKAGES[logical_name].get_py_package_name()
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is not installed", name=name)
    return Path(next(iter(spec.submodule_search_locations)))
