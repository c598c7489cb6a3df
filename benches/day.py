"""What a day of TheRock's CI costs with its scripts and with rocwheel: the assumptions, and results.json."""

from __future__ import annotations

from statistics import median

# Kinds of runs: how many a day, and how many targets the set of each platform has.
RUNS = [("pull request", 27, {"Linux": 8, "Windows": 7}), ("commit on `main`", 9, {"Linux": 10, "Windows": 8}),
        ("nightly", 1, {"Linux": 28, "Windows": 25})]
COMMON = {"Linux": 411 + 136 + 1500, "Windows": 654 + 136 + 1278}  # MB: core, libraries and devel.
TARGET = 4451 * 1.048576 / 28  # MB of the package of one target.
ARCHIVES = 0.83  # MB of archives for each MB of packages.
FETCHED = 6000  # MB of the archive that `fetch` measures.
PART = {"TheRock": 8 * 1.048576, "rocwheel": 16 * 1.048576}  # MB in one request of an upload.
PACKAGES = 6  # Of the set that `therock` measures.
FAR = "one artifact of 6 GB, 40 ms: "
STEPS = {
    "TheRock": {"fetch": ("fetch", FAR + "boto3"), "build": ("therock", "TheRock: `build_"),
                "index": ("therock", "TheRock: `indexer"), "upload": ("therock", "TheRock: `upload_")},
    "rocwheel": {"fetch": ("fetch", FAR + "rocwheel"), "build": ("therock", "`rocwheel build`"),
                 "check": ("therock", "`rocwheel check`"), "index": ("therock", "`rocwheel index`"),
                 "upload": ("therock", "`rocwheel upload`")},
}


def costs(results: dict, program: str, megabytes: float, packages: int) -> dict[str, float]:
    """What one set costs: processor seconds of each step, requests of the upload, MB written."""
    rows = {step: next(row for row in results[bench]["rows"] if row["way"].startswith(start))
            for step, (bench, start) in STEPS[program].items()}
    measured = rows["build"]["size"]
    found = {step: median(row["cpu"]) / measured * megabytes for step, row in rows.items()}
    found["fetch"] = median(rows["fetch"]["cpu"]) / FETCHED * ARCHIVES * megabytes
    found["index"] = median(rows["index"]["cpu"])
    left = rows["upload"]["requests"] - measured / PART[program]
    found["requests"] = megabytes / PART[program] + left / PACKAGES * packages
    found["written"] = sum(rows[step].get("written", 0) for step in ("build", "check") if step in rows) / measured * megabytes
    return found


def table(results: dict) -> str:
    """Each kind of run on each platform, and the day."""
    text = ["| a day | sets | packages of a set | GB of a set | GB into the bucket | CPU hours: scripts | rocwheel "
            "| requests: scripts | rocwheel | GB written to disks: scripts | rocwheel |", "|---|" + "--:|" * 10]
    day: dict[str, float] = {}
    for kind, runs, targets in RUNS:
        for platform, count in targets.items():
            packages, megabytes = count + 4, COMMON[platform] + count * TARGET
            line = {"runs": runs, "GB": runs * megabytes / 1000}
            for program in STEPS:
                one = costs(results, program, megabytes, packages)
                line |= {f"{program} {what}": runs * value for what, value in one.items()}
            day = {what: day.get(what, 0) + value for what, value in line.items()}
            text.append(cells(f"{kind}, {platform}", line, str(packages), f"{megabytes / 1000:.1f}"))
    text.append(cells("**the day**", day, "", ""))
    steps = lambda program: ", ".join(f"{step} {day[f'{program} {step}'] / 3600:.1f}" for step in STEPS[program])
    return "\n".join([*text, "", f"CPU hours of the day by step: scripts: {steps('TheRock')}; rocwheel: {steps('rocwheel')}."])


def cells(name: str, line: dict[str, float], packages: str, size: str) -> str:
    both = lambda shape, get: [shape.format(get(program)) for program in STEPS]
    hours = both("{:.1f}", lambda it: sum(line[f"{it} {step}"] for step in STEPS[it]) / 3600)
    requests = both("{:,.0f}", lambda it: line[f"{it} requests"])
    written = both("{:,.0f}", lambda it: line[f"{it} written"] / 1e3)
    sums = [str(line["runs"]), packages, size, f"{line['GB']:,.0f}"]
    return f"| {' | '.join([name, *sums, *hours, *requests, *written])} |"
