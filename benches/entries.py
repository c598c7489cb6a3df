"""What is measured: each bench is a function that makes its input, and its ways in turn."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import archives as packed
import inputs
import measure
import wheels
from fetch import behind
from measure import Row, Way, alternate

HERE = Path(__file__).resolve().parent
# The artifacts have only some libraries of ROCm, so `check` reports that others are missing.
# The larger set has each of them several times (RW308).
FINDINGS = "RW303,RW308,RW401,RW405,RW601"


# The programs in `benches/*.rs` that do only a part of the work.
LIMITS = ["deflate", "check", "floor", "elf"]


def limit(name: str) -> Path:
    build = ["cargo", "bench", "--no-run", "--quiet", "--locked", "--message-format=json", "--bench", name]
    output = subprocess.run(build, cwd=HERE.parent, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = (json.loads(line) for line in output.splitlines())
    # Cargo builds the program of the package, too.
    return Path(next(it["executable"] for it in found if it.get("executable") and it["target"]["name"] == name))


class Work:
    """Where the benches work, with what, and how large."""

    def __init__(self, path: Path, rocwheel: Path, quick: bool, rounds: int) -> None:
        self.path, self.rocwheel, self.quick, self.most = path, rocwheel, quick, rounds
        self.scratch = path / f"scratch-{os.getpid()}"
        # Small files are in memory, because file systems differ most in making them.
        shm = Path("/dev/shm")
        self.memory = (shm if shm.is_dir() else path) / f"rocwheel-bench-{os.getpid()}"
        self.artifacts = path / "artifacts"
        os.environ["PATH"] = f"{path}/tools/bin:{os.environ['PATH']}"
        self.python = path / "tools/bin/python"
        if quick:
            self.artifacts = path / "artifacts-quick"
            inputs.part_of(path / "artifacts", self.artifacts)
        os.environ["ROCWHEEL_TEST_PACKAGES"] = str(wheels.policy(path / "packages.toml"))

    def size(self, full, quick):
        return quick if self.quick else full

    def rounds(self, full: int) -> int:
        return 1 if self.quick else min(full, self.most)

    def build(self, out: Path, *options, artifacts: Path | None = None, verb: str = "build",
              without: tuple = ("--without", "profiler")) -> list:
        return [self.rocwheel, "-q", verb, "--artifact-dir", artifacts or self.artifacts, "--output-dir", out,
                *without, *options]

    def pipeline(self, out: Path, *options, artifacts: Path | None = None) -> list:
        return self.build(out, "--ignore", FINDINGS, *options, artifacts=artifacts, verb="pipeline")

    def warm(self, place: Path) -> None:
        """Reads all files once, so that every way finds them in the page cache."""
        for path in place.rglob("*"):
            if path.is_file():
                with path.open("rb", buffering=0) as file:
                    while file.read(1 << 20):
                        pass


def start(work: Work) -> list[Row]:
    commands = ["--version", "targets all", "place --offline --run-id 7 --platform linux"]
    return alternate([Way(f"`rocwheel {it}`", [work.rocwheel, *it.split()], "own") for it in commands], work.rounds(9))


def build(work: Work) -> list[Row]:
    out, script = work.scratch / "out", HERE / "wheels.py"
    work.warm(work.artifacts)
    return alternate([
        Way("`rocwheel build`", work.build(out), "own", out),
        Way("libdeflate alone, level 5, all cores, files in memory",
            [limit("deflate"), work.artifacts, "5"], "limit", row="5"),
        Way("`rocwheel build --compression 6`", work.build(out, "--compression", "6"), "own", out, rounds=2),
        Way("`rocwheel build --compression store`", work.build(out, "--compression", "store"), "own", out, rounds=2),
        Way("`zipfile`, zlib level 6, one thread; no run paths",
            [work.python, script, "zipped", work.artifacts, out], "peer", out, rounds=1),
        Way("copies, patchelf for each entry, `bdist_wheel` (setuptools)",
            [work.python, script, "staged", work.artifacts, out], "peer", out, rounds=1),
    ], work.rounds(5))


def levels(work: Work) -> list[Row]:
    program = limit("deflate")
    return alternate([Way(f"libdeflate alone, level {level}", [program, work.artifacts, level], "limit", row=f"{level}")
                      for level in (1, 4, 5, 6, 7)], work.rounds(1))


def pipeline(work: Work) -> list[Row]:
    out = work.scratch / "out"
    return alternate([
        Way("`rocwheel pipeline` to a directory", work.pipeline(out), "own", out),
        Way("`rocwheel build` alone", work.build(out), "limit", out),
    ], work.rounds(3))


def again(work: Work) -> list[Row]:
    first, copy, out, own = (work.scratch / name for name in ("first", "copy", "out", "artifacts"))
    inputs.link(work.artifacts, own)
    library = own / "amd-llvm_lib_generic/stage/lib/libamd_comgr.so.2.4.0"
    rebuild = work.build(first, "--reuse", first, artifacts=own)
    # Files that were changed right before are not remembered.
    settled = lambda: time.sleep(0.1)
    changed = iter(range(1, 250))

    def copied(source: Path) -> Callable[[], object]:
        return lambda: (shutil.rmtree(copy, ignore_errors=True), shutil.copytree(source, copy))

    of_copy = work.build(out, "--reuse", copy, artifacts=own)
    # As many artifacts and files as a run has, all of them small.
    small, made = work.scratch / "small", work.scratch / "small-set"
    components = [f"part{number}" for number in range(work.size(158, 10))]
    inputs.many_artifacts(small, [f"{name}_lib_generic" for name in components], 69)
    policy = {"ROCWHEEL_TEST_PACKAGES": str(wheels.policy(work.scratch / "packages.toml", components))}
    of_small = lambda *options: work.build(made, *options, artifacts=small)
    return alternate([
        Way("the first build", work.build(first, artifacts=own), "limit", first, before=settled),
        Way("nothing changed", rebuild, "own", first, keeps=True),
        Way("one library of 63 MB changed", rebuild, "own", first, keeps=True,
            before=lambda: (inputs.change_middle(library, next(changed)), settled())),
        Way("nothing changed, from a copy of the set: every wheel is hashed first", of_copy, "own", out,
            before=copied(first), rounds=1),
        Way("10,900 small files: the first build", of_small(), "limit", made, before=settled, environment=policy),
        Way("10,900 small files: nothing changed", of_small("--reuse", made), "own", made, keeps=True,
            environment=policy),
    ], work.rounds(5))


def archives(work: Work) -> list[Row]:
    """From archives, and what other ways than unpacking them first would take."""
    place, out, script = work.scratch / "place", work.scratch / "out", HERE / "archives.py"
    packed.pack(work.artifacts, place / "archives")
    build = work.build(out, artifacts=place / "archives")
    of_arrived = work.build(out, artifacts=place / "arrived")
    in_memory = work.memory / "artifacts"

    def to_memory() -> None:
        for directory in (in_memory, out):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        (out / "artifacts").symlink_to(in_memory)

    def run(way: str, command: list) -> list:
        return [sys.executable, script, way, place, out, *command]

    return alternate([
        Way("the artifacts are directories", work.build(out), "limit", out),
        Way("archives, unpacked to memory", build, "own", out, keeps=True, before=to_memory),
        Way("each archive decompressed twice and never written: the least that this would take",
            run("twice", work.build(out)), "limit", out),
        Way("`rocwheel build` from archives, unpacked to the disk", build, "own", out),
        Way("the same again with `--reuse`, nothing changed", [*build, "--reuse", out], "own", out, keeps=True),
        Way("archives arrive at 50 MB/s and are unpacked meanwhile, then `rocwheel build`",
            run("arriving", of_arrived), "own", out),
        Way("… and `rocwheel build` of what has arrived meanwhile, reused at the end", run("ahead", of_arrived), "own",
            out),
    ], work.rounds(1))


def check(work: Work) -> list[Row]:
    made = work.scratch / "set"
    subprocess.run(work.build(made), check=True, stdout=subprocess.DEVNULL)
    work.warm(made)
    wheels_of = ["sh", "-c", f"for it in {made}/dist/*.whl; do {{}} \"$it\" >/dev/null || exit; done"]
    each = lambda command: [part.replace("{}", command) for part in wheels_of]
    # It exits with 1 if there are findings, which do not matter here.
    own = [work.rocwheel, "-q", "check", made]
    return alternate([
        Way("`rocwheel check`", own, "own", statuses=(0, 1)),
        Way("inflate and hash alone: libdeflate, SHA-256, all cores", [limit("check"), made / "dist"],
            "limit", row="libdeflate"),
        Way("`unzip -tqq`: CRC-32 only", each("unzip -tqq"), "peer", rounds=2),
        Way("`python3 -m zipfile -t`: CRC-32 only", each("python3 -m zipfile -t"), "peer", rounds=2),
    ], work.rounds(5))


def fetch(work: Work) -> list[Row]:
    rows = []
    for shape, rounds in (("large", 1), ("small", 2)):
        said = work.scratch / "fetch.json"
        sizes = ["--gigabytes", work.size("6", "0.05"), "--small", work.size("300", "10")]
        subprocess.run([work.python, HERE / "fetch.py", "--rocwheel", work.rocwheel, "--place", work.scratch / "fetch",
                        "--shapes", shape, *sizes, "--rounds", str(work.rounds(rounds)), "--json", said], check=True)
        what = {"large": f"one artifact of {sizes[1]} GB", "small": f"{sizes[3]} small artifacts"}
        for it in json.loads(said.read_text()):
            way = f"{what[it['shape']]}, {it['delay']} ms: {it['way']}"
            role = "own" if it["way"].startswith("rocwheel") else "peer"
            rows.append(Row(way, role, [it["seconds"]], [it["cpu"]], it["mib"]))
    return rows


def github(work: Work) -> list[Row]:
    said = work.scratch / "github.json"
    sizes = work.size(["--large", "4", "--small", "80"], ["--large", "1", "--small", "5"])
    subprocess.run([work.python, HERE / "fetch_github.py", "--rocwheel", work.rocwheel, "--place",
                    work.scratch / "github", "--json", said, "--rounds", str(work.rounds(2)), *sizes], check=True)
    return [Row(**row) for row in json.loads(said.read_text())]


def index(work: Work) -> list[Row]:
    packages, dumb, lists = work.memory / "packages", work.memory / "dumb", work.memory / "list"
    projects, versions = work.size((1000, 10), (100, 5))
    inputs.small_wheels(packages, projects, versions)
    lists.write_text("".join(f"{path.name}\n" for path in sorted(packages.iterdir())))

    def clean() -> None:
        for name in ("simple", "index.html", "set.json", "SHA256SUMS", ".rocwheel-digests.json"):
            path = packages / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        for path in packages.glob("*.metadata"):
            path.unlink()

    def touched() -> None:
        for path in packages.glob("*.whl"):
            os.utime(path)

    url = ["--packages-url", "https://example.org/", "--output-dir", dumb]
    found = f"{work.python} {HERE}/package_list.py {packages} >{lists}.json && exec dumb-pypi --package-list-json" \
            f" {lists}.json {' '.join(map(str, url))}"
    own = [work.rocwheel, "-q", "index", "--no-check", packages]
    return alternate([
        Way("piprepo: names only", ["piprepo", "build", packages], before=clean),
        Way("dumb-pypi: names only", ["dumb-pypi", "--package-list", lists, *url], before=clean),
        Way("dumb-pypi, with digests and metadata that a script finds first", ["sh", "-c", found], before=clean),
        Way("reading and writing alone: the wheels, and files of the same sizes", [limit("floor"), packages], "limit",
            before=clean),
        Way("`rocwheel index`, the first time", own, "own", before=clean),
        Way("`rocwheel index`, nothing changed", own, "own"),
        Way("`rocwheel index`, the time of every file changed", own, "own", before=touched),
    ], work.rounds(3))


def upload(work: Work) -> list[Row]:
    packages, published = work.scratch / "packages", work.scratch / "published"
    inputs.random_wheels(packages / "dist", *work.size((3, 40), (1, 5)))
    own = [work.rocwheel, "upload", "--no-check", "-q", "--multi-target", "--platform", "linux", "--run-id", "local",
           "--packages-dir", packages]
    # The others get what rocwheel publishes: packages, metadata and pages.
    subprocess.run([*own, "--output-dir", published], check=True, stdout=subprocess.DEVNULL)
    tree = published / "local-linux/python"
    with measure.seaweedfs(work.scratch / "server") as endpoint:
        keys = {**measure.KEYS, "AWS_ENDPOINT_URL": endpoint}
        aws = lambda *command: subprocess.run(["aws", "s3", *command], env={**os.environ, **keys},
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        warm = work.scratch / "warm"
        warm.write_text("warm")
        while aws("mb", "s3://warm") or aws("cp", str(warm), "s3://warm/"):
            time.sleep(1)

        def ways(away: str, address: str) -> list[Way]:
            def way(name: str, bucket: str, command: list, role: str = "peer") -> Way:
                empty = lambda: (aws("rb", "--force", f"s3://{bucket}"), aws("mb", f"s3://{bucket}"))
                return Way(away + name, command, role, before=empty, environment={**keys, "AWS_ENDPOINT_URL": address})

            s5cmd = ["s5cmd", "--endpoint-url", address, "--log", "error", "cp", f"{tree}/*", "s3://s5cmd/set/"]
            copy = ["aws", "s3", "cp", "--recursive", "--only-show-errors", tree, "s3://aws/set"]
            return [way("`rocwheel upload`", "rocwheel", [*own, "--bucket", "rocwheel"], "own"),
                    way("s5cmd", "s5cmd", s5cmd), way("`aws s3 cp --recursive`", "aws", copy)]

        rows = []
        for delay in (0, 40):
            with behind(urllib.parse.urlsplit(endpoint).port, delay) as address:
                rows += alternate(ways(f"{delay} ms away: ", address), work.rounds(5))
        return rows


def split(work: Work) -> list[Row]:
    said = work.scratch / "split.json"
    place = work.path / "kpack"
    files = [str(path) for path in work.artifacts.rglob("librocrand.so*")] if work.quick else []
    subprocess.run([work.python, HERE / "kpack.py", "--rocwheel", work.rocwheel, "--place", place, "--scratch",
                    work.memory, "--rounds", str(work.rounds(5)), "--json", said, *files], check=True)
    return [Row(**row) for row in json.loads(said.read_text())]


def framework(work: Work) -> list[Row]:
    place, rocm, out = work.path / "frameworks", work.scratch / "rocm", work.scratch / "out"
    wheels.frameworks(place)
    inputs.stubs(rocm)
    work.warm(place)
    files = sorted(place.glob("*.whl"))
    jax = next(it for it in files if it.name.startswith("jax_rocm7_pjrt"))
    # They were built before gfx1251 had a name. The others are like one of these.
    many = [it for it in files if not it.name.startswith(("jax_rocm10", "mooncake", "onnxruntime_migraphx"))]
    verb = lambda name, *options: [work.rocwheel, "-q", "framework", name, "--output-dir", out, *options]
    split = verb("split")
    each = " && ".join(f"{' '.join(map(str, split))} {it} {chosen(it)}" for it in many)
    by_hand = "wheel unpack -d $0 $1 && cd $0/* && find . -name '*.so' -exec patchelf --force-rpath --set-rpath $2 {} + && wheel pack -d $0 ."
    return alternate([
        Way("`rocwheel framework tie` of jax-rocm7-pjrt", verb("tie", jax, "--set", rocm), "own", out),
        Way("`wheel unpack`, patchelf, `wheel pack`", ["sh", "-c", by_hand, out, jax, "$ORIGIN/../../_rocm_sdk_core/lib"],
            "peer", out, rounds=1),
        Way("`rocwheel framework split` of jax-rocm7-pjrt", [*split, jax], "own", out),
        Way(f"`rocwheel framework split` of {len(many)} wheels, one by one", ["sh", "-c", each], "own", out),
    ], work.rounds(3))


def chosen(wheel: Path) -> str:
    """Some wheels have code for targets that no release of ROCm has."""
    return "--target gfx942,gfx1100" if wheel.name.startswith(("torch_s",)) else ""


def run_paths(work: Work) -> list[Row]:
    files = [path for path in work.artifacts.rglob("*.so*") if path.stat().st_size > 50e6]
    said = subprocess.run([limit("elf"), "--json", *files], check=True, stdout=subprocess.PIPE).stdout
    return [Row(**row) for row in json.loads(said)]


def large(work: Work) -> list[Row]:
    """20 GB in one set, against 2.4 GB, which is a part of it."""
    copies, many = work.size(8, 2), work.scratch / "artifacts"
    need, free = work.size(24, 1), shutil.disk_usage(work.path).free / 1e9
    if free < need:
        raise SystemExit(f"needs {need} GB at {work.path}, and {free:.0f} GB are free")
    inputs.copies(work.artifacts, many, copies)
    rows = []
    for times, artifacts in ((1, work.artifacts), (copies, many)):
        made, out, said = work.scratch / "set", work.scratch / "out", f"{times} times: "
        check = [work.rocwheel, "-q", "check", made]
        if times == 1:
            work.warm(artifacts)
        ways = [
            Way(f"{said}`build`", work.build(made, artifacts=artifacts), "own", made),
            Way(f"{said}`check`", check, "own", statuses=(0, 1)),
            Way(f"{said}`index`", [work.rocwheel, "-q", "index", "--no-check", made], "own"),
        ]
        rows += alternate(ways, work.rounds(3) if times == 1 else 1)
        pipe = Way(f"{said}`pipeline`", work.pipeline(out, artifacts=artifacts), "own", out)
        rows += alternate([pipe], work.rounds(3) if times == 1 else 1)
    return rows


def members(work: Work) -> list[Row]:
    """100,000 small files in one wheel, against 10,000."""
    few, many = work.size((10_000, 100_000), (500, 5_000))
    ways = []
    for count in (few, many):
        place = work.memory / str(count)
        inputs.small_files(place / "artifacts", count)
        made, artifacts, said = place / "set", place / "artifacts", f"{count:,} members: "
        to = ["--no-check", "--multi-target", "--platform", "linux", "--run-id", "local", "--packages-dir", made,
              "--output-dir", place / "out"]
        steps = {
            "`build --plan`": work.build(made, "--plan", artifacts=artifacts),
            "`build`": work.build(made, artifacts=artifacts),
            "`build --reuse`, nothing changed": work.build(made, "--reuse", made, artifacts=artifacts),
            "`check`": [work.rocwheel, "-q", "check", made],
            "`index`": [work.rocwheel, "-q", "index", "--no-check", made],
            "`upload --dry-run`": [work.rocwheel, "-q", "upload", "--dry-run", *to],
            "`summary`": [work.rocwheel, "-q", "summary", made],
        }
        ways += [Way(said + name, command, "own", made, keeps=name != "`build`", statuses=(0, 1))
                 for name, command in steps.items()]
    return alternate(ways, work.rounds(3))


def growth(work: Work) -> list[Row]:
    """Ten times as many artifacts of a run, targets of a set, and versions at a place."""
    ways = []
    for count in work.size((10, 100, 1_000, 10_000), (10, 100)):
        components = [f"part{number}" for number in range(count)]
        names, place = [f"{name}_lib_generic" for name in components], work.memory / f"artifacts-{count}"
        inputs.many_artifacts(place / "artifacts", names, 1)
        inputs.archives(place / "archives", names)
        policy = {"ROCWHEEL_TEST_PACKAGES": str(wheels.policy(place / "packages.toml", components))}
        found = ["--input-dir", place / "archives", "--output-dir", place / "out", "--allow-incomplete", "--dry-run"]
        steps = {"`fetch --dry-run`": [work.rocwheel, "-q", "fetch", *found],
                 "`build --plan`": work.build(place / "set", "--plan", artifacts=place / "artifacts")}
        ways += [Way(f"{count:,} artifacts: {name}", command, "own", environment=policy)
                 for name, command in steps.items()]
    for count in work.size((1, 8, 28, 64), (1, 8)):
        place, targets = work.memory / f"targets-{count}", [f"gfx9{number:03}" for number in range(count)]
        names = ["blas_lib_generic", *(f"blas_lib_{target}" for target in targets)]
        inputs.many_artifacts(place / "artifacts", names, 300)
        rows = "".join(f'{{ name = "{name}", product = "{name}", families = ["gfx9X-all"] }},\n' for name in targets)
        (place / "targets.toml").write_text(f"targets = [\n{rows}]\n")
        more, made = {"ROCWHEEL_TARGETS_FILE": str(place / "targets.toml")}, place / "set"
        steps = {"`build`": work.build(made, artifacts=place / "artifacts"),
                 "`check`": [work.rocwheel, "-q", "check", made],
                 "`index`": [work.rocwheel, "-q", "index", "--no-check", made]}
        said = "1 target" if count == 1 else f"{count} targets"
        ways += [Way(f"{said}: {name}", command, "own", made, keeps=name != "`build`", statuses=(0, 1),
                     environment=more) for name, command in steps.items()]
    for count in work.size((10, 100, 1_000), (1, 10)):
        place = work.memory / f"versions-{count}"
        inputs.small_wheels(place / "set", 10, count)
        pages = lambda place=place: [path.unlink() for path in place.glob("set/*") if path.suffix != ".whl" and path.is_file()]
        to = ["--no-check", "--dry-run", "--multi-target", "--platform", "linux", "--run-id", "local",
              "--packages-dir", place / "set", "--output-dir", place / "out"]
        steps = {"`index`": [work.rocwheel, "-q", "index", "--no-check", place / "set"],
                 "`upload --dry-run`": [work.rocwheel, "-q", "upload", *to]}
        ways += [Way(f"{count:,} versions of 10 projects: {name}", command, "own",
                     before=pages if name == "`index`" else None) for name, command in steps.items()]
    return alternate(ways, work.rounds(5))


def promote(work: Work) -> list[Row]:
    """A candidate becomes a release, against copying it, and against building it again."""
    made, found, out, again = (work.scratch / name for name in ("candidate", "found", "released", "again"))
    subprocess.run(work.build(made, "--version", "7.14.0rc1"), check=True)
    # A set as another machine finds it: nothing is known of its packages but what they say.
    shutil.copytree(made, found, ignore=shutil.ignore_patterns(".rocwheel-*"))
    one = work.scratch / "one"
    one.mkdir()
    wheel = min(found.glob("dist/*.whl"), key=lambda it: abs(it.stat().st_size - 133_000_000))
    os.link(wheel, one / wheel.name)
    to = ["--to", "release", "--into", out, "--no-check", "--no-summary"]
    copied = ["cp", "-r", "--reflink=never"]
    return alternate([
        Way("`cp` of the set", [*copied, found / "dist", out], "limit", out),
        Way("`rocwheel promote` of the set that was built here", [work.rocwheel, "-q", "promote", made, *to], "own", out),
        Way("`rocwheel promote` of the set from elsewhere", [work.rocwheel, "-q", "promote", found, *to], "own", out),
        Way("`rocwheel build` under the other version", work.build(again, "--version", "7.14.0"), "own", again, rounds=1),
        Way("`cp` of one wheel", [*copied, one, out], "limit", out),
        Way("`rocwheel promote` of one wheel", [work.rocwheel, "-q", "promote", one, *to], "own", out),
    ], work.rounds(7))


def products(work: Work) -> list[Row]:
    """The pages of a release place, against listing its wheels: in a directory, and in a bucket."""
    place, few = work.memory / "place", work.memory / "few"
    (projects, versions), (some, each) = work.size(((500, 200), (25, 200)), ((20, 10), (5, 10)))
    pages = lambda at: [work.rocwheel, "-q", "index", "--layout", "product", "--no-directory-pages", at]
    for at, counts in ((place, (projects, versions)), (few, (some, each))):
        inputs.release_place(at, *counts)
        subprocess.run(pages(at), check=True, stdout=subprocess.DEVNULL)
    many, less = f"{projects * versions:,} wheels", f"{some * each:,} wheels in a bucket"
    rows = alternate([
        Way(f"{many}: `find -printf`", ["find", place, "-type", "f", "-printf", "%s %T@ %p\\n"], "limit"),
        Way(f"{many}: `index --layout product`, nothing changed", pages(place), "own"),
    ], work.rounds(3))
    with measure.seaweedfs(work.scratch / "server") as endpoint:
        keys = {**measure.KEYS, "AWS_ENDPOINT_URL": endpoint}
        s5cmd = ["s5cmd", "--endpoint-url", endpoint, "--log", "error"]
        run = lambda *command: subprocess.run([*s5cmd, *command], env={**os.environ, **keys},
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        while run("mb", "s3://place") or run("cp", few / "rocm/core/whl-next/index.html", "s3://place/warm"):
            time.sleep(1)
        assert run("cp", f"{few}/rocm/", "s3://place/v5/rocm/") == 0
        bucket = "s3://place/v5"
        subprocess.run(pages(bucket), env={**os.environ, **keys}, check=True, stdout=subprocess.DEVNULL)
        return rows + alternate([
            Way(f"{less}: `s5cmd ls`", [*s5cmd, "ls", f"{bucket}/*"], "limit", environment=keys),
            Way(f"{less}: `index --layout product`, nothing changed", pages(bucket), "own", environment=keys),
        ], work.rounds(3))


def install(work: Work) -> list[Row]:
    """Into a new environment, against uv and pip alone with the same packages."""
    made, out, cache = (work.scratch / name for name in ("made", "environment", "cache"))
    subprocess.run(work.build(made, "--version", "7.14.0"), check=True)
    what = ["--no-index", "--find-links", f"{made}/dist", "rocm[libraries]==7.14.0"]
    # The set lacks most libraries, so `check` would refuse it.
    own = [work.rocwheel, "-q", "install", made, "--no-check", "--target", "none", "--python", work.python]

    def alone(*commands: list) -> list:
        return ["sh", "-euc", "; ".join(shlex.join(map(str, command)) for command in commands)]

    uv = alone(["uv", "venv", "--quiet", "--python", work.python, out],
               ["uv", "pip", "install", "--quiet", "--python", out / "bin/python", *what])
    pip = alone([work.python, "-m", "venv", out], [out / "bin/python", "-m", "pip", "install", "--quiet", *what])
    with_cache = {"UV_CACHE_DIR": str(cache), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    forget = lambda: shutil.rmtree(cache, ignore_errors=True)
    subprocess.run(uv, check=True, env={**os.environ, **with_cache})
    warm = alternate([
        Way("warm cache: `uv` alone", uv, "limit", out, environment=with_cache),
        Way("warm cache: `rocwheel install`", [*own, "--installer", "uv", "--venv", out], "own", out, environment=with_cache),
    ], work.rounds(5))
    return warm + alternate([
        Way("cold cache: `uv` alone", uv, "limit", out, forget, environment=with_cache),
        Way("cold cache: `rocwheel install`", [*own, "--installer", "uv", "--venv", out], "own", out, forget,
            environment=with_cache),
        Way("`pip` alone", pip, "limit", out, environment=with_cache),
        Way("`rocwheel install --installer pip`", [*own, "--installer", "pip", "--venv", out], "own", out,
            environment=with_cache),
    ], work.rounds(3))


BENCHES: dict[str, Callable[[Work], list[Row]]] = {
    it.__name__.replace("_", "-"): it
    for it in (start, build, levels, pipeline, again, archives, check, fetch, github, upload, index, split, framework,
               run_paths, members, growth, large, promote, products, install)
}
