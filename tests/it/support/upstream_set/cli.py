"""What the console scripts call."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path


def run(package, relpath):
    if importlib.util.find_spec("rocm_sdk_devel") and package == "_rocm_sdk_core":
        if not importlib.util.find_spec("_rocm_sdk_devel"):
            subprocess.check_call([sys.executable, "-m", "rocm_sdk", "init", "--quiet"])
        package = "_rocm_sdk_devel"
    program = Path(importlib.import_module(package).__file__).parent / relpath
    os.execv(program, [str(program), *sys.argv[1:]])
