"""Builds the `rocm` package (PEP 517) with the standard library alone, so it installs offline.

What the package requires is decided where it is installed. A source distribution says the same
wherever it is built.
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
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
# What the distribution says of itself on every machine.
_FACTS = email.message_from_string((HERE / "PKG-INFO").read_text("utf-8"))
NAME = str(_FACTS["Name"])
SUMMARY = str(_FACTS["Summary"])
LICENSE = str(_FACTS["License-Expression"])
URLS = dict(str(url).split(", ", 1) for url in _FACTS.get_all("Project-URL", []))
REQUIRES_PYTHON = str(_FACTS["Requires-Python"])
SCRIPTS = {"rocm-sdk": "rocm_sdk.__main__:main"}
PACKAGES = ["rocm_sdk", "rocm_sdk.tests"]
_TOP_FILES = ("MANIFEST.in", "README.md", "pyproject.toml", "rocm_build.py", "setup.py")
_DATA = ("_dist_info.json", "py.typed")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def _load_info() -> ModuleType:
    path = HERE / "src" / "rocm_sdk" / "_dist_info.py"
    spec = importlib.util.spec_from_file_location("rocm_dist_info", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


info = _load_info()


def choose() -> Any:
    """The target of this machine; says so when it had to be guessed."""
    choice = info.choose_target_family()
    if not choice.is_certain:
        print(
            "rocm: no GPU of this release was found, so there is no extra `device`. Name the "
            f"target, as in `{NAME}[device-{info.base_targets()[0]}]=={info.__version__}`, or set "
            "ROCM_SDK_TARGET_FAMILY.",
            file=sys.stderr,
        )
    return choice


def requires(choice: Any) -> list[str]:
    family = None if choice is None else choice.family
    return list(info.build_install_requires(family))


def extras(choice: Any) -> dict[str, list[str]]:
    return {**info.build_extras(choice), **info.build_per_target_extras()}


def metadata(choice: Any) -> str:
    """METADATA for a machine's choice of target, or PKG-INFO for any machine (`None`)."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {info.__version__}",
        f"Summary: {SUMMARY}",
        *(f"Project-URL: {label}, {url}" for label, url in URLS.items()),
        f"License-Expression: {LICENSE}",
        f"Requires-Python: {REQUIRES_PYTHON}",
        "Description-Content-Type: text/markdown",
    ]
    if choice is None:
        # In this spelling: uv takes no other for a reason to ask the builder.
        lines += ["Dynamic: Provides-Extra", "Dynamic: Requires-Dist"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires(choice)]
    for extra, requirements in extras(choice).items():
        lines.append(f"Provides-Extra: {extra}")
        for requirement in requirements:
            pin, _, marker = requirement.partition("; ")
            condition = f'{marker} and extra == "{extra}"' if marker else f'extra == "{extra}"'
            lines.append(f"Requires-Dist: {pin}; {condition}")
    readme = (HERE / "README.md").read_text("utf-8")
    return "\n".join(lines) + "\n\n" + readme


def get_requires_for_build_wheel(_settings: object = None) -> list[str]:
    return []


def get_requires_for_build_sdist(_settings: object = None) -> list[str]:
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, _settings: object = None) -> str:
    directory = Path(metadata_directory, _dist_info_name())
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in _dist_info_files(choose()):
        (directory / name).write_bytes(text.encode())
    return directory.name


def build_wheel(
    wheel_directory: str, _settings: object = None, metadata_directory: str | None = None
) -> str:
    if metadata_directory is None:
        facts = dict(_dist_info_files(choose()))
    else:
        # What was promised is what is built, even if a GPU came or went in between.
        path = Path(metadata_directory)
        if path.name != _dist_info_name():
            path = path / _dist_info_name()
        facts = {name: (path / name).read_text("utf-8") for name, _ in _dist_info_files(None)}
    members = list(_sources())
    members += [(f"{_dist_info_name()}/{name}", text.encode()) for name, text in facts.items()]
    record = f"{_dist_info_name()}/RECORD"
    rows = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in members]
    members.append((record, "".join([*rows, f"{record},,\n"]).encode()))
    wheel = f"{NAME}-{_file_version()}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            member = zipfile.ZipInfo(name, _EPOCH)
            member.external_attr = 0o100644 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return wheel


def build_sdist(sdist_directory: str, _settings: object = None) -> str:
    top = f"{NAME}-{_file_version()}"
    members = [(name, (HERE / name).read_bytes()) for name in _TOP_FILES]
    members.append(("PKG-INFO", metadata(None).encode()))
    members += [(f"src/{name}", data) for name, data in _sources()]
    with tarfile.open(Path(sdist_directory, f"{top}.tar.gz"), "w:gz") as archive:
        for name, data in sorted(members):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return f"{top}.tar.gz"


def _sources() -> Iterator[tuple[str, bytes]]:
    """The files of the packages, by their place in a wheel."""
    for package in PACKAGES:
        directory = HERE.joinpath("src", *package.split("."))
        for path in sorted(directory.iterdir()):
            if path.suffix == ".py" or path.name in _DATA:
                yield path.relative_to(HERE / "src").as_posix(), path.read_bytes()


def _dist_info_files(choice: Any) -> list[tuple[str, str]]:
    scripts = "".join(f"{name} = {call}\n" for name, call in SCRIPTS.items())
    return [
        ("METADATA", metadata(choice)),
        (
            "WHEEL",
            "Wheel-Version: 1.0\nGenerator: rocm_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        ("entry_points.txt", f"[console_scripts]\n{scripts}"),
        ("top_level.txt", "rocm_sdk\n"),
    ]


def _dist_info_name() -> str:
    return f"{NAME}-{_file_version()}.dist-info"


def _file_version() -> str:
    return str(info.__version__).replace("-", "_")


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
