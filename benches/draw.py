"""Tables and pictures of benches/results.json: what the pages of docs/ show, and docs/performance.md first."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

import day
import entries
from measure import Row

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benches/results.json"
PAGES = sorted((ROOT / "docs").glob("*.md"))  # Those with marks for tables.
PICTURES = {theme: ROOT / f"docs/images/performance-{theme}.svg" for theme in ("light", "dark")}


@dataclasses.dataclass
class Line:
    """A line of the summary: what rocwheel takes, the best of the others, and the limit."""

    bench: str
    title: str
    own: str
    limit: str | float | None = None  # A way, or a value.
    bar: float | None = None  # How many times the limit it may take.
    what: str = "seconds"
    times: float = 1  # So many times the way is the limit.
    among: str = ""  # Only ways that begin so are others.
    said: str = ""  # The limit in words.


BUILD = "`rocwheel build`"
LINES = [
    *(Line("start", f"Start: `rocwheel {verb}`, processor time", f"`rocwheel {verb}", 0.010, 1.0, "cpu", said="10 ms")
      for verb in ("--version", "targets", "place --offline")),
    Line("build", "Build wheels of 2.4 GB", BUILD, "libdeflate alone", 1.10),
    Line("build", "… bytes of the wheels", BUILD, "`zipfile`, zlib level 6", 1.0, "size", said="zlib at level 6"),
    Line("build", "… memory, 2 threads", BUILD, 64.0, 1.0, "mib"),
    Line("pipeline", "Build, check and publish them", "`rocwheel pipeline`", "`rocwheel build` alone", 1.10),
    Line("pipeline", "… bytes on the disk", "`rocwheel pipeline`", "`rocwheel build` alone", 1.05, "disk"),
    Line("again", "Build again, nothing changed", "nothing changed", 1.0, 1.0),
    Line("again", "… of 10,900 small files", "10,900 small files: nothing changed", 0.5, 1.0),
    Line("again", "… one library of 63 MB changed", "one library", "the first build", 1.0, times=0.2,
         said="a fifth of the first build"),
    Line("archives", "Build from `.tar.zst`", "`rocwheel build` from archives", "the artifacts are",
         said="from directories"),
    Line("check", "Check them, every byte", "`rocwheel check`", "inflate and hash alone", 1.15),
    *(Line("fetch", f"Fetch {what}, {delay} ms away", f"{what}, {delay} ms: rocwheel", "best", 1.0,
           among=f"{what}, {delay} ms: ")
      for what in ("one artifact of 6 GB", "300 small artifacts") for delay in (0, 40)),
    Line("fetch", "… memory", "300 small artifacts, 40 ms: rocwheel", 128.0, 1.0, "mib"),
    Line("github", "Fetch from GitHub", "`rocwheel fetch --source github`", "best", 1.0),
    *(Line("upload", f"Upload to S3, {delay} ms away", f"{delay} ms away: `rocwheel upload`", "best", 1.0,
           among=f"{delay} ms away: ")
      for delay in (0, 40)),
    Line("index", "Index 10,000 wheels", "`rocwheel index`, the first time", "best", 1.0),
    Line("index", "… nothing changed", "`rocwheel index`, nothing changed", "best", 1.0),
    Line("index", "… memory", "`rocwheel index`, the first time", 64.0, 1.0, "mib"),
    Line("split", "Split device code: jax-rocm7-pjrt", "jax_rocm7_pjrt: `rocwheel split`", "jax_rocm7_pjrt: full floor",
         said="full floor"),
    Line("framework", "Tie a framework of 133 MB", "`rocwheel framework tie`", 5.0, 1.0, said="5 s"),
    Line("framework", "… memory, 2 threads", "`rocwheel framework tie`", 286.0, 1.0, "mib", said="300 MB"),
    Line("framework", "… split it", "`rocwheel framework split` of jax", 8.0, 1.0, said="8 s"),
    Line("promote", "Promote a set of 0.56 GB that was built here", "`rocwheel promote` of the set that", "`cp` of the set",
         1.20),
    Line("promote", "… one from elsewhere", "`rocwheel promote` of the set from", "`cp` of the set", 1.20),
    Line("promote", "… one wheel of 105 MB", "`rocwheel promote` of one wheel", 0.5, 1.0, said="0.5 s"),
    Line("products", "Pages of 5,000 wheels in a bucket, nothing changed",
         "5,000 wheels in a bucket: `index --layout", 5.0, 1.0, said="5 s"),
    Line("install", "Install with uv, warm cache", "warm cache: `rocwheel install`", "warm cache: `uv` alone", 1.30,
         said="uv alone"),
    Line("install", "… cold cache", "cold cache: `rocwheel install`", "cold cache: `uv` alone", 1.10, said="uv alone"),
    Line("install", "… with pip", "`rocwheel install --installer pip`", "`pip` alone", 1.10, said="pip alone"),
    *(Line("large", f"{verb} of 20 GB, of 2.4 GB", f"8 times: {verb}", f"1 times: {verb}", 1.10, times=8,
           said="8 times that of 2.4 GB")
      for verb in ("`build`", "`check`", "`index`", "`pipeline`")),
    *(Line("large", f"… memory of {verb}", f"8 times: {verb}", f"1 times: {verb}", 1.10, "mib", said="that of 2.4 GB")
      for verb in ("`build`", "`check`")),
    *(Line("members", f"{verb} of 100,000 members", f"100,000 members: {verb}", f"10,000 members: {verb}", 1.10,
           times=10, said="10 times that of 10,000")
      for verb in ("`build`", "`check`")),
    *(Line("growth", f"{verb} of 10,000 artifacts", f"10,000 artifacts: {verb}", f"1,000 artifacts: {verb}", 1.10,
           times=10, said="10 times that of 1,000")
      for verb in ("`fetch --dry-run`", "`build --plan`")),
    *(Line("growth", f"{verb} of 64 targets", f"64 targets: {verb}", f"8 targets: {verb}", 1.10, times=8,
           said="8 times that of 8")
      for verb in ("`build`", "`check`")),
    *(Line("growth", f"{verb} of 1,000 versions", f"1,000 versions of 10 projects: {verb}",
           f"100 versions of 10 projects: {verb}", 1.10, times=10, said="10 times that of 100")
      for verb in ("`index`", "`upload --dry-run`")),
    Line("therock", "Build what TheRock's script builds", "`rocwheel build`", "best", 1.0, among="TheRock: `build"),
    Line("therock", "… and index it", "`rocwheel index`", "best", 1.0, among="TheRock: `indexer"),
    Line("therock", "… and upload it", "`rocwheel upload`", "best", 1.0, among="TheRock: `upload"),
]

COLUMNS = {"seconds": ("s", "{:.2f}"), "cpu": ("s", "{:.3f}"), "mib": ("MiB", "{:.0f}"), "size": ("MB", "{:.1f}"), "disk": ("MB", "{:.1f}")}


def rows_of(results: dict, bench: str) -> list[Row]:
    return [Row(**row) for row in results.get(bench, {}).get("rows", [])]


def value(row: Row, what: str) -> float:
    return row.median(what) if what in ("seconds", "cpu") else getattr(row, what)


def find(rows: list[Row], start: str) -> Row | None:
    return next((row for row in rows if row.way.startswith(start)), None)


@dataclasses.dataclass
class Found:
    own: float
    other: tuple[str, float] | None
    limit: tuple[str, float] | None
    ratio: float | None
    is_kept: bool | None


def judge(results: dict, line: Line) -> Found | None:
    """What came of a line; `None` if it was not measured."""
    rows = rows_of(results, line.bench)
    own = find(rows, line.own)
    if own is None:
        return None
    took = value(own, line.what)
    peers = [row for row in rows if row.role == "peer" and row.way.startswith(line.among)]
    peers = [row for row in peers if value(row, line.what)]
    best = min(peers, key=lambda row: value(row, line.what), default=None)
    shared = line.among if line.among.endswith(": ") else ""
    other = (best.way.removeprefix(shared), value(best, line.what)) if best else None
    if line.limit == "best":
        limit = ("the best of the others", other[1]) if other else None
    elif isinstance(line.limit, str):
        row = find(rows, line.limit)
        limit = (line.said or re.split("[,:]", row.way)[0], line.times * value(row, line.what)) if row else None
    else:
        limit = ("", line.limit) if line.limit else None
    ratio = took / limit[1] if limit and limit[1] else None
    is_kept = round(ratio, 2) <= line.bar if ratio is not None and line.bar else None
    return Found(took, other, limit, ratio, is_kept)


def summary(results: dict) -> str:
    """The table of everything, with the ratio to the limit."""
    text = ["| what | rocwheel | the best of the others | limit | ratio to the limit | at most | |",
            "|---|--:|--:|--:|--:|--:|---|"]
    for line in LINES:
        found = judge(results, line)
        if found is None:
            continue
        unit, shape = COLUMNS[line.what]
        show = lambda it: f"{shape.format(it)} {unit}"
        other = f"{show(found.other[1])}: {plain(found.other[0])}" if found.other and line.what == "seconds" else ""
        limit = ": ".join(filter(None, [show(found.limit[1]), plain(found.limit[0])])) if found.limit else ""
        ratio = f"{found.ratio:.2f}" if found.ratio is not None else ""
        bar = f"{line.bar:.2f}" if line.bar else ""
        verdict = {True: "kept", False: "**missed**", None: ""}[found.is_kept]
        text.append(f"| {line.title} | **{show(found.own)}** | {other} | {limit} | {ratio} | {bar} | {verdict} |")
    return "\n".join(text)


def plain(way: str) -> str:
    """A way without what explains it."""
    return re.split(r": | \(", way)[0]


def details(results: dict, bench: str) -> str:
    """Every way of a bench."""
    found = results[bench]
    rows = rows_of(results, bench)
    shown = [(head, get, shape) for head, get, shape in [
        ("seconds", lambda it: it.median(), "{:.3f}"),
        ("best", lambda it: min(it.seconds), "{:.3f}"),
        ("rounds", lambda it: len(it.seconds), "{}"),
        ("CPU seconds", lambda it: it.median("cpu"), "{:.2f}"),
        ("peak MiB", lambda it: it.mib, "{:,.0f}"),
        ("MB written", lambda it: it.written, "{:,.0f}"),
        ("MB of packages", lambda it: it.size, "{:,.1f}"),
        ("requests", lambda it: it.requests, "{:,}"),
        ("MB moved", lambda it: it.moved, "{:,.1f}"),
    ] if any(get(row) for row in rows)]
    if not any(len(row.seconds) > 1 for row in rows):
        shown = [column for column in shown if column[0] not in ("best", "rounds")]
    text = [f"`benches/all.py run WORK {bench}`, {about(found)}:", "",
            f"| way | {' | '.join(head for head, _, _ in shown)} |", f"|---|{'--:|' * len(shown)}"]
    for row in rows:
        name = f"**{row.way}**" if row.role == "own" else row.way
        cells = [shape.format(get(row)) if get(row) else "" for _, get, shape in shown]
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(text)


def about(found: dict) -> str:
    machine = found["machine"]
    cpu = re.sub(r"\((R|TM)\)| Processor| CPU|-Core", "", machine["cpu"])
    return (f"{found['date']}, commit {found['commit']}, {machine['cores']} cores ({cpu}), {machine['gib']} GiB,"
            f" load {found['load']:.1f} when it began")


# What the picture shows: a title, a bench, and the beginnings of its ways with shorter names.
PICTURE = [
    ("Build wheels from 2.4 GB of libraries", "build",
     {BUILD: "rocwheel", "`zipfile`": "zipfile, zlib", "copies": "patchelf, bdist_wheel"}),
    ("Build them again after a change to one library", "again",
     {"one library": "rocwheel", "the first build": "the first build"}),
    ("Check every byte of the wheels", "check",
     {"`rocwheel check`": "rocwheel", "`python3": "zipfile -t", "`unzip": "unzip -t"}),
    ("Fetch and unpack 300 artifacts, 40 ms away", "fetch",
     {"300 small artifacts, 40 ms: rocwheel": "rocwheel", "300 small artifacts, 40 ms: s5cmd": "s5cmd, zstd, tar",
      "300 small artifacts, 40 ms: boto3": "boto3, tarfile", "300 small artifacts, 40 ms: curl": "curl, zstd, tar"}),
    ("Index 10,000 wheels with digests and metadata", "index",
     {"`rocwheel index`, the first": "rocwheel", "dumb-pypi, with": "dumb-pypi"}),
]
COLORS = {
    "light": {"text": "#1f2328", "soft": "#59636e", "own": "#c8102e", "peer": "#b1bac4", "line": "#d1d9e0"},
    "dark": {"text": "#f0f6fc", "soft": "#9198a1", "own": "#ff5a5f", "peer": "#57606a", "line": "#3d444d"},
}
WIDTH, LEFT, BAR, STEP = 840, 190, 520, 22


def picture(results: dict, theme: str) -> str:
    color = COLORS[theme]
    parts, y = [], 26
    for title, bench, ways in PICTURE:
        rows = rows_of(results, bench)
        found = [(name, find(rows, start)) for start, name in ways.items()]
        found = [(name, row.median()) for name, row in found if row]
        if len(found) < 2:
            continue
        most = max(seconds for _, seconds in found)
        parts.append(f'<text x="14" y="{y}" font-weight="600">{title}</text>')
        y += 10
        for number, (name, seconds) in enumerate(found):
            kind, weight = ("own", "600") if number == 0 else ("peer", "400")
            length = max(2.0, seconds / most * BAR)
            said = f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
            middle = y + STEP / 2 + 4.5
            parts.append(
                f'<text x="{LEFT - 10}" y="{middle}" text-anchor="end" fill="{color["soft"]}" font-weight="{weight}">'
                f'{name}</text><rect x="{LEFT}" y="{y + 3}" width="{length:.1f}" height="{STEP - 6}" rx="3"'
                f' fill="{color[kind]}"/>'
                f'<text x="{LEFT + length + 8:.1f}" y="{middle}" font-weight="{weight}">{said}</text>')
            y += STEP
        y += 32
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 18}" width="{WIDTH}" height="{y - 18}"'
            f' role="img" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="14"'
            f' fill="{color["text"]}">\n<title>Seconds that rocwheel and other programs take</title>\n{body}\n</svg>\n')


BEGIN = re.compile(r"<!-- figures: ([\w-]+) -->")
MARK = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)\n(<!-- end of figures -->)", re.DOTALL)
NAMES = {"summary", "day", "therock", *entries.BENCHES}


def draw(only_check: bool) -> int:
    results = json.loads(RESULTS.read_text("utf-8"))
    pages = {page: page.read_text("utf-8") for page in PAGES}
    if wrong := wrong_marks(pages):
        print("\n".join(wrong), file=sys.stderr)
        return 1

    def table(found: re.Match) -> str:
        name = found[2]
        if name == "summary":
            text = summary(results)
        elif name == "day":
            text = day.table(results)
        else:
            # Figures that were taken by hand stay until a run replaces them.
            text = details(results, name) if name in results else found[3]
        return f"{found[1]}{text}\n{found[4]}"

    wanted = {page: MARK.sub(table, text) for page, text in pages.items()}
    wanted |= {path: picture(results, theme) for theme, path in PICTURES.items()}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        if only_check:
            said = f"not as benches/results.json has it: {path.relative_to(ROOT)}; run benches/all.py draw"
            print(said, file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted[path], "utf-8")
    return int(only_check and bool(stale))


def wrong_marks(pages: dict[Path, str]) -> list[str]:
    """Every name has one mark on one page, and every mark an end: a table without a mark would be lost."""
    wrong = []
    for page, text in pages.items():
        whole = {found.start() for found in MARK.finditer(text) if not BEGIN.search(found[3])}
        wrong += [f"{page.relative_to(ROOT)}: the mark of `{found[1]}` has no end"
                  for found in BEGIN.finditer(text) if found.start() not in whole]
    names = [name for text in pages.values() for name in BEGIN.findall(text)]
    wrong += [f"no page has a mark for `{name}`" for name in sorted(NAMES - set(names))]
    wrong += [f"there are two marks for `{name}`" for name in sorted(set(names)) if names.count(name) > 1]
    return wrong + [f"a mark for `{name}`, which is no bench" for name in sorted(set(names) - NAMES)]
