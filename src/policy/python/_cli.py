"""Console scripts: each becomes the program of the same name in this package."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from . import _dist_info


def _run(relpath: str) -> NoReturn:
    name = _dist_info.THIS_PACKAGE_ENTRY.get_py_package_name(_dist_info.THIS_TARGET_FAMILY)
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"ERROR: the package {name} is not installed")
    program = Path(next(iter(spec.submodule_search_locations))) / relpath
    arguments = sys.argv[1:]
    if sys.platform == "win32":
        sys.exit(subprocess.call([f"{program}.exe", *arguments]))
    os.execv(program, [str(program), *arguments])
