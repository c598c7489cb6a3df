"""What the tests share: a site with the distribution in it, and its modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from sdk import Sdk

Importer = Callable[[str], ModuleType]


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TARGET_FAMILY", "PRELOAD_LIBRARIES", "VERBOSE"):
        monkeypatch.delenv(f"ROCM_SDK_{name}", raising=False)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An empty directory to install into."""
    path = tmp_path / "site-packages"
    path.mkdir()
    return path


@pytest.fixture
def installed(site: Path) -> Path:
    """A site with core, libraries, devel and the code for one target."""
    Sdk().install(site, "gfx942")
    return site


@pytest.fixture
def load(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Importer]:
    """Imports modules of the site into this process, and forgets them afterwards."""
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    _forget()

    def load(name: str) -> ModuleType:
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    _forget()


def _forget() -> None:
    for name in list(sys.modules):
        top = name.split(".")[0].lstrip("_")
        if top.startswith(("rocm_sdk", "rocm_profiler")) and top != "rocm_sdk_shipped":
            del sys.modules[name]
