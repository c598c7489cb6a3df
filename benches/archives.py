"""Packages straight from archives: what unpacking costs, and what other ways would take at least.

    python3 benches/archives.py ARTIFACTS PLACE [--rocwheel target/release/rocwheel] [--rounds 3] [--rate 50]

ARTIFACTS are the directories of `wheels.py fetch`. They are packed to PLACE/zst once, as `.tar.zst` at
level 3, and to PLACE/xz at level 2 with `--xz`. The ways take turns:

- `directories`: artifacts that are unpacked already.
- `archives`: unpacked to PLACE, which should be on a disk, then built.
- `in memory`: unpacked to /dev/shm, then built.
- `twice`: the least that reading every archive twice would take, once for the headers and once for the
  contents: each is decompressed to nothing, then again while the directories are built.
- `again`: the second build over the first one, with `--reuse`.
- `arriving`, `ahead`: the archives arrive one after the other at `--rate` MB/s, and are unpacked meanwhile.
  Then the packages are built; or packages of what is there are built ahead, and reused at the end.

Prints the wall time and the CPU time of all processes in seconds, and MB written by them.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.artifacts, self.place = arguments.artifacts.resolve(), arguments.place.resolve()
        self.program, self.rate = arguments.rocwheel.resolve(), arguments.rate
        self.out, self.memory = self.place / "out", Path("/dev/shm/rocwheel-archives")
        self.archives = self.place / ("xz" if arguments.xz else "zst")
        self.place.mkdir(parents=True, exist_ok=True)
        # The files are few, so this policy promises no program and no library by its name.
        promises = r"^(scripts|libraries|files) = \[(.*\]|\n(.*\n)*?\])\n"
        text = (ROOT / "src/package/packages.toml").read_text("utf-8")
        (self.place / "packages.toml").write_text(re.sub(promises, "", text, flags=re.MULTILINE), "utf-8")
        self.pack()

    def pack(self) -> None:
        self.archives.mkdir(exist_ok=True)
        how, suffix = (["xz", "-2"], "xz") if self.archives.name == "xz" else (["zstd", "-q", "-3"], "zst")
        for artifact in sorted(self.artifacts.iterdir()):
            target = self.archives / f"{artifact.name}.tar.{suffix}"
            if not target.exists():
                names = ["artifact_manifest.txt", *(p.name for p in artifact.iterdir() if p.is_dir())]
                with target.open("wb") as out, tar(["-c", *names], artifact) as packing:
                    subprocess.run(how, stdin=packing.stdout, stdout=out, check=True)

    def build(self, artifacts: Path, out: Path, *options: object, may_fail: bool = False) -> None:
        command = [self.program, "-q", "build", "--artifact-dir", artifacts, "--dest-dir", out, "--packages-file",
                   self.place / "packages.toml", "--without", "profiler", *options]
        errors = subprocess.DEVNULL if may_fail else None
        subprocess.run(command, check=not may_fail, stdout=subprocess.DEVNULL, stderr=errors)

    def directories(self) -> None:
        self.build(self.artifacts, self.out)

    def unpacked(self) -> None:
        self.build(self.archives, self.out)

    def again(self) -> None:
        self.build(self.archives, self.out, "--reuse", self.out)

    def in_memory(self) -> None:
        self.memory.mkdir(parents=True)
        self.out.mkdir(exist_ok=True)
        (self.out / "artifacts").symlink_to(self.memory)
        self.build(self.archives, self.out)

    def twice(self) -> None:
        self.decompress()
        with ThreadPoolExecutor(1) as one:
            second = one.submit(self.decompress)
            self.build(self.artifacts, self.out)
            second.result()

    def decompress(self) -> None:
        """All archives, as many at once as there are processors, the largest first."""
        archives = sorted(self.archives.iterdir(), key=lambda path: -path.stat().st_size)
        with ThreadPoolExecutor(os.cpu_count()) as several:
            list(several.map(lambda path: subprocess.run(decompress(path), stdout=subprocess.DEVNULL, check=True), archives))

    def arriving(self) -> None:
        self.arrive(lambda: None)
        self.build(self.place / "arrived", self.out)

    def ahead(self) -> None:
        ahead = self.place / "ahead"
        with ThreadPoolExecutor(1) as builder:
            running = []

            def more() -> None:
                if not running or running[-1].done():
                    # It fails until there is something of both packages.
                    running.append(builder.submit(
                        self.build, self.place / "arrived", ahead, "--only", "core,libraries", "--reuse", ahead,
                        "--clean", may_fail=True))

            self.arrive(more)
            # What arrived while the last one ran would still be built ahead, but here it is built at the end.
            for build in running:
                build.result()
        self.build(self.place / "arrived", self.out, "--reuse", ahead)

    def arrive(self, then) -> None:
        """One archive after the other, the small ones first, because the one with the manifest is small."""
        arrived = self.place / "arrived"
        arrived.mkdir()
        for archive in sorted(self.archives.iterdir(), key=lambda path: path.stat().st_size):
            name = archive.name.split(".")[0]
            due = time.monotonic() + archive.stat().st_size / self.rate / 1e6
            (self.place / name).mkdir()
            with subprocess.Popen(decompress(archive), stdout=subprocess.PIPE) as unpacked:
                subprocess.run(["tar", "-x", "-C", self.place / name], stdin=unpacked.stdout, check=True)
            time.sleep(max(0, due - time.monotonic()))
            (self.place / name).rename(arrived / name)
            then()

    def clear(self) -> None:
        for path in (self.out, self.memory, self.place / "arrived", self.place / "ahead"):
            shutil.rmtree(path, ignore_errors=True)


def tar(arguments: list, directory: Path) -> subprocess.Popen:
    owner = ["--owner=0", "--group=0", "--sort=name"]
    return subprocess.Popen(["tar", *owner, "-C", directory, *arguments], stdout=subprocess.PIPE)


def decompress(archive: Path) -> list:
    return ["zstd" if archive.suffix == ".zst" else "xz", "-dqc", archive]


def measured(what: str, way) -> None:
    os.sync()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    way()
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    written = (after.ru_oublock - before.ru_oublock) * 512 / 1e6
    print(f"| {what} | {wall:.1f} | {cpu:.1f} | {written:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", type=Path)
    parser.add_argument("place", type=Path)
    parser.add_argument("--rocwheel", type=Path, default=ROOT / "target/release/rocwheel")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=50, help="MB/s of the archives that arrive")
    parser.add_argument("--xz", action="store_true", help="`.tar.xz` instead of `.tar.zst`")
    parser.add_argument("--ways", nargs="+", metavar="WAY", help="only these")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    ways = {
        "decompress": bench.decompress,
        "directories": bench.directories,
        "in memory": bench.in_memory,
        "twice": bench.twice,
        "archives": bench.unpacked,
        "again": bench.again,
        "arriving": bench.arriving,
        "ahead": bench.ahead,
    }
    print("| way | seconds | CPU seconds | MB written |\n|---|--:|--:|--:|")
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            if arguments.ways and name not in arguments.ways:
                continue
            if name != "again":
                bench.clear()
            measured(name, way)
    bench.clear()


if __name__ == "__main__":
    main()
