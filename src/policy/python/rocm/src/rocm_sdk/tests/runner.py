"""Runs the tests of what is installed, and says what was left out and why."""

from __future__ import annotations

import importlib
import json
import sys
import unittest
from collections.abc import Sequence
from typing import Any

from .. import __version__, _dist_info
from . import frameworks_test, utils


def run(*, gpu: bool, as_json: bool, patterns: Sequence[str] | None) -> int:
    """Everything is said on stderr; stdout gets the summary as JSON if that is wanted."""
    utils.Options.gpu = gpu
    left_out = _left_out()
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*" for pattern in patterns] if patterns else None
    suite = unittest.TestSuite()
    parts = ["base", "core", "libraries", "device", "devel", "profiler"]
    if frameworks_test.tied():
        parts.append("frameworks")
    for name in parts:
        if name not in left_out:
            module = importlib.import_module(f"{__package__}.{name}_test")
            suite.addTests(loader.loadTestsFromModule(module))
    runner = unittest.TextTestRunner(
        sys.stderr, descriptions=False, verbosity=2, resultclass=_Result
    )
    result = runner.run(suite)
    assert isinstance(result, _Result)
    summary = _summary(result, left_out)
    _say(summary)
    if as_json:
        print(json.dumps(summary, indent=2))
    return 0 if summary["ok"] else 1


class _Result(unittest.TextTestResult):
    """A result that also knows what passed: whatever ran and neither failed nor was skipped."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.started: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.started.append(test.id())

    def passed(self) -> list[str]:
        bad = {_case(test).id() for test, _ in [*self.failures, *self.errors]}
        # A test of which only parts were skipped has passed with the others.
        bad |= {test.id() for test, _ in self.skipped}
        return [_name(name) for name in self.started if name not in bad]


def _left_out() -> dict[str, str]:
    """The parts that are not tested, and why."""
    reasons: dict[str, str] = {}
    if not utils.is_installed("libraries"):
        reasons["libraries"] = "rocm-sdk-libraries is not installed"
    if not utils.devices():
        reasons["device"] = "no package of device code is installed"
    if not utils.is_installed("devel"):
        reasons["devel"] = "rocm-sdk-devel is not installed"
    if not utils.is_installed("profiler"):
        reasons["profiler"] = "rocm-profiler is not installed"
    return reasons


def _summary(result: _Result, left_out: dict[str, str]) -> dict[str, Any]:
    skipped = [{"test": name, "reason": reason} for name, reason in left_out.items()]
    skipped += [{"test": _name(test.id()), "reason": reason} for test, reason in result.skipped]
    failed = [
        {"test": _name(test.id()), "message": text.strip().splitlines()[-1]}
        for test, text in [*result.failures, *result.errors]
    ]
    passed = result.passed()
    return {
        # Tests that found nothing to do have shown nothing.
        "ok": result.wasSuccessful() and bool(passed),
        "version": __version__,
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
    }


def _say(summary: dict[str, Any]) -> None:
    lines = [f"failed  {entry['test']}: {entry['message']}" for entry in summary["failed"]]
    lines += [f"skipped {entry['test']}: {entry['reason']}" for entry in summary["skipped"]]
    left_out = {entry["test"] for entry in summary["skipped"]}
    missing = [name for name in _extras() if name in left_out]
    if missing:
        lines.append(f"to install what is missing: {_dist_info.install_command(*missing)}")
    counts = [f"{len(summary[name])} {name}" for name in ("passed", "failed", "skipped")]
    lines.append(f"rocm-sdk test of ROCm {summary['version']}: {', '.join(counts)}")
    print("\n".join(lines), file=sys.stderr)


def _extras() -> list[str]:
    """The extras that every machine of this platform has, whichever GPU it has."""
    return [
        package.logical_name
        for package in _dist_info.extra_packages()
        if not package.is_target_specific and package.sys_platform in (None, sys.platform)
    ]


def _case(test: unittest.TestCase) -> unittest.TestCase:
    """The test that a subtest is a part of."""
    case: unittest.TestCase = getattr(test, "test_case", test)
    return case


def _name(test_id: str) -> str:
    """`core.CoreTest.testInstallationLayout`, and what a subtest was about."""
    return test_id.removeprefix(f"{__package__}.").replace("_test.", ".", 1)
