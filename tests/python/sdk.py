"""A ROCm distribution in miniature, as wheels, built from the Python that ships."""

from __future__ import annotations

import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from wheels import Wheel

SOURCES = Path(__file__).resolve().parents[2] / "src" / "policy" / "python"
ROOT = "_rocm_sdk_devel"
# A name that has to be quoted in a CSV file; Windows has no double quotes in names.
CSV_NAME = "include/a,b.h" if sys.platform == "win32" else 'include/a,b "quoted".h'
SONAME = "libamdhip64.so.7"


def stage() -> Path:
    """Where the Python is that rocwheel generates."""
    path = os.environ.get("ROCWHEEL_SDISTS")
    assert path, "the sdists are written by `.ci/run tests`"
    return Path(path)


def tables() -> bytes:
    """What says which packages, libraries and files a distribution has."""
    return (stage() / "none/src/rocm_sdk/_dist_info.json").read_bytes()


@dataclass
class Sdk:
    """What all packages of one distribution agree on."""

    version: str = "10.1.0"
    available: Sequence[str] = ("gfx942",)
    linux: Sequence[str] = ()
    windows: Sequence[str] = ()
    split: bool = True
    nonce: str = ""
    default: str | None = None

    def dist_info(self, package: str, *extra: str) -> bytes:
        lines = [f"__version__ = {self.version!r}", f"PY_PACKAGE_SUFFIX_NONCE = {self.nonce!r}"]
        if not self.split:
            family = "rocm-sdk-libraries-{target_family}"
            lines.append(f"ALL_PACKAGES['libraries'].dist_package_template = {family!r}")
        default = self.default or (min(self.available) if self.available else None)
        if default is not None:
            lines.append(f"DEFAULT_TARGET_FAMILY = {default!r}")
        for name, values in (
            ("AVAILABLE", self.available),
            ("LINUX", self.linux),
            ("WINDOWS", self.windows),
        ):
            lines += [f"{name}_TARGET_FAMILIES.append({value!r})" for value in values]
        lines.append(f"THIS_PACKAGE_ENTRY = ALL_PACKAGES[{package!r}]")
        text = (SOURCES / "_dist_info.py").read_text("utf-8")
        return (text + "\n".join([*lines, *extra]) + "\n").encode()

    def pure(self, name: str, package: str) -> dict[str, bytes]:
        directory = SOURCES / name
        if not directory.is_dir():
            directory = SOURCES / "rocm" / "src" / name
        files = {
            f"{name}/{path.relative_to(directory).as_posix()}": path.read_bytes()
            for path in sorted(directory.rglob("*"))
            if path.suffix == ".py" or path.name == "py.typed"
        }
        files[f"{name}/_dist_info.py"] = self.dist_info(package)
        files[f"{name}/_dist_info.json"] = tables()
        if f"{name}/_cli.py" in files:
            files[f"{name}/_cli.py"] = (stage() / "packages" / name / "_cli.py").read_bytes()
        return files

    def rocm(self) -> Wheel:
        return Wheel(
            "rocm",
            self.version,
            self.pure("rocm_sdk", "meta"),
            scripts={"rocm-sdk": "rocm_sdk.__main__:main"},
        )

    def core(self, files: Mapping[str, bytes] | None = None) -> Wheel:
        root = f"_rocm_sdk_core{self.nonce}"
        facts = json.dumps({"dist_amdgpu_targets": ";".join(self.available)})
        content = {
            "__init__.py": b"",
            "share/therock/dist_info.json": facts.encode(),
            f"lib/{SONAME}": b"hip",
            "lib/llvm/bin/amdclang": echo("amdclang"),
            "lib/llvm/bin/offload-arch": echo("offload-arch"),
            "bin/hipcc": echo("hipcc"),
            "bin/rocminfo": echo("rocminfo"),
            **(files or {}),
        }
        members = self.pure("rocm_sdk_core", "core")
        members |= {f"{root}/{name}": data for name, data in content.items()}
        return Wheel("rocm-sdk-core", self.version, members, executables=programs(members))

    def libraries(self, files: Mapping[str, bytes] | None = None) -> Wheel:
        content = {"__init__.py": b"", "lib/librocblas.so.5": b"rocblas", **(files or {})}
        members = self.pure("rocm_sdk_libraries", "libraries")
        root = f"_rocm_sdk_libraries{self.nonce}"
        members |= {f"{root}/{name}": data for name, data in content.items()}
        return Wheel("rocm-sdk-libraries", self.version, members)

    def device(
        self,
        target: str,
        files: Iterable[str] | None = None,
        *,
        version: str | None = None,
        links: Sequence[Mapping[str, str]] | None = None,
    ) -> Wheel:
        libraries = f"_rocm_sdk_libraries{self.nonce}"
        relpaths = [f"lib/rocblas/library/{target}.co"] if files is None else list(files)
        listed = [
            {
                "relpath": path,
                "target": "../" * len(path.split("/")) + f"{libraries}/{path}",
            }
            for path in relpaths
        ]
        facts = {"version": self.version, "links": list(links) if links is not None else listed}
        members = {f"{libraries}/{path}": f"{target} {path}".encode() for path in relpaths}
        members[f"{libraries}/.devel_links/{target}.json"] = json.dumps(facts, indent=2).encode()
        return Wheel(
            f"rocm-sdk-device-{target}",
            version or self.version,
            members,
            requires=[f"rocm-sdk-libraries=={self.version}"],
        )

    def devel(self, archive: Archive | None = None) -> Wheel:
        archive = archive or Archive.usual(self)
        members = self.pure("rocm_sdk_devel", "devel")
        members[f"rocm_sdk_devel/{archive.name}"] = archive.data()
        if archive.has_manifest:
            members["rocm_sdk_devel/_devel_manifest.json"] = archive.manifest(self.version)
        return Wheel("rocm-sdk-devel", self.version, members)

    def install(self, site: Path, *targets: str) -> None:
        """Everything but the profiler."""
        wheels = [self.rocm(), self.core(), self.libraries(), self.devel()]
        for wheel in [*wheels, *(self.device(target) for target in targets)]:
            wheel.unpack(site)


@dataclass
class Archive:
    """`_devel.tar` and its manifest; entries are files (bytes), links (text) or directories."""

    entries: list[tuple[str, bytes | str | None]]
    name: str = "_devel.tar"
    root: str = ROOT
    has_manifest: bool = True
    executables: set[str] = field(default_factory=set)

    @classmethod
    def usual(cls, sdk: Sdk) -> Archive:
        core, libraries = f"_rocm_sdk_core{sdk.nonce}", f"_rocm_sdk_libraries{sdk.nonce}"
        entries: list[tuple[str, bytes | str | None]] = [
            ("__init__.py", b""),
            ("bin", None),
            ("empty", None),
            ("include", None),
            ("include/hip", None),
            ("include/hip/hip_runtime.h", b"#pragma once\n"),
            (CSV_NAME, b"// a name for CSV\n"),
            ("lib", None),
            ("lib/cmake/hip/hip-config.cmake", b"# hip\n"),
            (f"lib/{SONAME}", f"../../{core}/lib/{SONAME}"),
            ("lib/librocblas.so.5", f"../../{libraries}/lib/librocblas.so.5"),
            ("lib/llvm/bin/amdclang", f"../../../../{core}/lib/llvm/bin/amdclang"),
            ("lib/llvm/bin/offload-arch", f"../../../../{core}/lib/llvm/bin/offload-arch"),
            ("bin/hipcc", f"../../{core}/bin/hipcc"),
            ("bin/rocprof", echo("rocprof")),
            ("bin/amdclang", "../lib/llvm/bin/amdclang"),
            ("bin/offload-arch", "../lib/llvm/bin/offload-arch"),
            ("lib/libamdhip64.so", SONAME),
            ("llvm", "lib/llvm"),
        ]
        return cls(entries, root=f"{ROOT}{sdk.nonce}", executables={"bin/rocprof"})

    def data(self) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, content in self.entries:
                member = tarfile.TarInfo(f"{self.root}/{path}")
                member.mode = 0o755 if path in self.executables else 0o644
                if content is None:
                    member.type = tarfile.DIRTYPE
                elif isinstance(content, str):
                    member.type = tarfile.SYMTYPE
                    member.linkname = content
                else:
                    member.size = len(content)
                data = io.BytesIO(content) if isinstance(content, bytes) else None
                tar.addfile(member, data)
        raw = out.getvalue()
        return lzma.compress(raw) if self.name.endswith(".xz") else raw

    def manifest(self, version: str) -> bytes:
        manifest = module("_manifest")
        kinds = {bytes: "f", str: "l", type(None): "d"}
        entries = [
            manifest.Entry(
                path,
                kinds[type(content)],
                size=len(content) if isinstance(content, bytes) else 0,
                target=content if isinstance(content, str) else "",
            )
            for path, content in self.entries
        ]
        return json.dumps(manifest.of(version, entries)._asdict()).encode()


def echo(name: str) -> bytes:
    """A program that says its name, its own path and its arguments."""
    return f'#!/bin/sh\necho {name} "$0" "$@"\n'.encode()


def programs(members: Mapping[str, bytes]) -> set[str]:
    return {name for name, data in members.items() if data.startswith(b"#!")}


def module(name: str) -> ModuleType:
    """A module of `rocm_sdk` that stands alone, outside of any site."""
    import importlib

    _shipped_package()
    return importlib.import_module(f"rocm_sdk_shipped.{name}")


def _shipped_package() -> None:
    if "rocm_sdk_shipped" not in sys.modules:
        package = ModuleType("rocm_sdk_shipped")
        package.__path__ = [str(stage() / "none/src/rocm_sdk")]
        sys.modules["rocm_sdk_shipped"] = package


def run(
    site: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs Python with a site that is nothing but a directory."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(site, env),
        cwd=site.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def rocm_sdk(site: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """The stdout of `rocm-sdk`, which must succeed."""
    result = run(site, "-m", "rocm_sdk", *arguments, env=env)
    assert result.returncode == 0, result.stderr
    return result.stdout


def environment(site: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("ROCM_SDK_")}
    return {**env, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}
