"""The math and communication libraries."""

from __future__ import annotations

import unittest
from pathlib import Path

from . import utils

# Modules for certain versions of Python load in those only.
_NOT_ALONE = (".abi3.so", ".cpython-")


def libraries() -> Path:
    root = utils.root_of("libraries")
    assert root is not None, "rocm-sdk-libraries is not installed"
    return root


class LibrariesTest(unittest.TestCase):
    def testInstallationLayout(self) -> None:
        """The libraries are a real package beside the others."""
        self.assertTrue((libraries() / "__init__.py").is_file(), "its `__init__.py` is missing")
        self.assertTrue(libraries().parent.samefile(utils.SITE))

    def testSharedLibrariesLoad(self) -> None:
        load, _ = utils.shared_libraries(libraries(), _NOT_ALONE)
        self.assertTrue(load, f"no libraries in {libraries()}")
        failures = utils.load_all(load, utils.runtime(), plugin_directories)
        self.assertFalse(failures, utils.shown(failures, libraries()))


def plugin_directories(path: Path) -> list[Path]:
    """Where Windows has to look for what a plugin needs."""
    is_plugin = any(part in path.as_posix() for part in ("hipdnn_plugins", "test_plugins"))
    return [path.parents[2]] if utils.WINDOWS and is_plugin else []
