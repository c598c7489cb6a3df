"""Builds the demo framework as others are: its run paths lead to the machine that builds it."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = os.environ.get("BUILD_VERSION", "1.0")
INFO = f"fw-{VERSION}.dist-info"
METADATA = f"Metadata-Version: 2.1\nName: fw\nVersion: {VERSION}\n\nA framework.\n"
TAG = "py3-none-linux_x86_64"
WHEEL = f"Wheel-Version: 1.0\nGenerator: backend\nRoot-Is-Purelib: false\nTag: {TAG}\n"
# What is made of each file, and what it is linked with.
LIBRARIES = {
    "lib/libfw.so": ["kernels.c", "-Wl,-soname,libfw.so", "-lhipblas", "-lrocblas"],
    "_C.so": ["extension.c", "-lfw", "-lamdhip64"],
}


def build_wheel(
    wheel_directory: str, config_settings: object = None, metadata_directory: object = None
) -> str:
    del config_settings, metadata_directory
    members = {}
    for name, arguments in LIBRARIES.items():
        link(HERE / "fw" / name, arguments)
    for path in sorted((HERE / "fw").rglob("*")):
        if path.suffix in (".py", ".so"):
            members[path.relative_to(HERE).as_posix()] = path.read_bytes()
    members[f"{INFO}/METADATA"] = METADATA.encode()
    members[f"{INFO}/WHEEL"] = WHEEL.encode()
    members[f"{INFO}/RECORD"] = record(members).encode()
    wheel = f"fw-{VERSION}-{TAG}.whl"
    with zipfile.ZipFile(Path(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return wheel


def link(to: Path, arguments: list[str]) -> None:
    rocm = Path(os.environ["ROCM_PATH"], "lib")
    to.parent.mkdir(exist_ok=True)
    own = HERE / "fw/lib"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", str(to), *arguments]
    command += [f"-L{own}", f"-L{rocm}", f"-Wl,-rpath,{own}:{rocm}", "-Wl,--enable-new-dtags"]
    subprocess.run(command, check=True, cwd=HERE / "src")


def record(members: dict[str, bytes]) -> str:
    lines = []
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{INFO}/RECORD,,\n"])
