"""The command `rocm-sdk`, and how a process is prepared for ROCm."""

from __future__ import annotations

import unittest

from .. import __version__
from . import utils

_PRELOAD = "ROCM_SDK_PRELOAD_LIBRARIES"
_LOADED = "import rocm_sdk; rocm_sdk.initialize_process({}); print(*sorted(rocm_sdk._ALL_CDLLS))"
_MISMATCH = "The program was compiled against a ROCm version matching"


class CommandTest(unittest.TestCase):
    def testCLI(self) -> None:
        ran = utils.run_cli("--help")
        self.assertEqual(ran.code, 0, ran.said)
        self.assertIn("usage:", ran.out)

    def testVersion(self) -> None:
        ran = utils.run_cli("version")
        self.assertEqual((ran.code, ran.out), (0, f"{__version__}\n"), ran.said)

    def testTargets(self) -> None:
        ran = utils.run_cli("targets")
        self.assertEqual(ran.code, 0, ran.said)
        if not ran.out.strip():
            self.skipTest("this build has no GPU targets")
        self.assertIn("gfx", ran.out)


class PreloadTest(unittest.TestCase):
    def loaded(self, arguments: str, variable: str | None = None) -> list[str]:
        ran = utils.run_python(_LOADED.format(arguments), env={_PRELOAD: variable})
        self.assertEqual(ran.code, 0, ran.said)
        return ran.out.split()

    def testPreloadByArgument(self) -> None:
        self.assertEqual(self.loaded("preload_shortnames=['amdhip64']"), ["amdhip64"])

    def testPreloadByEnvironment(self) -> None:
        self.assertEqual(self.loaded("", "amdhip64"), ["amdhip64"])

    def testPreloadByEnvironmentWithCommas(self) -> None:
        self.assertEqual(self.loaded("", " ,amdhip64, ,hiprtc,"), ["amdhip64", "hiprtc"])

    def testPreloadByEnvironmentWithSemicolons(self) -> None:
        self.assertEqual(self.loaded("", "amdhip64;hiprtc"), ["amdhip64", "hiprtc"])

    def testEnvironmentCanBeIgnored(self) -> None:
        self.assertEqual(self.loaded("env_override=False", "amdhip64"), [])


class VersionCheckTest(unittest.TestCase):
    def check(self, arguments: str) -> utils.Ran:
        code = f"import re, rocm_sdk; rocm_sdk.initialize_process({arguments})"
        return utils.run_python(code, env={_PRELOAD: None})

    def testMatches(self) -> None:
        for pattern in (repr(__version__), "'*'", "re.compile('.+')"):
            with self.subTest(pattern=pattern):
                ran = self.check(f"check_version={pattern}, fail_on_version_mismatch=True")
                self.assertEqual((ran.code, ran.said), (0, ""))

    def testMismatchIsAnError(self) -> None:
        for pattern in ("'0.0.nope'", "re.compile('nope')"):
            with self.subTest(pattern=pattern):
                ran = self.check(f"check_version={pattern}, fail_on_version_mismatch=True")
                self.assertEqual(ran.code, 1)
                self.assertIn(f"RuntimeError: {_MISMATCH}", ran.err)

    def testMismatchIsAWarning(self) -> None:
        ran = self.check("check_version='0.0.nope'")
        self.assertEqual(ran.code, 0, ran.said)
        self.assertIn(f"UserWarning: {_MISMATCH}", ran.err)
