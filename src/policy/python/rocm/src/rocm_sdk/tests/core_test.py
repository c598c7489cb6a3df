"""The runtime, its libraries and its tools."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import unittest
from pathlib import Path
from typing import NamedTuple

from .. import _dist_info
from . import utils

# Parts of paths of libraries that are no use on their own, such as those of a sanitizer.
_NOT_ALONE = (
    "clang_rt",
    "libLLVMOffload",
    "lib/roctracer",
    "share/roctracer",
    "lib/rocprofiler-sdk/",
    "libexec/rocprofiler-sdk/",
    "libpyrocpd",
    "libpyroctx",
    "libtest_linking_lib",
    "opencl",
)


class _Script(NamedTuple):
    arguments: tuple[str, ...]
    says: str = ""
    needs_gpu: bool = False


_SCRIPTS = {
    "amdclang": _Script(("--help",), "clang LLVM compiler"),
    "amdclang++": _Script(("--help",), "clang LLVM compiler"),
    "amdclang-cpp": _Script(("--help",), "clang LLVM compiler"),
    "amdclang-cl": _Script(("-help",), "clang LLVM compiler"),
    "amdflang": _Script(("--help",), "LLVM compiler"),
    "amdlld": _Script(("-flavor", "ld.lld", "--help"), "USAGE:"),
    "hipcc": _Script(("--help",), "clang LLVM compiler"),
    "hipconfig": _Script((), "HIP version:"),
    "hipify-clang": _Script(("--help",), "USAGE:"),
    "hipify-perl": _Script(("--help",), "USAGE:"),
    "amd-smi": _Script((), "AMD-SMI", needs_gpu=True),
    "rocm-smi": _Script((), "Management", needs_gpu=True),
    "rocm_agent_enumerator": _Script((), needs_gpu=True),
    "rocminfo": _Script((), needs_gpu=True),
    "hipInfo": _Script((), needs_gpu=True),
}


def core() -> Path:
    root = utils.root_of("core")
    assert root is not None, "rocm-sdk-core is not installed"
    return root


class CoreTest(unittest.TestCase):
    def testInstallationLayout(self) -> None:
        """`rocm_sdk` and the files of core are packages side by side."""
        self.assertTrue((core() / "__init__.py").is_file(), core())
        self.assertTrue((utils.SITE / "rocm_sdk" / "__init__.py").is_file())
        self.assertTrue(core().parent.samefile(utils.SITE))

    def testSharedLibrariesLoad(self) -> None:
        load, _ = utils.shared_libraries(core(), _NOT_ALONE)
        self.assertTrue(load, f"no libraries in {core()}")
        failures = utils.load_all(load)
        self.assertFalse(failures, utils.shown(failures, core()))

    def testPreloadLibraries(self) -> None:
        """Every library that has a short name can be loaded by it."""
        before = utils.runtime() if utils.WINDOWS else []
        for name, entry in _dist_info.ALL_LIBRARIES.items():
            with self.subTest(name):
                if not utils.is_installed(entry.package.logical_name):
                    self.skipTest(f"rocm-sdk-{entry.package.logical_name} is not installed")
                code = "import sys, rocm_sdk; rocm_sdk.preload_libraries(*sys.argv[1:])"
                ran = utils.run_python(code, *before, name)
                self.assertEqual(ran.code, 0, ran.said)


class FilesTest(unittest.TestCase):
    def testPromisedFilesAreThere(self) -> None:
        """What console scripts run and other code opens is in the installed packages."""
        for entry in _dist_info.ALL_FILES:
            name = entry.package.logical_name
            elsewhere = entry.sys_platform not in (None, sys.platform)
            # The development files are looked at once they are unpacked.
            if elsewhere or entry.optional or name == "devel" or not utils.is_installed(name):
                continue
            with self.subTest(entry.relpath):
                self.assertTrue(utils.holds(entry), f"{entry.package} lacks {entry.relpath}")


class ConsoleScriptsTest(unittest.TestCase):
    def testEveryScriptLeadsSomewhere(self) -> None:
        for name, call in utils.console_scripts("core").items():
            with self.subTest(name):
                self.assertIsNotNone(utils.console_script(name), f"{name} is not installed")
                module, _, function = call.partition(":")
                self.assertTrue(callable(getattr(importlib.import_module(module), function)))

    def testConsoleScripts(self) -> None:
        installed = utils.console_scripts("core")
        for name, script in _SCRIPTS.items():
            with self.subTest(name):
                if name not in installed:
                    self.skipTest(f"this build has no {name} for this platform")
                if script.needs_gpu and not utils.Options.gpu:
                    self.skipTest(f"{name} needs a GPU: use `rocm-sdk test --gpu`")
                path = utils.console_script(name)
                assert path is not None, f"{name} is not installed"
                ran = utils.run([str(path), *script.arguments])
                self.assertEqual(ran.code, 0, ran.said)
                self.assertIn(script.says, ran.said)
