"""The profilers."""

from __future__ import annotations

import shutil
import unittest
from pathlib import Path

from . import utils

_PLUGINS = ("librocprof-sys*.so.*", "libprofiler-hub*.so.*")


def profiler() -> Path:
    root = utils.root_of("profiler")
    assert root is not None, "rocm-profiler is not installed"
    return root


@unittest.skipIf(utils.WINDOWS, "the profilers are not for Windows")
class ProfilerTest(unittest.TestCase):
    def testInstallationLayout(self) -> None:
        self.assertTrue((profiler() / "__init__.py").is_file())
        self.assertTrue(profiler().parent.samefile(utils.SITE))

    def testLibrariesFindTheirDependencies(self) -> None:
        ldd = shutil.which("ldd")
        if ldd is None:
            self.skipTest("this system has no ldd")
        for path in sorted((profiler() / "lib").rglob("*.so*")):
            with self.subTest(path.name):
                ran = utils.run([ldd, str(path)], timeout=60)
                self.assertEqual(ran.code, 0, ran.said)
                self.assertNotIn("not found", ran.said)

    def testLibrariesHaveTheNamesToolsLookFor(self) -> None:
        lib = profiler() / "lib"
        found = [path for pattern in _PLUGINS for path in lib.glob(pattern)]
        self.assertTrue(found, f"none of {', '.join(_PLUGINS)} in {lib}")
        for path in found:
            with self.subTest(path.name):
                self.assertTrue(path.with_name(path.name.rpartition(".")[0]).exists())

    def testConsoleScripts(self) -> None:
        installed = utils.console_scripts("profiler")
        for name in ("rocprof-sys-sample", "rocprof-sys-run", "rocprof-sys-instrument"):
            with self.subTest(name):
                if name not in installed:
                    self.skipTest(f"this build has no {name}")
                path = utils.console_script(name)
                assert path is not None, f"{name} is not installed"
                ran = utils.run([str(path), "--version"])
                self.assertEqual(ran.code, 0, ran.said)
                self.assertIn(name, ran.said)
