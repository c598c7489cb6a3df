"""Frameworks that are tied to ROCm: version, libraries and device code fit."""

from __future__ import annotations

import email.parser
import json
import re
import unittest
from pathlib import Path
from typing import Any

from .. import _dist_info, _installed
from .._record import Record
from .._versions import same_release
from . import utils

# Written when a framework is tied to ROCm.
_RECORD = "rocm_tie.json"
_DEVICE = re.compile(r"([A-Za-z0-9._-]+)==(\S+) *; *extra == [\"']device-(gfx[0-9a-z-]+)[\"']")


def tied() -> list[tuple[_installed.Installed, dict[str, Any]]]:
    """The installed frameworks, each with what is recorded of it."""
    packages = [
        package
        for package in _installed.installed(utils.SITE)
        if (package.directory / _RECORD).is_file()
    ]
    return [
        (package, json.loads((package.directory / _RECORD).read_text("utf-8")))
        for package in packages
    ]


def install_command(requirement: str) -> str:
    """What installs a pinned requirement. An installed package does not know its index."""
    return f'pip install --index-url INDEX_URL "{requirement}"'


def fits(requirement: str) -> bool:
    """Whether this ROCm is what a framework requires."""
    _, _, pin = requirement.partition("==")
    if pin.endswith(".*"):
        return f"{_dist_info.__version__}.".startswith(pin[:-1])
    return not pin or same_release(pin, _dist_info.__version__)


def device_packages(package: _installed.Installed) -> dict[str, str]:
    """The packages with the device code of a framework, by target. A whole framework has none.

    An extra may also require a package for a family of targets, which has no archives.
    """
    text = (package.directory / "METADATA").read_text("utf-8", errors="replace")
    lines = email.parser.HeaderParser().parsestr(text).get_all("Requires-Dist", [])
    found = [_DEVICE.fullmatch(str(line)) for line in lines]
    return {
        match[3]: _installed.normal(match[1])
        for match in found
        if match is not None
        and not match[1].startswith("rocm")
        and _installed.normal(match[1]).endswith(f"-{match[3]}")
    }


def dll_directories(package: _installed.Installed) -> list[Path]:
    """Where a framework has DLLs of its own, which its `__init__.py` makes known to Windows."""
    if not utils.WINDOWS:
        return []
    paths = [Path(utils.SITE, path) for path in Record(package.record).paths()]
    return sorted({path.parent for path in paths if path.suffix.lower() == ".dll"})


class FrameworksTest(unittest.TestCase):
    def testVersions(self) -> None:
        for package, facts in tied():
            with self.subTest(package.name):
                requirement = facts.get("requirement") or "rocm"
                self.assertTrue(
                    fits(requirement),
                    f"{package.name} {package.version} requires {requirement}, and ROCm "
                    f"{_dist_info.__version__} is installed: {install_command(requirement)}",
                )

    def testLibrariesLoad(self) -> None:
        """Without anything that was loaded before: by their run paths."""
        for package, facts in tied():
            with self.subTest(package.name):
                self.load(package, facts)

    def load(self, package: _installed.Installed, facts: dict[str, Any]) -> None:
        paths = [utils.SITE / path for path, _ in facts["run-paths"]]
        missing = [str(path) for path in paths if not path.is_file()]
        self.assertFalse(missing, f"{len(missing)} files are missing: {missing[:1]}")
        preload = facts["preload"] if utils.WINDOWS else ()
        directories = dll_directories(package)
        failures = utils.load_all(paths, preload, lambda _: directories)
        self.assertFalse(failures, utils.shown(failures, utils.SITE))

    def testDeviceCodeIsThere(self) -> None:
        """A split framework has the device code for this GPU, and all files of it."""
        detected = [_dist_info.base_target(name) for name in _dist_info._detected_targets()]
        for package, _ in tied():
            offered = device_packages(package)
            if not offered:
                continue
            with self.subTest(package.name):
                there = self.installed(package, offered)
                if not detected and not there:
                    self.skipTest(
                        f"no GPU was found, and no device code of {package.name} is installed"
                    )
                if not detected or set(there).intersection(detected):
                    continue
                has_some = [target for target in detected if target in offered]
                if not has_some:
                    self.fail(
                        f"the GPUs are {', '.join(detected)}, and {package.name} has device code "
                        f"for {', '.join(sorted(offered))}"
                    )
                wanted = f"{package.name}[device-{has_some[0]}]=={package.version}"
                self.fail(
                    f"the GPUs are {', '.join(detected)}, and no device code of {package.name} for "
                    f"them is installed: {install_command(wanted)}"
                )

    def installed(
        self, package: _installed.Installed, offered: dict[str, str]
    ) -> dict[str, _installed.Installed]:
        """The installed device code of a framework, complete and of its version."""
        there: dict[str, _installed.Installed] = {}
        for target, name in offered.items():
            device = _installed.find(utils.SITE, name)
            if device is None:
                continue
            there[target] = device
            self.assertEqual(
                device.version, package.version, f"{name} is of another version than {package.name}"
            )
            archives = [
                Path(utils.SITE, path)
                for path in Record(device.record).paths()
                if path.endswith(".kpack")
            ]
            missing = [str(path) for path in archives if not path.is_file()]
            self.assertTrue(archives and not missing, f"archives of {name} are missing: {missing}")
        return there
