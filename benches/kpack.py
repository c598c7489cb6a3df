# /// script
# requires-python = ">=3.10"
# dependencies = ["pip==26.3", "zstandard==0.25.0"]
# ///
"""How fast device code leaves fat binaries, beside what decoding and compressing it takes alone.

    cargo build --profile dist && uv run benches/kpack.py --place DIR [FILE…]

Each FILE is a wheel or a binary; without one, wheels of PyPI are fetched to DIR. Of each, `rocwheel
split` is measured as a whole process, from files in memory to files. The floor has the same bundles in
memory, decodes them and compresses every code object with the same zstd at the same level, one task
for each compressed bundle or raw code object on as many threads as there are processors, and keeps
nothing: it neither reads nor writes nor looks at a header twice. The full floor reads the bytes of each
task from the file, and verifies the MD5 that compressed bundles have, as a split has to. They take turns.
Needs Linux, and `--scratch` in memory (`/dev/shm`) when files were deleted in the last minutes: ext4 is
slow to make files then.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator

import zstandard

WHEELS = ["jax-rocm7-pjrt==0.12.0", "cupy-rocm-7-0==14.2.0", "bitsandbytes==0.50.2"]
PLATFORMS = [
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_24_x86_64",
    "manylinux2014_x86_64",
]
LEVEL = 3

# Whether it is a compressed bundle, its bytes, how many it has once decoded, where they lie, and its hash.
Task = tuple[bool, memoryview, int, int, bytes]
Work = Callable[[tuple[pathlib.Path, Task]], tuple[int, int]]


def fetch(place: pathlib.Path) -> list[pathlib.Path]:
    where = ["--only-binary", ":all:", "--python-version", "3.12", "--dest", str(place)]
    where += [word for platform in PLATFORMS for word in ("--platform", platform)]
    wheels: list[pathlib.Path] = []
    for name in WHEELS:
        stem = name.split("==")[0].replace("-", "_")
        if not list(place.glob(f"{stem}-*.whl")):
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *where, name]
            subprocess.run(pip, check=True)
        wheels += place.glob(f"{stem}-*.whl")
    return wheels


def binaries(file: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    if file.suffix != ".whl":
        yield file.name, file.read_bytes()
        return
    with zipfile.ZipFile(file) as wheel:
        for name in wheel.namelist():
            if ".so" in pathlib.PurePath(name).name:
                yield name, wheel.read(name)


def section(binary: bytes) -> tuple[int, memoryview] | None:
    """The bundles of a binary, and where they begin."""
    if binary[:4] != b"\x7fELF":
        return None
    (table,) = struct.unpack_from("<Q", binary, 40)
    count, names = struct.unpack_from("<HH", binary, 60)
    headers = [struct.unpack_from("<IIQQQQ", binary, table + 64 * index) for index in range(count)]
    for name, _, _, _, offset, size in headers:
        at = headers[names][4] + name
        if binary[at : at + 12] == b".hip_fatbin\0":
            return offset, memoryview(binary)[offset : offset + size]
    return None


def entries(bundle: memoryview) -> list[tuple[int, int]]:
    """Where the code objects of a raw bundle lie."""
    (count,) = struct.unpack_from("<Q", bundle, 24)
    at, found = 32, []
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", bundle, at)
        if bytes(bundle[at + 24 : at + 28]) != b"host":
            found.append((offset, size))
        at += 24 + length
    return found


def tasks(start: int, section: memoryview) -> Iterator[list[Task]]:
    """What there is to do, for each bundle."""
    at = 0
    while at < len(section):
        if bytes(section[at : at + 4]) == b"CCOB":
            (version,) = struct.unpack_from("<H", section, at + 4)
            total, size = struct.unpack_from("<II" if version == 2 else "<QQ", section, at + 8)
            header = 24 if version == 2 else 32
            packed, md5 = section[at + header : at + total], bytes(section[at + header - 8 : at + header])
            yield [(True, packed, size, start + at + header, md5)]
        else:
            code = entries(section[at:])
            total = max(offset + size for offset, size in code)
            places = [(at + offset, size) for offset, size in code]
            yield [(False, section[p : p + size], size, start + p, b"") for p, size in places]
        at = (at + total + 4095) // 4096 * 4096


class Floor:
    def __init__(self, bundles: list[tuple[pathlib.Path, list[Task]]]) -> None:
        self.tasks = [(file, task) for file, tasks in bundles for task in tasks]
        self.local = threading.local()

    def full(self, work: tuple[pathlib.Path, Task]) -> tuple[int, int]:
        file, (is_compressed, code, size, offset, md5) = work
        with file.open("rb", buffering=0) as source:
            found = memoryview(os.pread(source.fileno(), len(code), offset))
        return self.work((file, (is_compressed, found, size, offset, md5)), verify=True)

    def work(self, work: tuple[pathlib.Path, Task], verify: bool = False) -> tuple[int, int]:
        if not hasattr(self.local, "compressor"):
            self.local.compressor = zstandard.ZstdCompressor(level=LEVEL)
            self.local.decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
        _, (is_compressed, code, size, _, md5) = work
        if not is_compressed:
            self.local.compressor.compress(code)
            return 1, size
        bundle = memoryview(self.local.decompressor.decompress(code, max_output_size=size))
        if verify and hashlib.md5(bundle).digest()[:8] != md5:
            raise SystemExit("a bundle with another hash")
        places = entries(bundle)
        for offset, length in places:
            self.local.compressor.compress(bundle[offset : offset + length])
        return len(places), sum(length for _, length in places)

    def run(self, work: Work) -> tuple[float, float, int, int]:
        """Seconds, seconds of CPU, code objects and their bytes."""
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            done = list(pool.map(work, self.tasks))
        took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return took, cpu, sum(count for count, _ in done), sum(size for _, size in done)


def split(rocwheel: str, place: pathlib.Path) -> subprocess.Popen[bytes]:
    out = place / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [rocwheel, "--quiet", "split", "--artifact-dir", str(place / "in"), "--output-dir"]
    return subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL)


def seconds(rocwheel: str, place: pathlib.Path) -> tuple[float, float]:
    """Seconds and seconds of CPU of the whole process."""
    began = time.perf_counter()
    with split(rocwheel, place) as child:
        _, status, usage = os.wait4(child.pid, 0)
        took = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"rocwheel: exit {child.returncode}")
    return took, usage.ru_utime + usage.ru_stime


def memory(rocwheel: str, place: pathlib.Path) -> float:
    """The peak in MiB, from /proc. `wait4` would also count this process, of which the child begins as a copy."""
    most = 0
    with split(rocwheel, place) as child:
        status = pathlib.Path(f"/proc/{child.pid}/status")
        while child.poll() is None:
            found = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
            most = max([most, *(int(line.split()[1]) for line in found)])
            time.sleep(0.002)
    return most / 1024


def rows(name: str, fat: dict[str, bytes], arguments: argparse.Namespace) -> Iterator[dict]:
    place = arguments.scratch / "split"
    shutil.rmtree(place, ignore_errors=True)
    stage = place / "in/bench_lib_gfx9-all/stage"
    for path, binary in fat.items():
        (stage / path).parent.mkdir(parents=True, exist_ok=True)
        (stage / path).write_bytes(binary)
    (stage.parent / "artifact_manifest.txt").write_text("stage\n")
    found = [(stage / path, section(binary)) for path, binary in fat.items()]
    bundles = [(file, bundle) for file, part in found if part for bundle in tasks(*part)]
    floor, rocwheel = Floor(bundles), arguments.rocwheel
    rounds = [
        (floor.run(floor.work), floor.run(floor.full), seconds(rocwheel, place))
        for _ in range(arguments.rounds)
    ]
    floors, fulls, splits = zip(*rounds, strict=True)
    total = sum(map(len, fat.values()))
    _, _, count, size = floors[0]
    print(f"{name}: {len(fat)} binaries of {total / 1e6:.0f} MB, {len(bundles)} bundles,"
          f" {count:,} code objects of {size / 1e6:,.0f} MB", flush=True)
    for way, role, took in (
        (f"`rocwheel split`, {len(bundles)} bundles, {count:,} code objects", "own", splits),
        ("full floor", "limit", fulls),
        ("floor", "limit", floors),
    ):
        row = {"way": f"{name}: {way}", "role": role, "seconds": [it[0] for it in took], "cpu": [it[1] for it in took]}
        print(f"  {way}: {min(row['seconds']):.2f} s, {min(row['cpu']):.2f} s of CPU", flush=True)
        yield row | ({"mib": memory(rocwheel, place)} if role == "own" else {})
    shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rocwheel", default="target/dist/rocwheel")
    parser.add_argument("--place", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, help="a directory in memory for binaries and archives")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.place.mkdir(parents=True, exist_ok=True)
    arguments.scratch = arguments.scratch or arguments.place
    found: list[dict] = []
    for file in arguments.files or fetch(arguments.place):
        fat = {name: binary for name, binary in binaries(file) if section(binary) is not None}
        found += rows(file.name.split("-")[0], fat, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
