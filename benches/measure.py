"""Runs commands in turn, and says what each took: rows of `results.json`."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import http.server
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path


@dataclasses.dataclass
class Way:
    """One way to do what a bench is about."""

    name: str
    command: list
    # "own", "peer", or "limit": no program can be faster, because it does only a part of the work.
    role: str = "peer"
    out: Path | None = None  # Deleted before each round; what it has then is measured.
    before: Callable[[], object] | None = None
    rounds: int | None = None
    environment: dict = dataclasses.field(default_factory=dict)
    statuses: tuple = (0,)
    # It prints a table; the best row that begins so has the figures of the part that counts.
    row: str = ""
    keeps: bool = False  # `out` is not deleted: the next round works on the same files.


@dataclasses.dataclass
class Row:
    """What one way took: `seconds` and `cpu` in each round, of the others the most."""

    way: str
    role: str
    seconds: list[float]
    cpu: list[float] = dataclasses.field(default_factory=list)
    mib: float = 0  # The largest process.
    written: float = 0  # MB.
    size: float = 0  # MB of packages.
    disk: float = 0  # MB that the result takes, each file once.
    requests: int = 0
    moved: float = 0  # MB of requests and answers.

    def median(self, what: str = "seconds") -> float:
        return statistics.median(getattr(self, what) or [0])


def alternate(ways: list[Way], rounds: int) -> list[Row]:
    """Each way once, then each way again: what else happens on the machine disturbs all of them."""
    rows: dict[str, Row] = {}
    for number in range(rounds):
        for way in ways:
            if number < (way.rounds or rounds):
                add(rows, once(way))
    for way in ways:
        if way.out:
            shutil.rmtree(way.out, ignore_errors=True)
    return list(rows.values())


def add(rows: dict[str, Row], row: Row) -> None:
    print(f"  {row.way}: {row.seconds[0]:.2f} s, {row.cpu[0]:.2f} s of CPU, {row.mib:.0f} MiB", flush=True)
    known = rows.setdefault(row.way, row)
    if known is not row:
        known.seconds += row.seconds
        known.cpu += row.cpu
        for what in ("mib", "written", "size", "disk", "requests", "moved"):
            setattr(known, what, max(getattr(known, what), getattr(row, what)))


def once(way: Way) -> Row:
    if way.out and not way.keeps:
        shutil.rmtree(way.out, ignore_errors=True)
    if way.before:
        way.before()
    os.sync()
    command = [str(part) for part in way.command]
    read, write = os.pipe()
    with tempfile.TemporaryFile() as errors:
        actions = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_DUP2, errors.fileno(), 2),
                   (os.POSIX_SPAWN_CLOSE, read)]
        began = time.monotonic()
        child = os.posix_spawnp(command[0], command, {**os.environ, **way.environment}, file_actions=actions)
        os.close(write)
        with open(read, encoding="utf-8", errors="replace") as output:
            printed = output.read()
        _, status, used = os.wait4(child, 0)
        seconds, cpu = time.monotonic() - began, used.ru_utime + used.ru_stime
        code = os.waitstatus_to_exitcode(status)
        if code not in way.statuses:
            errors.seek(0)
            said = errors.read().decode(errors="replace")
            raise SystemExit(f"{way.name}: exit {code}: {' '.join(command)}\n{said}")
    row = Row(way.name, way.role, [seconds], [cpu], used.ru_maxrss / 1024, used.ru_oublock * 512 / 1e6)
    if way.row:
        found = min(figures(printed, way.row), key=lambda it: it["seconds"])
        row.seconds, row.cpu = [found["seconds"]], [found["CPU seconds"]]
        row.size = next((value for head, value in found.items() if head.startswith("MB ")), 0)
    elif way.out:
        row.size, row.disk = packages(way.out), disk(way.out)
    return row


def figures(table: str, start: str) -> list[dict[str, float]]:
    """The rows of a table that begin so, by the heads of its columns."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    rows = [cells for cells in lines if cells[0].startswith(start)]
    return [dict(zip(lines[0][1:], map(float, cells[1:]))) for cells in rows]


def packages(out: Path) -> float:
    """MB of the packages, which every way leaves in a `dist`."""
    found = [path.stat() for path in out.rglob("dist/*") if path.is_file()]
    return sum({it.st_ino: it.st_size for it in found}.values()) / 1e6


def disk(out: Path) -> float:
    """MB on the disk: a file with several names counts once."""
    found = [path.lstat() for path in out.rglob("*")]
    return sum({it.st_ino: it.st_blocks * 512 for it in found}.values()) / 1e6


def machine() -> dict:
    """What a reader has to know, to compare these figures with others."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": cpu, "cores": os.cpu_count(), "gib": round(memory)}


def free_ports(*names: str) -> dict:
    with contextlib.ExitStack() as stack:
        sockets = {name: stack.enter_context(socket.socket()) for name in names}
        for it in sockets.values():
            it.bind(("127.0.0.1", 0))
        return {name: it.getsockname()[1] for name, it in sockets.items()}


ID, SECRET = "bench", "not-much-of-a-secret"
KEYS = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true"}


@contextlib.contextmanager
def seaweedfs(place: Path) -> Iterator[str]:
    """A server for S3, which everyone may read from, as from the buckets of ROCm."""
    key = {"accessKey": ID, "secretKey": SECRET}
    config = {"identities": [{"name": "bench", "actions": ["Admin", "Read", "Write", "List"], "credentials": [key]},
                             {"name": "anonymous", "actions": ["Read", "List"]}]}
    ports = free_ports("s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port",
                       "volume.port.grpc", "filer.port", "filer.port.grpc")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / "s3.json").write_text(json.dumps(config))
    with open(place / "weed.log", "w") as log:
        process = subprocess.Popen(
            ["weed", "server", f"-dir={place.resolve()}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3",
             "-s3.port.iceberg=0", "-s3.port.lance=0", *(f"-{name}={port}" for name, port in ports.items()),
             "-s3.iam=false", f"-s3.config={place}/s3.json", "-master.telemetry=false",
             "-master.volumeSizeLimitMB=1024", "-volume.max=200"],
            stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{ports['s3.port']}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(place)


@contextlib.contextmanager
def counted(endpoint: str) -> Iterator[tuple[str, Callable[[], tuple[int, float]]]]:
    """A proxy before a server, and what says how many requests and MB went through it since it was asked last."""
    server, lock, found = urllib.parse.urlsplit(endpoint).netloc, threading.Lock(), [0, 0]

    class Proxy(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            connection = http.client.HTTPConnection(server)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            try:
                connection.endheaders()
            except OSError:  # It has not started yet.
                self.send_error(503)
                return
            left = length
            while left and (piece := self.rfile.read(min(1 << 20, left))):
                left -= len(piece)
                connection.send(piece)
            answer = connection.getresponse()
            data = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            told = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", told or str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            connection.close()
            with lock:
                found[0] += 1
                found[1] += length + len(data)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

        def log_message(self, *_) -> None:
            pass

    def take() -> tuple[int, float]:
        with lock:
            requests, found[0] = found[0], 0
            sent, found[1] = found[1], 0
        return requests, sent / 1e6

    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}", take
    finally:
        proxy.shutdown()
