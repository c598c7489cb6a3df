"""The development files."""

from __future__ import annotations

import os
import unittest
from pathlib import Path

from .. import _installed, _links, _manifest
from .._record import Record
from . import core_test, libraries_test, utils

_NOT_ALONE = (
    *core_test._NOT_ALONE,
    *libraries_test._NOT_ALONE,
    # Needs the Fortran runtime of the system.
    "libhipsolver_fortran",
)


def expanded() -> Path:
    ran = utils.run_cli("path", "--root")
    assert ran.code == 0, ran.said
    return Path(ran.out.rstrip("\r\n"))


class DevelTest(unittest.TestCase):
    def testInstallationLayout(self) -> None:
        root = expanded()
        self.assertTrue((root / "__init__.py").is_file())
        self.assertTrue(root.parent.samefile(utils.SITE))

    def testNothingIsMissing(self) -> None:
        """As many files as the manifest counts, and every recorded one on the disk."""
        root = expanded()
        package = _installed.find(utils.SITE, "rocm-sdk-devel")
        assert package is not None, "rocm-sdk-devel is not installed"
        rows = [row for row in Record(package.record).paths() if row.startswith(f"{root.name}/")]
        missing = [row for row in rows if not os.path.lexists(_links.long(utils.SITE / row))]
        self.assertFalse(missing, f"{len(missing)} of {len(rows)} recorded files are missing")
        manifest = _manifest.load(utils.SITE / "rocm_sdk_devel")
        if manifest is None:
            self.skipTest("this build has no manifest of its development files")
        self.assertGreaterEqual(len(rows), manifest.files + manifest.links)

    def testCLIPathBin(self) -> None:
        ran = utils.run_cli("path", "--bin")
        self.assertEqual(ran.out.rstrip("\r\n"), str(expanded() / "bin"), ran.said)

    def testCLIPathCMake(self) -> None:
        ran = utils.run_cli("path", "--cmake")
        self.assertEqual(ran.code, 0, ran.said)
        config = Path(ran.out.rstrip("\r\n")) / "hip" / "hip-config.cmake"
        self.assertTrue(config.is_file(), config)

    def testCLIPathRoot(self) -> None:
        self.assertTrue((expanded() / "bin").is_dir())

    def testCLIUsesDevelRootPath(self) -> None:
        if "hipconfig" not in utils.console_scripts("core"):
            self.skipTest("this build has no hipconfig")
        root = expanded()
        path = utils.console_script("hipconfig")
        assert path is not None, "hipconfig is not installed"
        ran = utils.run([str(path), "--rocmpath"])
        self.assertEqual(ran.code, 0, ran.said)
        said = Path(ran.out.strip())
        self.assertTrue(said.is_dir() and said.samefile(root), f"{said} is not {root}")

    @unittest.skipIf(utils.WINDOWS, "Windows has no such link")
    def testRootLLVMSymlinkExists(self) -> None:
        root = expanded()
        if not (root / "lib" / "llvm").is_dir():
            self.skipTest("this build has no compiler")
        self.assertTrue((root / "llvm" / "bin" / "clang++").exists(), root / "llvm")

    def testSharedLibrariesLoad(self) -> None:
        root = expanded()
        load, _ = utils.shared_libraries(root, _NOT_ALONE)
        self.assertTrue(load, f"no libraries in {root}")
        failures = utils.load_all(load, (), plugin_directories)
        self.assertFalse(failures, utils.shown(failures, root))

    def testLibrariesMirroredIntoDevel(self) -> None:
        """Every file of the libraries, device code included, is among the development files."""
        libraries = utils.root_of("libraries")
        if libraries is None or not utils.is_installed("libraries"):
            self.skipTest("rocm-sdk-libraries is not installed")
        root = expanded()
        missing = [
            str(path.relative_to(libraries))
            for path in libraries.rglob("*")
            if path.is_file()
            and path != libraries / "__init__.py"
            and not {"__pycache__", ".devel_links"} & set(path.relative_to(libraries).parts)
            and not _links.is_linked(path, root / path.relative_to(libraries))
        ]
        self.assertFalse(missing, f"{len(missing)} are missing or other files")


def plugin_directories(path: Path) -> list[Path]:
    directories = libraries_test.plugin_directories(path)
    core = utils.root_of("core")
    return [*directories, core / "bin"] if directories and core is not None else directories
