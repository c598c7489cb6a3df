"""Packages straight from archives: the ways that are more than one `build`, each a process of its own.

    python3 benches/archives.py twice PLACE OUT BUILD…        # BUILD is a `rocwheel build` of the directories
    python3 benches/archives.py arriving PLACE OUT BUILD…     # BUILD is one of PLACE/arrived
    python3 benches/archives.py ahead PLACE OUT BUILD…

`twice` is the least that reading each archive twice would take, once for the headers and once for the
contents: all are decompressed to nothing, and once more while the directories are built. For `arriving`
the archives arrive one after the other at 50 MB/s, and are unpacked meanwhile; then comes the build. For
`ahead`, the artifacts that have arrived are built in the meantime, and reused at the end. The archives are in
PLACE/archives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

RATE = 50e6


def pack(artifacts: Path, archives: Path) -> None:
    """As TheRock packs them: zstd at level 3, the manifest first."""
    archives.mkdir(parents=True)
    for artifact in sorted(artifacts.iterdir()):
        names = ["artifact_manifest.txt", *sorted(p.name for p in artifact.iterdir() if p.is_dir())]
        command = ["tar", "-I", "zstd -q -3", "-cf", archives / f"{artifact.name}.tar.zst", "-C", artifact, *names]
        subprocess.run(command, check=True)


def decompress(place: Path) -> None:
    """All archives, as many at once as there are processors, the largest first."""
    archives = sorted((place / "archives").iterdir(), key=lambda path: -path.stat().st_size)
    with ThreadPoolExecutor(os.cpu_count()) as several:
        list(several.map(lambda path: subprocess.run(["zstd", "-dqc", path], stdout=subprocess.DEVNULL, check=True),
                         archives))


def twice(place: Path, out: Path, build: list) -> None:
    decompress(place)
    with ThreadPoolExecutor(1) as other:
        second = other.submit(decompress, place)
        subprocess.run(build, check=True)
        second.result()


def arriving(place: Path, out: Path, build: list) -> None:
    arrive(place, lambda: None)
    subprocess.run(build, check=True)


def ahead(place: Path, out: Path, build: list) -> None:
    scratch = out.with_name("ahead")
    shutil.rmtree(scratch, ignore_errors=True)
    # It fails until artifacts of both packages have arrived. The last build does not depend on it.
    early = [str(scratch) if part == str(out) else part for part in build]
    early += ["--only", "core,libraries", "--reuse", str(scratch), "--clean"]
    running: list[Future] = []
    with ThreadPoolExecutor(1) as builder:
        def more() -> None:
            if not running or running[-1].done():
                running.append(builder.submit(subprocess.run, early, stderr=subprocess.DEVNULL))
        arrive(place, more)
    subprocess.run([*build, "--reuse", str(scratch)], check=True)
    shutil.rmtree(scratch)


def arrive(place: Path, then) -> None:
    """One archive after the other, the small ones first, because the one with the manifest is small."""
    arrived = place / "arrived"
    shutil.rmtree(arrived, ignore_errors=True)
    arrived.mkdir()
    for archive in sorted((place / "archives").iterdir(), key=lambda path: path.stat().st_size):
        due = time.monotonic() + archive.stat().st_size / RATE
        directory = place / archive.name.split(".")[0]
        directory.mkdir()
        subprocess.run(["tar", "-I", "zstd", "-xf", archive, "-C", directory], check=True)
        time.sleep(max(0, due - time.monotonic()))
        directory.rename(arrived / directory.name)
        then()


if __name__ == "__main__":
    way, place, out, *build = sys.argv[1:]
    {"twice": twice, "arriving": arriving, "ahead": ahead}[way](Path(place), Path(out), build)
