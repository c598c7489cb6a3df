"""The device code: it is there, it is for the target that its package names, and for this GPU."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

from .. import _device_links, _dist_info, _installed
from .._record import Record
from .._versions import same_release
from . import utils


def target_of(package: _installed.Installed) -> str:
    return package.name.removeprefix("rocm-sdk-device-")


def payload(package: _installed.Installed) -> list[Path]:
    """The files that a device package brought itself."""
    name = _dist_info.ALL_PACKAGES["libraries"].get_py_package_name()
    return [
        utils.SITE / path
        for path in Record(package.record).paths()
        if path.startswith(f"{name}/") and "/.devel_links/" not in path
    ]


class DeviceTest(unittest.TestCase):
    def testVersions(self) -> None:
        for package in utils.devices():
            with self.subTest(package.name):
                same = same_release(package.version, _dist_info.__version__)
                self.assertTrue(same, f"{package.version} beside ROCm {_dist_info.__version__}")

    def testLibrariesAreInstalled(self) -> None:
        self.assertIsNotNone(utils.root_of("libraries"), "device code without rocm-sdk-libraries")

    def testPayloadIsThere(self) -> None:
        """Every recorded file exists, and some of them are for the target."""
        for package in utils.devices():
            with self.subTest(package.name):
                files = payload(package)
                self.assertTrue(files, f"{package.name} holds nothing")
                missing = [str(path) for path in files if not path.is_file()]
                self.assertFalse(missing, f"{len(missing)} files are missing")
                target = target_of(package)
                own = [path for path in files if target in path.relative_to(utils.SITE).as_posix()]
                self.assertTrue(
                    any(path.stat().st_size for path in own),
                    f"no file of {package.name} holds code for {target}",
                )

    def testListsForDevelAreTrue(self) -> None:
        for package in utils.devices():
            with self.subTest(package.name):
                root = utils.root_of("libraries")
                assert root is not None, "rocm-sdk-libraries is not installed"
                facts = json.loads(
                    (root / ".devel_links" / f"{target_of(package)}.json").read_text("utf-8")
                )
                # A name that the wheel leaves out links to the one that it ships.
                devel = _dist_info.ALL_PACKAGES["devel"].get_py_package_name()
                listed = [
                    _device_links.checked(utils.SITE / devel, link["relpath"], link["target"])
                    for link in facts["links"]
                ]
                missing = [link for link in listed if link is None or not link.source.is_file()]
                self.assertFalse(missing, f"{len(missing)} of {len(facts['links'])} are missing")

    def testDeviceCodeIsForThisGPU(self) -> None:
        """A GPU that no installed package has code for fails at the first kernel."""
        detected = _dist_info._detected_targets()
        if not detected:
            if utils.Options.gpu:
                self.fail("no GPU was found")
            self.skipTest("no GPU was found")
        installed = {target_of(package) for package in utils.devices()}
        known = [_dist_info.base_target(target) for target in detected]
        self.assertTrue(
            installed.intersection(known),
            f"the GPUs are {', '.join(known)}, the device code is for "
            f"{', '.join(sorted(installed))}: " + _dist_info.install_command(f"device-{known[0]}"),
        )
