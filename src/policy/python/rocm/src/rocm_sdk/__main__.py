"""The command `rocm-sdk`. Its stdout is for machines; everything it says goes to stderr."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import _dist_info
from ._libraries import package_root

_TARGETS_FILE = Path("share", "therock", "dist_info.json")


def main(argv: Sequence[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    sys.exit(arguments.run(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rocm-sdk",
        usage="rocm-sdk {command} ...",
        description="Finds, unpacks and tests the ROCm packages of this environment.",
    )
    commands = parser.add_subparsers(prog="rocm-sdk", required=True, metavar="{command}")

    path = commands.add_parser("path", help="print where ROCm is, for builds")
    kind = path.add_mutually_exclusive_group(required=True)
    kind.add_argument("--cmake", action="store_const", dest="below", const="lib/cmake")
    kind.add_argument("--bin", action="store_const", dest="below", const="bin")
    kind.add_argument("--root", action="store_const", dest="below", const="")
    path.set_defaults(run=_path)

    init = commands.add_parser("init", help="unpack the development files")
    init.add_argument("--quiet", action="store_true", help="say nothing when done")
    init.set_defaults(run=_init)

    test = commands.add_parser("test", help="test the installed packages")
    test.add_argument("--gpu", action="store_true", help="also test what needs a GPU")
    test.add_argument("--json", action="store_true", help="print the summary as JSON")
    test.add_argument(
        "-k",
        dest="patterns",
        action="append",
        metavar="PATTERN",
        help="only tests whose name has this in it; may be repeated",
    )
    test.set_defaults(run=_test)

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)

    targets = commands.add_parser("targets", help="print the GPU targets of this build")
    targets.add_argument("--separator", default=";", help="between two targets (`;`)")
    targets.set_defaults(run=_targets)
    return parser


def _path(arguments: argparse.Namespace) -> int:
    from . import _devel

    try:
        root = _devel.get_devel_root()
    except ImportError as error:
        return _failed(f"could not locate the development files: {error}")
    print(root / arguments.below if arguments.below else root)
    return 0


def _init(arguments: argparse.Namespace) -> int:
    from . import _devel

    try:
        was_expanded = _devel.has_expanded()
        root = _devel.get_devel_root()
    except ImportError as error:
        return _failed(f"running init: {error}")
    if not arguments.quiet:
        already = "already " if was_expanded else ""
        print(f"Devel contents {already}expanded to '{root}'")
    return 0


def _test(arguments: argparse.Namespace) -> int:
    from .tests import runner

    return runner.run(gpu=arguments.gpu, as_json=arguments.json, patterns=arguments.patterns)


def _version(_arguments: argparse.Namespace) -> int:
    print(_dist_info.__version__)
    return 0


def _targets(arguments: argparse.Namespace) -> int:
    root = package_root(_dist_info.ALL_PACKAGES["core"])
    if root is None:
        return _failed("rocm-sdk-core is not installed")
    try:
        facts = json.loads((root / _TARGETS_FILE).read_text("utf-8"))
        targets = str(facts["dist_amdgpu_targets"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return _failed(f"no targets in {root / _TARGETS_FILE}: {error!r}")
    print(targets.replace(";", arguments.separator))
    return 0


def _failed(message: str) -> int:
    print(f"ERROR: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
