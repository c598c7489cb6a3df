"""A model of TheRock's builder of Python packages: what it makes of a directory of artifacts.

It is written from a description of the packages and shares no code with rocwheel. setuptools writes
the wheels and the sdist, patchelf the run paths and the C compiler the programs that stand for
symlinks, as they do there.

Usage: build.py ARTIFACTS DEST VERSION [LINUX WINDOWS]

The last two are targets with commas, as CI passes them: which targets a set has on each system.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from setuptools import build_meta

HERE = Path(__file__).parent


def words(text):
    return text.split()


PROFILER = {"rocprofiler-compute", "rocprofiler-systems"}
CORE = words("""
    amd-dbgapi amd-llvm aqlprofile base core-amdsmi core-hip core-hipinfo core-kpack core-ocl
    core-runtime hipfile hipify host-blas host-suite-sparse rocdecode rocgdb rocjpeg rocprofiler-sdk
    rocr-debug-agent sysdeps sysdeps-amd-mesa sysdeps-expat sysdeps-gmp sysdeps-mpfr sysdeps-ncurses
    sysdeps-util-linux wsl-rocdxg
""")
DEVICE = words("""
    blas fft hipblasltprovider hipdnn hipkernelprovider miopen miopenprovider rand rccl
""")
LIBRARIES = [*DEVICE, "rpp"]
ONLY_DEVEL = set(words("prim rocwmma flatbuffers nlohmann-json rocjitsu mirage"))
ONLY_DEVEL_OF_SPLIT = {"libhipcxx", "rocshmem", "hipthreads"}
SYSTEMS = words("""
    include/rocprofiler-systems/** lib/librocprof-sys* lib/python/site-packages/rocprofsys/**
    lib/rocprofiler-systems/** libexec/rocprofiler-systems/** share/**/rocprofiler-systems/**
""")
NOT_IN_CORE = ["**/cmake/**", "bin/rocprof-*", *SYSTEMS]
IN_PROFILER = [
    *words("bin/rocprof-sys-* lib/libprofiler-hub.so* bin/rocprof-*"),
    *words("libexec/rocprofiler-compute/** lib/rocprofiler-compute/**"),
    "share/**/rocprofiler-compute/**",
    *SYSTEMS,
]
RUN_PATHS = {
    "core": ["lib/llvm/lib", "lib/rocm_sysdeps/lib"],
    "profiler": ["lib", "lib/llvm/lib", "lib/rocm_sysdeps/lib"],
    "libraries": ["lib", "lib/rocm_sysdeps/lib", "lib/host-math/lib", "lib/llvm/lib"],
    "device": ["lib", "lib/rocm_sysdeps/lib"],
}
COMPILERS = words("amdclang amdclang++ amdclang-cpp amdclang-cl amdflang amdlld offload-arch")
TOOLS = words("""
    hipcc hipconfig hipify-clang hipify-perl amd-smi rocm_agent_enumerator rocminfo rocm-smi
    roccoremerge rocgdb rocpd rocpd2csv rocpd2otf2 rocpd2pftrace rocpd2summary rocprofv3
    rocprofv3-attach rocprofv3-avail
""")
CORE_COMMANDS = {
    **{name: f"lib/llvm/bin/{name}" for name in COMPILERS},
    **{name: f"bin/{name}" for name in TOOLS},
}
# Scripts that have no function there.
DEAD_COMMANDS = ["roc-obj", "roc-obj-extract", "roc-obj-ls"]
PROFILERS = words("attach avail causal instrument run sample python")
PROFILERS = ["rocprof-compute", *(f"rocprof-sys-{name}" for name in PROFILERS)]
PROFILER_COMMANDS = {name: f"bin/{name}" for name in PROFILERS}


def matches(globs, relpath):
    def pattern(glob):
        text = glob.replace("/**/", "\0").replace("**/", "\1", 1 if glob.startswith("**/") else 0)
        text = text.removesuffix("/**") + ("\2" if glob.endswith("/**") else "")
        text = re.escape(text).replace(r"\*", "[^/]*")
        return text.replace("\0", "/(.*/)?").replace("\1", "(.*/)?").replace("\2", "(/.*)?")

    return any(re.fullmatch(pattern(glob), relpath) for glob in globs)


def base(target):
    return target.split(":")[0]


class Artifact:
    def __init__(self, directory):
        self.name, self.component, self.target = directory.name.split("_")
        lines = (directory / "artifact_manifest.txt").read_text().splitlines()
        self.roots = [directory / line for line in lines if line and (directory / line).exists()]


def find_artifacts(directory):
    names = [it for it in directory.iterdir() if re.fullmatch("[^_]+_[^_]+_[^_]+", it.name)]
    names = [it for it in names if (it / "artifact_manifest.txt").exists()]
    return [Artifact(it) for it in sorted(names)]


def entries(artifacts):
    """Each path of an install tree, with where it lies: the last artifact that has it wins."""

    def walk(root, directory):
        for entry in sorted(os.scandir(directory), key=lambda it: it.name):
            path = Path(entry.path)
            found[str(path.relative_to(root))] = path
            if entry.is_dir(follow_symlinks=False):
                walk(root, path)

    found = {}
    for artifact in artifacts:
        for root in artifact.roots:
            walk(root, root)
    return found


def examine(path):
    """What a file is (`program`, `library`, `other`), its SONAME, and its run path."""
    if path.suffix in {".txt", ".h", ".hpp", ".hsaco", ".co", ".lib", ".exe"}:
        return "other", None, None
    with path.open("rb") as file:
        try:
            elf = ELFFile(file)
        except ELFError:
            return "other", None, None
        tags = [tag for it in elf.iter_segments("PT_DYNAMIC") for tag in it.iter_tags()]
        soname = next((tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"), None)
        paths = [getattr(tag, "rpath", None) or getattr(tag, "runpath", None) for tag in tags]
        run_path = next(filter(None, paths), None)
        flags = next((tag.entry.d_val for tag in tags if tag.entry.d_tag == "DT_FLAGS_1"), 0)
        if elf["e_type"] == "ET_EXEC" or flags & 0x08000000:
            # The pinned patchelf stops at a program without a dynamic section.
            return "program" if tags else "static program", soname, run_path
        return ("library" if elf["e_type"] == "ET_DYN" else "other"), soname, run_path


class Package:
    def __init__(self, builder, logical, target=None):
        self.builder, self.logical, self.target = builder, logical, target
        self.dist = builder.dist_name(logical, target)
        self.pure = {"meta": "rocm_sdk", "profiler": "rocm_profiler"}.get(
            logical, f"rocm_sdk_{logical}"
        )
        if logical == "libraries" and target:
            self.pure += f"_{target}"
        self.py_package = builder.py_package(logical, target)
        self.staging = builder.dest / self.dist
        shutil.rmtree(self.staging, ignore_errors=True)
        self.platform = self.staging / "platform" / self.py_package
        self.materialised, self.aliases = set(), {}
        self.source = self.staging / "src" / self.pure
        self.source.mkdir(parents=True)

    def fill(self, artifacts, includes=(), excludes=()):
        self.make_platform()
        self.builder.runtime |= {it.name for it in artifacts}
        for relpath, path in entries(artifacts).items():
            if (includes and not matches(includes, relpath)) or matches(excludes, relpath):
                continue
            self.add_link(relpath, path) if path.is_symlink() else self.add_entry(relpath, path)
        self.builder.packages.append(self)

    def make_platform(self):
        self.platform.mkdir(parents=True)
        (self.platform / "__init__.py").touch()

    def add_entry(self, relpath, path):
        if path.is_dir():
            (self.platform / relpath).mkdir(parents=True, exist_ok=True)
            return
        kind, soname, _ = examine(path)
        if kind == "library" and soname and soname != path.name:
            self.aliases[relpath] = soname
        else:
            self.materialise(relpath, path)

    def add_link(self, relpath, path):
        real = path.resolve()
        if not real.is_file():
            return
        kind, soname, _ = examine(real)
        if kind == "library" and soname:
            if soname == path.name:
                self.materialise(relpath, real)
            else:
                self.aliases[relpath] = soname
        elif kind.endswith("program"):
            self.builder.write_stub(self.platform / relpath, os.readlink(path))
            self.materialised.add(relpath)
        else:
            self.materialise(relpath, real)

    def materialise(self, relpath, path):
        to = self.platform / relpath
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        shutil.copy2(path, to)
        to.chmod(to.stat().st_mode | stat.S_IWUSR)
        self.materialised.add(relpath)
        core = self.builder.py_package("core", None)
        up = "/".join([".."] * (len(PurePosixPath(relpath).parts)))
        set_run_path(to, [f"$ORIGIN/{up}/{core}/{it}" for it in RUN_PATHS[self.logical]])

    def build(self, **setup):
        """A wheel, by setuptools."""
        setup = {"name": self.dist, "version": self.builder.version, **setup}
        (self.staging / "setup.json").write_text(json.dumps(setup))
        shutil.copy(HERE / "setup.py", self.staging)
        (self.staging / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["setuptools>=70.2.0"]\n'
            'build-backend = "setuptools.build_meta"\n'
        )
        os.chdir(self.staging)
        build_meta.build_wheel(self.builder.dist)

    def build_runtime(self, commands=(), dead=(), **setup):
        self.builder.write_dist_info(self)
        (self.source / "__init__.py").touch()
        cli = (HERE / "cli.py").read_text()
        for name, relpath in dict(commands).items():
            cli += f"\n\ndef {function(name)}():\n    run({self.py_package!r}, {relpath!r})\n"
        (self.source / "_cli.py").write_text(cli)
        (self.staging / "MANIFEST.in").write_text("graft platform\n")
        scripts = [f"{it} = {self.pure}._cli:{function(it)}" for it in [*dict(commands), *dead]]
        self.build(
            packages=[self.py_package, self.pure],
            package_dir={
                self.py_package: f"platform/{self.py_package}",
                self.pure: f"src/{self.pure}",
            },
            include_package_data=True,
            entry_points={"console_scripts": scripts} if scripts else {},
            **setup,
        )


def function(command):
    return command.replace("++", "pp").replace("-", "_")


def set_run_path(path, added):
    """Adds entries behind those that a file has, and puts all before LD_LIBRARY_PATH."""
    kind, _, old = examine(path)
    if kind in {"program", "library"} and (added or old):
        run_path = ":".join([*filter(None, [old]), *added])
        patchelf = [os.environ["PATCHELF"], "--force-rpath", "--set-rpath", run_path]
        subprocess.run([*patchelf, path], check=True)


class Builder:
    def __init__(self, artifacts, dest, version, linux=(), windows=()):
        self.dest, self.version = dest, version
        self.linux, self.windows = sorted(linux), sorted(windows)
        self.dist = dest / "dist"
        self.dist.mkdir(parents=True)
        self.artifacts = find_artifacts(artifacts)
        manifest = (
            artifacts
            / "base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json"
        )
        flags = json.loads(manifest.read_text()).get("flags", {})
        self.is_split = bool(flags.get("KPACK_SPLIT_ARTIFACTS"))
        self.families = sorted({it.target for it in self.artifacts} - {"generic"})
        self.runtime, self.packages = set(), []

    def dist_name(self, logical, target):
        if logical in {"meta", "profiler"}:
            return {"meta": "rocm", "profiler": "rocm-profiler"}[logical]
        if logical == "device" or (logical == "libraries" and target):
            return f"rocm-sdk-{logical}-{base(target)}"
        return f"rocm-sdk-{logical}"

    def py_package(self, logical, target):
        if logical == "device":
            return "_rocm_sdk_libraries"
        return "_" + self.dist_name(logical, target).replace("-", "_")

    def select(self, names, components, targets=None):
        def is_selected(it):
            return (
                it.name in names
                and it.component in components
                and (not targets or it.target in targets)
            )

        return [it for it in self.artifacts if is_selected(it)]

    def write_stub(self, path, link):
        stub = self.dest / "stub"
        if not stub.exists():
            compiler = ["cc", "-O1", "-fPIE", "-pie", "-nostartfiles"]
            subprocess.run([*compiler, HERE / "stub.c", "-o", stub], check=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(stub, path)
        path.write_bytes(stub.read_bytes().replace(b"@" * 64, link.encode().ljust(64, b"\0")))

    def write_dist_info(self, package, only=None):
        both = sorted({*self.linux} & {*self.windows}) + sorted({*self.linux, *self.windows})
        families = [only] if only else sorted(set(both)) or self.families
        default = (both or families)[:1]
        lines = [f"__version__ = {self.version!r}", "PY_PACKAGE_SUFFIX_NONCE = ''"]
        if self.is_split:
            lines += ['ALL_PACKAGES["libraries"].dist_package_template = "rocm-sdk-libraries"']
        if only:
            lines += [
                f"THIS_TARGET_FAMILY = {only!r}",
                f"THIS_PACKAGE_ENTRY = ALL_PACKAGES[{package.logical!r}]",
            ]
        lines += [f"DEFAULT_TARGET_FAMILY = {it!r}" for it in default]
        lines += [f"AVAILABLE_TARGET_FAMILIES.append({it!r})" for it in families]
        if not only:
            lines += [f"LINUX_TARGET_FAMILIES.append({it!r})" for it in self.linux]
            lines += [f"WINDOWS_TARGET_FAMILIES.append({it!r})" for it in self.windows]
            lines += [
                f"THIS_TARGET_FAMILY = {package.target!r}",
                f"THIS_PACKAGE_ENTRY = ALL_PACKAGES[{package.logical!r}]",
            ]
        text = (HERE / "rocm_sdk/_dist_info.py").read_text() + "\n".join(lines) + "\n"
        (package.source / "_dist_info.py").write_text(text)

    def build(self):
        run_time = {"lib", "run"}
        core = Package(self, "core")
        headers = self.select({"core-hip", "core-ocl"}, {"dev"})
        hotswap = self.select({"rocjitsu-hotswap"}, {"lib"})
        core.fill(self.select(CORE, run_time) + hotswap + headers, excludes=NOT_IN_CORE)
        core.build_runtime(CORE_COMMANDS, DEAD_COMMANDS)
        profiler = Package(self, "profiler")
        profiler.fill(self.select(PROFILER, run_time), includes=IN_PROFILER)
        self.link_profiler(profiler.platform)
        summary = "ROCm profiler applications (rocprofiler-systems and rocprofiler-compute)"
        profiler.build_runtime(PROFILER_COMMANDS, description=summary, python_requires=">=3.8")
        for family in [None] if self.is_split else self.families:
            libraries = Package(self, "libraries", family)
            targets = ["generic", family] if family else ["generic"]
            libraries.fill(self.select(LIBRARIES, {"lib"}, targets))
            libraries.build_runtime()
        if self.is_split:
            for target in sorted({base(it) for it in self.families}):
                self.build_device(target)
        families = [None] if self.is_split else self.families
        top = self.dist
        for family in families:
            if len(families) > 1:
                self.dist = top / family
                self.dist.mkdir()
            self.build_meta(family if len(families) > 1 else None)
            self.build_devel(family)
        self.dist = top

    def link_profiler(self, platform):
        """A name without the last number for each library. A wheel has a copy for each name."""
        libraries = [
            *platform.glob("lib/librocprof-sys*.so.*"),
            *platform.glob("lib/libprofiler-hub*.so.*"),
        ]
        for library in sorted(libraries):
            name = library.with_suffix("")
            if not name.exists():
                name.symlink_to(library.name)

    def build_device(self, target):
        package = Package(self, "device", target)
        shutil.rmtree(package.staging / "src")
        package.make_platform()
        targets = [it for it in self.families if base(it) == target]
        links = []
        for relpath, path in sorted(entries(self.select(DEVICE, {"lib"}, targets)).items()):
            if path.is_dir():
                continue
            package.materialise(relpath, path.resolve(strict=True))
            up = "/".join([".."] * len(PurePosixPath(relpath).parts))
            links.append({"relpath": relpath, "target": f"{up}/{package.py_package}/{relpath}"})
        manifest = package.platform / f".devel_links/{target}.json"
        manifest.parent.mkdir()
        manifest.write_text(json.dumps({"version": self.version, "links": links}, indent=2))
        self.packages.append(package)
        files = [
            it for it in package.platform.rglob("*") if it.is_file() and it.name != "__init__.py"
        ]
        files = [str(it.relative_to(package.platform)) for it in files]
        package.build(
            packages=[package.py_package],
            package_dir={package.py_package: f"platform/{package.py_package}"},
            package_data={package.py_package: files},
            install_requires=[f"rocm-sdk-libraries=={self.version}"],
        )

    def build_meta(self, family):
        package = Package(self, "meta", None)
        shutil.copytree(HERE / "rocm_sdk", package.source, dirs_exist_ok=True)
        shutil.rmtree(package.source / "__pycache__", ignore_errors=True)
        self.write_dist_info(package, only=family)
        for name in ("setup.py", "MANIFEST.in", "README.md", "pyproject.toml"):
            (package.staging / name).touch()
        shutil.copy(HERE / "rocm_setup.py", package.staging / "setup.py")
        (package.staging / "README.md").write_text("# ROCm\n")
        (package.staging / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["setuptools>=70.2.0"]\n'
            'build-backend = "setuptools.build_meta"\n'
        )
        os.chdir(package.staging)
        build_meta.build_sdist(self.dist)

    def build_devel(self, family):
        package = Package(self, "devel", family)
        package.make_platform()
        names = (
            self.runtime | ONLY_DEVEL | (ONLY_DEVEL_OF_SPLIT if self.is_split else set())
        ) - PROFILER
        components = {"lib", "run", "dbg", "dev", "doc"} | (set() if self.is_split else {"test"})
        targets = ["generic", family] if family else ["generic"]
        for relpath, path in entries(self.select(names, components, targets)).items():
            self.add_devel(package, relpath, path)
        self.write_dist_info(package)
        for name in ("__init__.py", "_cli.py"):
            (package.source / name).touch()
        with tarfile.open(package.source / "_devel.tar", "w", format=tarfile.PAX_FORMAT) as tar:
            for top, directories, files in os.walk(package.platform):
                for name in [*sorted(files), *sorted(directories)]:
                    path = Path(top, name)
                    tar.add(path, path.relative_to(package.platform.parent), recursive=False)
        shutil.rmtree(package.platform)
        package.build(
            packages=[package.pure],
            package_dir={"": "src"},
            package_data={package.pure: ["_devel.tar"]},
        )

    def add_devel(self, package, relpath, path):
        to = package.platform / relpath
        if path.is_dir() and not path.is_symlink():
            to.mkdir(parents=True, exist_ok=True)
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        for other in self.packages:
            if other.target and package.target and other.target != package.target:
                continue
            if relpath in other.aliases:
                to.symlink_to(other.aliases[relpath])
                return
            if relpath in other.materialised:
                up = "/".join([".."] * len(PurePosixPath(relpath).parts))
                to.symlink_to(f"{up}/{other.py_package}/{relpath}")
                return
        if path.is_symlink():
            to.symlink_to(os.readlink(path))
            return
        shutil.copy2(path, to)
        set_run_path(to, [])


if __name__ == "__main__":
    artifacts, dest, version, *lists = sys.argv[1:]
    lists = [it.split(",") for it in lists]
    Builder(Path(artifacts).resolve(), Path(dest).resolve(), version, *lists).build()
