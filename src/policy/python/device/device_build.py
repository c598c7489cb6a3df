"""Builds a package that requires the device code for the GPU of this machine (PEP 517).

The standard library is enough, so it installs offline. The target is decided as for the `rocm`
package: by ROCM_SDK_TARGET_FAMILY, else by the GPU. Without either, nothing is required.
"""

from __future__ import annotations

import base64
import email
import hashlib
import importlib.util
import io
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
# What the distribution says of itself on every machine.
_FACTS = email.message_from_string((HERE / "PKG-INFO").read_text("utf-8"))
NAME = str(_FACTS["Name"])
SUMMARY = str(_FACTS["Summary"])
_FILES = ("PKG-INFO", "_dist_info.json", "_dist_info.py", "device_build.py", "pyproject.toml")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def _load_info() -> ModuleType:
    spec = importlib.util.spec_from_file_location("device_dist_info", HERE / "_dist_info.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


info = _load_info()


def requires(choice: Any) -> list[str]:
    """The device code for a choice of target, if it is known."""
    if not (choice.family and choice.is_certain):
        first = info.ALL_PACKAGES["device"].get_dist_package_require(info.base_targets()[0])
        print(
            f"{NAME}: no GPU of this release was found, so no device code is installed. Install it "
            f"by its name, such as `{first}`, or set ROCM_SDK_TARGET_FAMILY.",
            file=sys.stderr,
        )
        return []
    return [info.ALL_PACKAGES["device"].get_dist_package_require(choice.family)]


def metadata() -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {info.__version__}",
        f"Summary: {SUMMARY}",
    ]
    lines += [f"Requires-Dist: {pin}" for pin in requires(info.choose_target_family())]
    return "\n".join(lines) + "\n"


def get_requires_for_build_wheel(_settings: object = None) -> list[str]:
    return []


def get_requires_for_build_sdist(_settings: object = None) -> list[str]:
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, _settings: object = None) -> str:
    directory = Path(metadata_directory, f"{_stem()}.dist-info")
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in _dist_info_files(metadata()):
        (directory / name).write_bytes(text.encode())
    return directory.name


def build_wheel(
    wheel_directory: str, _settings: object = None, metadata_directory: str | None = None
) -> str:
    top = f"{_stem()}.dist-info"
    if metadata_directory is None:
        facts = metadata()
    else:
        # What was promised is what is built, even if a GPU came or went in between.
        path = Path(metadata_directory)
        path = path if path.name == top else path / top
        facts = (path / "METADATA").read_text("utf-8")
    members = [(f"{top}/{name}", text.encode()) for name, text in _dist_info_files(facts)]
    rows = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in members]
    record = f"{top}/RECORD"
    members.append((record, "".join([*rows, f"{record},,\n"]).encode()))
    wheel = f"{_stem()}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            member = zipfile.ZipInfo(name, _EPOCH)
            member.external_attr = 0o100644 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return wheel


def build_sdist(sdist_directory: str, _settings: object = None) -> str:
    with tarfile.open(Path(sdist_directory, f"{_stem()}.tar.gz"), "w:gz") as archive:
        for name in _FILES:
            data = (HERE / name).read_bytes()
            member = tarfile.TarInfo(f"{_stem()}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return f"{_stem()}.tar.gz"


def _dist_info_files(facts: str) -> list[tuple[str, str]]:
    return [
        ("METADATA", facts),
        (
            "WHEEL",
            "Wheel-Version: 1.0\nGenerator: device_build\nRoot-Is-Purelib: true\n"
            "Tag: py3-none-any\n",
        ),
    ]


def _stem() -> str:
    """Name and version, as file names have them."""
    return f"{NAME.replace('-', '_')}-{str(info.__version__).replace('-', '_')}"


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
