"""What a run costs with TheRock's own scripts, and with rocwheel: the same artifacts, built and uploaded to S3.

The scripts need Python 3.12, with setuptools, python-magic and boto3, and patchelf and libmagic on the machine.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import inputs
import measure
from measure import Row, Way, add, once

VERSION = "7.14.0"


def rows(work, checkout: Path, python: Path) -> list[Row]:
    artifacts, theirs, ours = (work.scratch / name for name in ("artifacts", "theirs", "ours"))
    inputs.for_therock(work.artifacts, artifacts)
    work.warm(artifacts)
    tools, found = checkout / "build_tools", {}
    build = {
        "TheRock: build": Way("TheRock: `build_python_packages.py`", [
            python, tools / "build_python_packages.py", "--artifact-dir", artifacts, "--dest-dir", theirs,
            "--version", VERSION], "peer", theirs),
        "rocwheel: build": Way("`rocwheel build`", work.build(ours, "--version", VERSION, artifacts=artifacts, without=()),
                               "own", ours),
    }
    # For the sets that this run is one of, their uploader leaves the index to a job on the server: this program.
    index = [
        Way("TheRock: `indexer.py`", [python, checkout / "third-party/indexer/indexer.py", theirs / "dist", "--filter",
                                      "*.whl", "*.tar.gz", "--output-file", work.scratch / "index.html"], "peer"),
        Way("`rocwheel index`", [work.rocwheel, "-q", "index", "--no-check", ours], "own"),
    ]
    rounds = work.rounds(2)
    for number in range(rounds):
        for way in [*build.values(), *index]:
            add(found, once(way))
    with measure.seaweedfs(work.scratch / "server") as endpoint, measure.counted(endpoint) as (counted, take):
        keys = {**measure.KEYS, "AWS_ENDPOINT_URL": counted}
        aws = lambda *command: subprocess.run(["aws", "s3", *command], env={**os.environ, **keys},
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        while aws("mb", "s3://warm"):
            time.sleep(1)
        empty = lambda bucket: lambda: (aws("rb", "--force", f"s3://{bucket}"), aws("mb", f"s3://{bucket}"), take())
        upload = [
            Way("TheRock: `upload_python_packages.py`", [
                python, tools / "github_actions/upload_python_packages.py", "--input-packages-dir", theirs,
                "--run-id", "7", "--multiarch", "--bucket", "theirs"], "peer", before=empty("theirs"), environment=keys),
            Way("`rocwheel check`", [work.rocwheel, "-q", "check", ours], "own", statuses=(0, 1), before=take),
            Way("`rocwheel upload`", [
                work.rocwheel, "-q", "upload", "--no-check", "--multi-target", "--platform", "linux", "--run-id", "7",
                "--packages-dir", ours, "--bucket", "ours"], "own", before=empty("ours"), environment=keys),
        ]
        for number in range(rounds):
            for way in upload:
                row = once(way)
                row.requests, row.moved = take()
                add(found, row)
    return list(found.values())
