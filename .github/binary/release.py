#!/usr/bin/env python3
"""What the release workflow does with a program once it is built.

    release.py judge TARGET PROGRAM            # fails if the header, the size or what it links to is wrong
    release.py wheel TARGET PROGRAM SDIST OUT  # the wheel with this program; its metadata is that of the sdist
    release.py sbom TARGET OUT                 # the crates inside, as CycloneDX
    release.py gather URL BUILT OUT            # names the programs, and writes SHA256SUMS and release.txt
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
import subprocess
import sys
import tarfile
import uuid
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 20_000_000

# For each target: the runner as RUNNER_OS-RUNNER_ARCH, and the platform tag of the wheel. A static program
# needs nothing of the host, so its wheel is for every libc.
TARGETS = {
    "x86_64-unknown-linux-musl": ("Linux-X64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"),
    "aarch64-unknown-linux-musl": ("Linux-ARM64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"),
    "x86_64-apple-darwin": ("macOS-X64", "macosx_10_12_x86_64"),
    "aarch64-apple-darwin": ("macOS-ARM64", "macosx_11_0_arm64"),
    "x86_64-pc-windows-msvc": ("Windows-X64", "win_amd64"),
}


def suffix(target: str) -> str:
    return ".exe" if "windows" in target else ""


def asset(target: str) -> str:
    """The name under which `cargo binstall` looks for the program."""
    return f"rocwheel-{target}{suffix(target)}"


def judge(target: str, program: Path) -> None:
    """Also of a program that this machine cannot run."""
    data = program.read_bytes()
    if len(data) > MOST_BYTES:
        sys.exit(f"error: {program} has {len(data):,} bytes, and may have {MOST_BYTES:,}")
    machine = target.split("-", maxsplit=1)[0]
    if target.endswith("-linux-musl"):
        judge_elf(data, {"x86_64": 62, "aarch64": 183}[machine])
    elif target.endswith("-apple-darwin"):
        expected = {"x86_64": 0x0100_0007, "aarch64": 0x0100_000C}[machine]
        magic, found = struct.unpack_from("<II", data)
        if (magic, found) != (0xFEEDFACF, expected):
            sys.exit(f"error: not a Mach-O file for {machine}: {magic:#x}, {found:#x}")
    else:
        header = struct.unpack_from("<I", data, 0x3C)[0]
        if data[:2] != b"MZ" or data[header : header + 6] != b"PE\0\0\x64\x86":
            sys.exit("error: not a PE file for x86_64")
    print(f"{program.name}: {len(data):,} bytes for {target}")


def judge_elf(data: bytes, machine: int) -> None:
    """Static: no loader (PT_INTERP, 3) and no needed library (DT_NEEDED, 1)."""
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != machine:
        sys.exit(f"error: not an ELF file for machine {machine}")
    (offset,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(offset, offset + size * count, size):
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 3:
            sys.exit("error: the program needs a loader, so it is not static")
        if kind != 2:
            continue
        for entry in range(start, start + length, 16):
            tag = struct.unpack_from("<q", data, entry)[0]
            if tag == 1:
                sys.exit("error: the program needs a shared library, so it is not static")
            if tag == 0:
                break


def wheel(target: str, program: Path, sdist: Path, out: Path) -> None:
    tag = f"py3-none-{TARGETS[target][1]}"
    files: dict[str, tuple[bytes, int]] = {}
    with tarfile.open(sdist) as archive:
        top = sdist.name.removesuffix(".tar.gz")
        _, version = top.split("-", maxsplit=1)
        info = f"{top}.dist-info"
        wanted = {f"{top}/python/rocwheel/{name}": f"rocwheel/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
        wanted |= {f"{top}/PKG-INFO": f"{info}/METADATA", f"{top}/LICENSE": f"{info}/licenses/LICENSE"}
        for source, name in wanted.items():
            member = archive.extractfile(source)
            if member is None:
                sys.exit(f"error: {sdist} has no {source}")
            files[name] = (member.read(), 0o644)
    files[f"{top}.data/scripts/rocwheel{suffix(target)}"] = (program.read_bytes(), 0o755)
    tags = [f"Tag: py3-none-{platform}\n" for platform in TARGETS[target][1].split(".")]
    text = f"Wheel-Version: 1.0\nGenerator: rocwheel-release ({version})\nRoot-Is-Purelib: false\n{''.join(tags)}"
    files[f"{info}/WHEEL"] = (text.encode(), 0o644)
    files[f"{info}/sboms/rocwheel.cdx.json"] = (bill(target).encode(), 0o644)
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, (data, _) in sorted(files.items()))
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{top}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive_out:
        # `dist-info` last, as the specification recommends, and the same bytes at any time.
        for name in sorted(files, key=lambda name: (name.startswith(info), name.endswith("RECORD"), name)):
            data, mode = files[name]
            member_info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member_info.compress_type, member_info.create_system = zipfile.ZIP_DEFLATED, 3
            member_info.external_attr = (0o100000 | mode) << 16
            archive_out.writestr(member_info, data)
    print(path)


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def bill(target: str) -> str:
    """What is compiled into the program or runs while it is built, without what only tests use."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {it["id"]: it for it in found["packages"]}
    nodes = {it["id"]: it for it in found["resolve"]["nodes"]}
    root = found["resolve"]["root"]
    edges: dict[str, list[str]] = {}
    waiting = [root]
    while waiting:
        at = waiting.pop()
        if at not in edges:
            used = [it["pkg"] for it in nodes[at]["deps"] if any(kind["kind"] != "dev" for kind in it["dep_kinds"])]
            edges[at] = sorted(set(used))
            waiting += used
    purl = {key: f"pkg:cargo/{packages[key]['name']}@{packages[key]['version'].replace('+', '%2B')}" for key in edges}
    hashes = checksums()
    components = [component(packages[key], purl[key], hashes) for key in edges if key != root]
    lock = hashlib.sha256((ROOT / "Cargo.lock").read_bytes()).hexdigest()
    program = packages[root]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same for the same crates, so that a release can be built again.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'rocwheel/{target}/{lock}')}",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": purl[root], "name": program["name"], "version": program["version"],
            "licenses": [{"expression": program["license"]}], "purl": purl[root],
            "properties": [{"name": "rocwheel:target", "value": target},
                           {"name": "rocwheel:rust", "value": f"{program['rust_version']}.0"}]}},
        "components": sorted(components, key=lambda it: str(it["bom-ref"])),
        "dependencies": sorted(({"ref": purl[key], "dependsOn": sorted(purl[it] for it in used)}
                                for key, used in edges.items()), key=lambda it: str(it["ref"])),
    }
    return json.dumps(document, indent=1) + "\n"


def component(package: dict[str, str], purl: str, hashes: dict[tuple[str, str], str]) -> dict[str, object]:
    name, version = package["name"], package["version"]
    found: dict[str, object] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if package["license"]:
        # Some crates still write `MIT/Apache-2.0`, which is no SPDX expression.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if (name, version) in hashes:
        found["hashes"] = [{"alg": "SHA-256", "content": hashes[name, version]}]
    return found


def checksums() -> dict[tuple[str, str], str]:
    """Of each crate in Cargo.lock, whose tables have one `key = "value"` a line."""
    found = {}
    for table in (ROOT / "Cargo.lock").read_text("utf-8").split("[[package]]")[1:]:
        fields = dict(line.split(" = ", maxsplit=1) for line in table.splitlines() if " = \"" in line)
        if "checksum" in fields:
            key = (fields["name"].strip('"'), fields["version"].strip('"'))
            found[key] = fields["checksum"].strip('"')
    return found


def gather(url: str, built: Path, out: Path) -> None:
    """`built` has a directory for each target with its program."""
    out.mkdir(parents=True, exist_ok=True)
    lines = ["# The release whose binaries action.yml uses. The release workflow writes this file.", f"url {url}"]
    for target, (runner, _) in sorted(TARGETS.items(), key=lambda it: it[1]):
        data = (built / target / f"rocwheel{suffix(target)}").read_bytes()
        path = out / asset(target)
        path.write_bytes(data)
        path.chmod(0o755)
        lines.append(f"{runner} {hashlib.sha256(data).hexdigest()} {asset(target)}")
        (out / f"{asset(target)}.cdx.json").write_text(bill(target), "utf-8")
    (out / "release.txt").write_text("\n".join(lines) + "\n", "utf-8")
    names = sorted(path.name for path in out.iterdir() if path.name not in ("SHA256SUMS", "release.txt"))
    sums = [f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (out / "SHA256SUMS").write_text("".join(sums), "utf-8")


def main(arguments: list[str]) -> int:
    match arguments:
        case ["judge", target, program] if target in TARGETS:
            judge(target, Path(program))
        case ["wheel", target, program, sdist, out] if target in TARGETS:
            wheel(target, Path(program), Path(sdist), Path(out))
        case ["sbom", target, out] if target in TARGETS:
            Path(out).write_text(bill(target), "utf-8")
        case ["gather", url, built, out]:
            gather(url, Path(built), Path(out))
        case _:
            print(__doc__, f"Targets: {', '.join(TARGETS)}", sep="\n", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    os.environ.pop("RUSTFLAGS", None)
    sys.exit(main(sys.argv[1:]))
