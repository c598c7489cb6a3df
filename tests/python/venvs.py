"""Real virtual environments, filled by real installers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Venv:
    """A virtual environment of the Python that runs the tests."""

    root: Path
    installer: str = "pip"

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def site(self) -> Path:
        (site,) = self.root.glob("lib/python3.*/site-packages")
        return site

    def create(self) -> Venv:
        must([sys.executable, "-m", "venv", "--without-pip", str(self.root)])
        return self

    def install(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        return must([*self._installer(), "install", *arguments], env=self._environment(env))

    def uninstall(self, *names: str) -> str:
        yes = ["-y"] if self.installer == "pip" else []
        return must([*self._installer(), "uninstall", *yes, *names], env=self._environment())

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> str:
        return must([str(self.root / "bin" / command[0]), *command[1:]], env=self._environment(env))

    def try_(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.root / "bin" / command[0]), *command[1:]],
            env=self._environment(),
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )

    def _installer(self) -> list[str]:
        if self.installer == "pip":
            return [sys.executable, "-m", "pip", "--python", str(self.python)]
        uv = shutil.which(
            "uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        assert uv is not None, "uv is not installed: see tests/requirements.txt"
        return [uv, "pip"]

    def _environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ROCM_SDK_", "PYTHON", "PIP_", "UV_", "LD_"))
        }
        _, _, mode = self.installer.partition("-")
        return {
            **env,
            "PATH": f"{self.root / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "VIRTUAL_ENV": str(self.root),
            "UV_CACHE_DIR": str(self.root.parent / "uv-cache"),
            "UV_LINK_MODE": mode or "copy",
            "UV_PYTHON_DOWNLOADS": "never",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_CACHE_DIR": "1",
            **(more or {}),
        }


def must(command: list[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """The stdout and stderr of a command that has to succeed."""
    result = subprocess.run(
        command,
        env=env,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, f"{command}: {result.stdout}"
    return result.stdout
