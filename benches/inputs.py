"""What the benches work on: files that are made, changed or copied."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def apart(work):
    """Does it in a process of its own: the memory it takes would count as that of what is measured later."""

    @functools.wraps(work)
    def forked(*arguments):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                work(*arguments)
                os._exit(0)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"failed: {work.__name__}")

    return forked


def link(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=os.link)


def part_of(artifacts: Path, target: Path) -> None:
    """The artifacts without their largest files."""
    if not target.exists():
        large = lambda directory, names: [name for name in names if Path(directory, name).is_file()
                                          and Path(directory, name).stat().st_size > 64e6]
        shutil.copytree(artifacts, target, copy_function=os.link, ignore=large)


@apart
def change_middle(file: Path, by: int) -> None:
    data = bytearray(file.read_bytes())
    for at in range(len(data) // 3, len(data) * 2 // 3, 4001):
        data[at] ^= by
    file.unlink()  # It is a hard link.
    file.write_bytes(data)


@apart
def copies(artifacts: Path, target: Path, times: int) -> None:
    """Each file so many times, in directories of their own. One byte in 16 KiB of each copy is another, so
    that no two blocks are equal, and none of them is one that the ELF headers lead to."""
    link(artifacts, target)
    for source in sorted(path for path in artifacts.rglob("*") if path.is_file()):
        if source.stat().st_size < 1 << 16:
            continue
        for number in range(1, times):
            path = target / source.relative_to(artifacts)
            path = path.parent / f"copy{number}" / path.name
            path.parent.mkdir(exist_ok=True)
            shutil.copy(source, path)
            with path.open("r+b", buffering=0) as file:
                for start, size in contents(file):
                    # Code objects begin at pages, with headers of 4 KiB at most.
                    for at in range((start | 0x3FFF) + 1 + 0x2A31, start + size, 1 << 14):
                        byte = os.pread(file.fileno(), 1, at)
                        os.pwrite(file.fileno(), bytes([byte[0] ^ number]), at)


def contents(file) -> Iterator[tuple[int, int]]:
    """The large sections of a library with bytes that only its code reads; of others everything."""
    head = file.read(64)
    if head[:4] != b"\x7fELF":
        yield 0, os.fstat(file.fileno()).st_size
        return
    (table,), (count, _) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 60)
    for number in range(count):
        entry = os.pread(file.fileno(), 64, table + 64 * number)
        _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", entry)
        if kind == 1 and size > 1 << 14:  # SHT_PROGBITS
            yield offset, size


@apart
def small_files(artifacts: Path, count: int) -> None:
    """So many small files in `rocm-sdk-libraries`, as rocBLAS has them."""
    base(artifacts)
    source = random.Random(1)
    kernels(artifacts / "blas_lib_generic", count, source)


@apart
def many_artifacts(artifacts: Path, names: list[str], files: int) -> None:
    """Artifacts with so many small files each."""
    base(artifacts)
    source = random.Random(1)
    for name in names:
        kernels(artifacts / name, files, source)


def base(artifacts: Path) -> None:
    """The artifact that says what was built."""
    overlay = artifacts / "base_lib_generic/base/aux-overlay"
    manifest(overlay / "stage")
    (artifacts / "base_lib_generic/artifact_manifest.txt").write_text("base/aux-overlay/stage\n")


def kernels(artifact: Path, count: int, source: random.Random) -> None:
    name = artifact.name.replace("_lib_", "_")
    for number in range(count):
        path = artifact / f"stage/lib/{name}/library/{number // 1000:03}/Kernels_{number}.dat"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d\n" % number + source.randbytes(200) + bytes(300))
    (artifact / "artifact_manifest.txt").write_text("stage\n")


def for_therock(artifacts: Path, target: Path) -> None:
    """The artifacts, with what TheRock's scripts do not work without: a profiler, a target, and libraries whose files
    have the names that programs load."""
    link(artifacts, target)
    for library in sorted(target.rglob("*.so.*")):
        soname = subprocess.run(["patchelf", "--print-soname", library], check=True, stdout=subprocess.PIPE, text=True).stdout
        library.rename(library.with_name(soname.strip()))
    for name, path in {
        "rocprofiler-systems_run_generic": "bin/rocprof-sys-avail",
        "rocprofiler-compute_run_generic": "libexec/rocprofiler-compute/rocprof-compute",
        "blas_lib_gfx942": "lib/rocblas/library/Kernels_gfx942.dat",
    }.items():
        file = target / name / "stage" / path
        file.parent.mkdir(parents=True)
        file.write_bytes(b"small")
        (target / name / "artifact_manifest.txt").write_text("stage\n")


@apart
def archives(place: Path, names: list[str]) -> None:
    """Archives that are only listed."""
    place.mkdir(parents=True)
    for name in ["base_lib_generic", *names]:
        (place / f"{name}.tar.zst").write_bytes(b"not read")


def manifest(stage: Path) -> None:
    """What says which targets a build was for, and that its device code is split."""
    place = stage / "share/therock"
    place.mkdir(parents=True)
    (place / "therock_manifest.json").write_text(json.dumps(
        {"rocm_package_version": "1.0", "flags": {"KPACK_SPLIT_ARTIFACTS": True}}))
    (place / "dist_info.json").write_text('{"dist_amdgpu_targets": ""}')


@apart
def small_wheels(directory: Path, projects: int, versions: int) -> None:
    directory.mkdir(parents=True)
    for project in range(projects):
        for version in range(versions):
            wheel(directory, f"pkg-{project}", f"1.{version}.0", b"x = 1\n")


@apart
def release_place(place: Path, projects: int, versions: int) -> None:
    """Wheels in the directories of their projects."""
    names = [f"pkg-{number}" for number in range(projects)]
    for name in names:
        directory = place / "rocm/core/whl-next" / name
        directory.mkdir(parents=True)
        for version in range(versions):
            wheel(directory, name, f"1.{version}.0", b"x = 1\n")


@apart
def random_wheels(directory: Path, large: int, small: int) -> None:
    """So many of 128 MiB, and of 100 KiB."""
    directory.mkdir(parents=True)
    for number, size in enumerate([128 << 20] * large + [100 << 10] * small):
        wheel(directory, f"pkg-{number}", "1.0", os.urandom(size))


def stubs(directory: Path) -> None:
    """ROCm packages with empty libraries, as far as frameworks see them."""
    directory.mkdir(parents=True)
    packages: dict[str, dict] = {}
    for line in (ROOT / "tests/framework/rocm-7.14.txt").read_text("utf-8").splitlines()[1:]:
        package, place, *names = line.split()
        for name in names:
            library = directory / name
            subprocess.run(["cc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", library, "-xc", "/dev/null"],
                           check=True)
            packages.setdefault(package, {})[f"{place}/{name}"] = library.read_bytes()
            library.unlink()
    for package, members in packages.items():
        wheel(directory, package, "7.14.0", b"", members)


def row(name: str, data: bytes | str) -> str:
    """The row of RECORD for a member."""
    data = data.encode() if isinstance(data, str) else data
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(data)}\n"


def wheel(directory: Path, project: str, version: str, body: bytes, more: dict | None = None) -> None:
    stem = project.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n" \
               "Requires-Python: >=3.8\nRequires-Dist: pkg-0\n"
    tags = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {f"{stem}/data.bin": body, f"{info}/METADATA": metadata, f"{info}/WHEEL": tags, **(more or {})}
    record = "".join(row(name, text) for name, text in members.items())
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    with zipfile.ZipFile(directory / f"{stem}-{version}-py3-none-any.whl", "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name), text)
