# /// script
# requires-python = ">=3.10"
# dependencies = ["pyzstd==0.20.0"]
# ///
"""How fast what GitHub keeps of a run is fetched and unpacked, beside the usual way, on one machine.

    uv run benches/fetch_github.py --rocwheel target/dist/rocwheel --place DIR

Serves a run's uploads as GitHub does: an API that leads to another address for each, where parts can be asked
for. The large archives were uploaded as they are, the small ones in zip files, deflated as
`actions/upload-artifact` does it. Takes turns between `rocwheel fetch`, and curl, unzip and `zstd -d | tar x`,
as many at once as there are processors. Needs `curl`, `unzip`, `zstd` and 12 GB at DIR.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import http.server
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import zipfile

import fetch
import inputs
import measure
from measure import Way

RUN = "/repos/bench/bench/actions/runs/1"
# As many small archives as go into one upload.
TOGETHER = 20


@inputs.apart
def make(place: pathlib.Path, large: int, small: int) -> None:
    if place.exists():
        return
    place.mkdir(parents=True)
    made = fetch.Megabytes()
    for number in range(large + small):
        kind, size = ("large", 640 << 20) if number < large else ("small", None)
        fetch.pack(made, place / f"{kind}{number}_lib_generic.tar.zst", size)


def uploads(archives: pathlib.Path, place: pathlib.Path) -> list[pathlib.Path]:
    """The files that GitHub would keep."""
    names = sorted(archives.iterdir())
    kept = [path for path in names if path.name.startswith("large")]
    small = [path for path in names if path not in kept]
    place.mkdir(exist_ok=True)
    for at in range(0, len(small), TOGETHER):
        path = place / f"small-{at // TOGETHER}.zip"
        if not path.exists():
            with zipfile.ZipFile(path.with_suffix(".part"), "w", zipfile.ZIP_DEFLATED, compresslevel=6) as whole:
                for archive in small[at : at + TOGETHER]:
                    whole.write(archive, archive.name)
            path.with_suffix(".part").rename(path)
        kept.append(path)
    return kept


def digest(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kept: list[pathlib.Path]
    listed: list[dict]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == f"{RUN}/artifacts":
            self.say(json.dumps({"total_count": len(self.listed), "artifacts": self.listed}).encode())
        elif found := re.fullmatch(r"/repos/bench/bench/actions/artifacts/(\d+)/zip", path):
            self.send_response(302)
            self.send_header("Location", f"http://{self.headers['Host']}/kept/{found[1]}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif found := re.fullmatch(r"/kept/(\d+)", path):
            self.keep(self.kept[int(found[1])])
        else:
            self.send_error(404)

    def say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def keep(self, path: pathlib.Path) -> None:
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first = int(asked[1]) if asked else 0
        end = min(int(asked[2]) + 1, size) if asked and asked[2] else size
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
        kind = "application/zip" if path.suffix == ".zip" else "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Disposition", f'attachment; filename="{path.name}"')
        self.send_header("ETag", f'"{path.name}"')
        self.send_header("Content-Length", str(end - first))
        self.end_headers()
        with path.open("rb") as file, contextlib.suppress(ConnectionError):
            while first < end:
                first += os.sendfile(self.connection.fileno(), file.fileno(), first, end - first)


def serve(kept: list[pathlib.Path], listed: list[dict], port: int) -> None:
    Handler.kept, Handler.listed = kept, listed
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


@contextlib.contextmanager
def server(kept: list[pathlib.Path]):
    listed = [{"id": at, "node_id": "x", "name": path.name.removesuffix(".zip"), "size_in_bytes": path.stat().st_size,
               "url": "", "archive_download_url": "", "expired": False, "digest": digest(path),
               "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
               "expires_at": "2027-01-01T00:00:00Z"} for at, path in enumerate(kept)]
    port = measure.free_ports("api")["api"]
    process = multiprocessing.Process(target=serve, args=(kept, listed, port), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.join()


USUAL = """
set -eu
mkdir -p "$OUT/archives"
cd "$OUT"
echo "$KEPT" | xargs -P "$(nproc)" -n 2 sh -c '
  curl -sS --fail --retry 30 --retry-connrefused -L -o "$1" "$API/repos/bench/bench/actions/artifacts/$0/zip"
  case "$1" in
    *.zip) unzip -q "$1" -d archives; rm "$1";;
    *) mv "$1" archives/;;
  esac'
ls archives | xargs -P "$(nproc)" -I{} sh -c '
  name=$(basename {} .tar.zst); mkdir "$name"
  zstd -q -d -c "archives/{}" | tar x -C "$name"; rm "archives/{}"'
"""


def ways(rocwheel: str, api: str, kept: list[pathlib.Path], out: pathlib.Path) -> list[Way]:
    names = " ".join(f"{at} {path.name}" for at, path in enumerate(kept))
    own = [rocwheel, "fetch", "--run-id", "1", "--repository", "bench/bench", "--platform", "linux",
           "--source", "github", "--github-api-url", api, "--github-token", "none", "--allow-incomplete",
           "-q", "--no-progress", "--output-dir", out]
    return [
        Way("`rocwheel fetch --source github`", own, "own", out),
        Way("curl, unzip; zstd -d, tar x", ["sh", "-c", USUAL], "peer", out,
            environment={"API": api, "KEPT": names, "OUT": str(out)}),
    ]


def files(out: pathlib.Path) -> tuple[int, int]:
    """How many there are, and their bytes: what `fetch` writes down beside them aside."""
    sizes = [path.stat().st_size for path in out.glob("*_lib_generic/**/*") if path.is_file()]
    return len(sizes), sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rocwheel", required=True)
    parser.add_argument("--place", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", type=int, default=4)
    parser.add_argument("--small", type=int, default=80)
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    args = parser.parse_args()
    rocwheel = str(pathlib.Path(args.rocwheel).resolve())
    archives = args.place / f"archives-{args.large}-{args.small}"
    make(archives, args.large, args.small)
    kept = uploads(archives.resolve(), args.place.resolve() / "uploads")
    packed = sum(path.stat().st_size for path in kept)
    print(f"{len(list(archives.iterdir()))} archives in {len(kept)} uploads, {packed / 1e9:.2f} GB", flush=True)
    rows: dict[str, measure.Row] = {}
    came, out = set(), args.place.resolve() / "out"
    with server(kept) as api:
        for _ in range(args.rounds):
            for way in ways(rocwheel, api, kept, out):
                measure.add(rows, measure.once(way))
                came.add(files(out))
    shutil.rmtree(out)
    shutil.rmtree(args.place / "uploads")
    assert len(came) == 1, f"they have not fetched the same: {came}"
    if args.json:
        args.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows.values()]))


if __name__ == "__main__":
    main()
