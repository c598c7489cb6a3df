"""`rocm-sdk`."""

import argparse
import importlib
import json
from pathlib import Path

from . import __version__, _devel


def main():
    parser = argparse.ArgumentParser(prog="rocm-sdk", usage="rocm-sdk {command} ...")
    commands = parser.add_subparsers(dest="command", required=True)
    path = commands.add_parser("path").add_mutually_exclusive_group(required=True)
    for name in ("cmake", "bin", "root"):
        path.add_argument(f"--{name}", dest="path", action="store_const", const=name)
    commands.add_parser("init").add_argument("--quiet", action="store_true")
    for name in ("version", "targets"):
        commands.add_parser(name)
    arguments = parser.parse_args()
    if arguments.command == "version":
        print(__version__)
    elif arguments.command == "targets":
        core = Path(importlib.import_module("_rocm_sdk_core").__file__).parent
        print(
            json.loads((core / "share/therock/dist_info.json").read_text())["dist_amdgpu_targets"]
        )
    elif arguments.command == "init":
        root = _devel.get_devel_root()
        if not arguments.quiet:
            print(f"Devel contents expanded to '{root}'")
    else:
        root = _devel.get_devel_root()
        print({"cmake": root / "lib/cmake", "bin": root / "bin", "root": root}[arguments.path])


if __name__ == "__main__":
    main()
