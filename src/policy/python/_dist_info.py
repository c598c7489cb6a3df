"""What this distribution of ROCm consists of, and which GPU target to use.

Every package carries a copy, and `setup.py` of the `rocm` package loads it by its path, so it
stands alone: standard library only, no imports from its neighbours. The file `_dist_info.json`
beside it has the packages, libraries and files of the distribution. Generated lines follow the end
of this text: its version and its targets.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

__version__: str = "DEFAULT"
PY_PACKAGE_SUFFIX_NONCE: str = "_DEFAULT"

DEFAULT_TARGET_FAMILY: str = "DEFAULT"
AVAILABLE_TARGET_FAMILIES: list[str] = []
LINUX_TARGET_FAMILIES: list[str] = []
WINDOWS_TARGET_FAMILIES: list[str] = []
# Logical names of packages that this distribution was published without.
ABSENT_PACKAGES: list[str] = []
CACHED_TARGET_FAMILY: str | None = None

ALL_PACKAGES: dict[str, PackageEntry] = {}
ALL_LIBRARIES: dict[str, LibraryEntry] = {}
ALL_FILES: list[FileEntry] = []

_VERBOSE = os.environ.get("ROCM_SDK_VERBOSE") == "1"
_SYSFS = "/sys"
_DETECTION_TIMEOUT_SECONDS = 60


class PackageEntry:
    """One package of the distribution; creating it registers it in `ALL_PACKAGES`."""

    def __init__(
        self,
        logical_name: str,
        dist_package_template: str,
        *,
        pure_py_package_name: str,
        required: bool = False,
        sys_platform: str | None = None,
    ) -> None:
        if logical_name in ALL_PACKAGES:
            raise ValueError(f"Package already defined: {logical_name}")
        self.logical_name = logical_name
        self.dist_package_template = dist_package_template
        self.pure_py_package_name = pure_py_package_name
        self.required = required
        self.sys_platform = sys_platform
        ALL_PACKAGES[logical_name] = self

    @property
    def is_target_specific(self) -> bool:
        return "{target_family}" in self.dist_package_template

    def get_dist_package_name(self, target_family: str | None = None) -> str:
        """The name that pip knows it by, such as `rocm-sdk-device-gfx942`."""
        if not self.is_target_specific:
            return self.dist_package_template
        if target_family is None:
            raise ValueError(
                f"Package {self.logical_name} is target specific, but no target specified"
            )
        return self.dist_package_template.replace("{target_family}", base_target(target_family))

    def get_dist_package_require(self, target_family: str | None = None) -> str:
        """The requirement that pins it to this version."""
        return f"{self.get_dist_package_name(target_family)}=={__version__}"

    def get_py_package_name(self, target_family: str | None = None) -> str:
        """The import name of the directory that holds its files."""
        name = self.get_dist_package_name(target_family).replace("-", "_")
        return f"_{name}{PY_PACKAGE_SUFFIX_NONCE}"

    def get_py_package(self, target_family: str | None = None) -> ModuleSpec | None:
        return importlib.util.find_spec(self.get_py_package_name(target_family))

    def has_py_package(self, target_family: str | None = None) -> bool:
        return self.get_py_package(target_family) is not None

    def __repr__(self) -> str:
        return self.dist_package_template


class LibraryEntry:
    """One shared library by its short name; creating it registers it in `ALL_LIBRARIES`."""

    def __init__(
        self,
        shortname: str,
        package_name: str,
        so_pattern: str,
        dll_pattern: str,
        posix_relpath: str = "lib",
        optional: bool = False,
    ) -> None:
        assert shortname not in ALL_LIBRARIES, f"Library already defined: {shortname}"
        self.shortname = shortname
        self.package = ALL_PACKAGES[package_name]
        self.posix_relpath = posix_relpath
        self.windows_relpath = "bin"
        self.so_pattern = so_pattern
        self.dll_pattern = dll_pattern
        self.optional = optional
        ALL_LIBRARIES[shortname] = self


class FileEntry:
    """A file that a package has to hold; creating it adds it to `ALL_FILES`."""

    def __init__(
        self,
        package_name: str,
        relpath: str,
        *,
        command: str | None = None,
        sys_platform: str | None = None,
        optional: bool = False,
    ) -> None:
        self.package = ALL_PACKAGES[package_name]
        self.relpath = relpath
        # The console script that becomes this program, which ends in `.exe` on Windows.
        self.command = command
        self.sys_platform = sys_platform
        self.optional = optional
        ALL_FILES.append(self)


# The families of each target, from the widest to the narrowest.
_FAMILIES: dict[str, tuple[str, ...]] = {}
# What kernels that do not name the target say instead: the versions of the graphics core that it
# has, and its code names.
_IP_VERSIONS: dict[str, tuple[str, ...]] = {}
_CODE_NAMES: dict[str, tuple[str, ...]] = {}


class TargetChoice(NamedTuple):
    """A target or family of this distribution, and who chose it."""

    family: str | None
    source: str  # `environment`, `detected` or `default`

    @property
    def is_certain(self) -> bool:
        """Whether it was chosen for this machine, or there is nothing else to choose."""
        return self.source != "default" or len(base_targets()) <= 1


def base_target(target_family: str) -> str:
    """The target without its features: `gfx942` of `gfx942:xnack+`."""
    return target_family.split(":", 1)[0]


def base_targets() -> list[str]:
    return sorted({base_target(name) for name in AVAILABLE_TARGET_FAMILIES})


def families_of(target: str) -> tuple[str, ...]:
    """The families of a target, the narrowest first."""
    base = base_target(target)
    if base in _FAMILIES:
        return _FAMILIES[base][::-1]
    # A target younger than the table: its generation's families are named after it.
    stems = (base, base[:-1] + "X")
    kinds = ("dgpu", "igpu", "dcgpu", "all")
    return tuple(f"{stem}-{kind}" for stem in stems for kind in kinds)


def match_target_family(wanted: str) -> str | None:
    """What this distribution has for a target or a family, if anything."""
    base = base_target(wanted)
    if wanted in AVAILABLE_TARGET_FAMILIES:
        return wanted
    for name in AVAILABLE_TARGET_FAMILIES:
        if base_target(name) == base:
            return name
    for family in families_of(wanted) if base.startswith("gfx") else ():
        if family in AVAILABLE_TARGET_FAMILIES:
            return family
    for name in AVAILABLE_TARGET_FAMILIES:
        if wanted in _FAMILIES.get(base_target(name), ()):
            return name
    return None


def discover_current_target_family() -> str | None:
    """What this distribution has for the first GPU of this machine that it supports."""
    for target in _detected_targets():
        found = match_target_family(target)
        if found is not None:
            return found
        _say(f"no package for {target}")
    return None


def choose_target_family() -> TargetChoice:
    """Asks the environment, then the machine, then takes the default."""
    wanted = os.environ.get("ROCM_SDK_TARGET_FAMILY", "").strip()
    if wanted:
        found = match_target_family(wanted)
        if found is None:
            raise ValueError(
                f"Requested ROCM_SDK_TARGET_FAMILY={wanted} is not available in the "
                f"distribution (available: {_available()})"
            )
        return TargetChoice(found, "environment")
    if not AVAILABLE_TARGET_FAMILIES:
        return TargetChoice(None, "default")
    found = discover_current_target_family()
    if found is not None:
        return TargetChoice(found, "detected")
    return TargetChoice(match_target_family(DEFAULT_TARGET_FAMILY), "default")


def determine_target_family() -> str:
    """The target or family to use on this machine; decided once per process."""
    global CACHED_TARGET_FAMILY
    if CACHED_TARGET_FAMILY is None:
        CACHED_TARGET_FAMILY = choose_target_family().family
    if CACHED_TARGET_FAMILY is None:
        raise ValueError(
            f"The default target {DEFAULT_TARGET_FAMILY} is not available in the "
            f"distribution (available: {_available()})"
        )
    return CACHED_TARGET_FAMILY


def get_target_family_platform_marker(target_family: str) -> str:
    """The marker of a target that only one of the two platforms has; else empty."""
    if not LINUX_TARGET_FAMILIES or not WINDOWS_TARGET_FAMILIES:
        return ""
    base = base_target(target_family)
    on_linux = base in map(base_target, LINUX_TARGET_FAMILIES)
    on_windows = base in map(base_target, WINDOWS_TARGET_FAMILIES)
    if on_linux and not on_windows:
        return 'sys_platform == "linux"'
    if on_windows and not on_linux:
        return 'sys_platform == "win32"'
    return ""


def extra_packages() -> list[PackageEntry]:
    """The packages that an extra of `rocm` installs."""
    fat = ALL_PACKAGES["libraries"].is_target_specific
    return [
        package
        for name, package in ALL_PACKAGES.items()
        # Libraries that hold their device code leave nothing for device packages.
        if not package.required and name not in ABSENT_PACKAGES and not (fat and name == "device")
    ]


def build_extras(choice: TargetChoice | None) -> dict[str, list[str]]:
    """The extras named after packages, for a machine, or (`None`) for any machine.

    For any machine, an extra that depends on the target is there but holds nothing, unless there
    is only one target. For a machine whose target is not known it is left out, so that installers
    say so instead of installing code for another GPU.
    """
    extras: dict[str, list[str]] = {}
    for package in extra_packages():
        marker = f'sys_platform == "{package.sys_platform}"' if package.sys_platform else ""
        if not package.is_target_specific:
            extras[package.logical_name] = [_requirement(package, None, marker)]
            continue
        only = base_targets()[0] if len(base_targets()) == 1 else None
        family = only if choice is None else choice.family
        if choice is not None and not (choice.family and choice.is_certain):
            continue
        extras[package.logical_name] = (
            [] if family is None else [_requirement(package, family, marker)]
        )
    return extras


def build_per_target_extras() -> dict[str, list[str]]:
    """`device-gfx942` and its like, and `device-all`.

    Device packages have them even for a single target, so that one command fits every set.
    """
    targets = base_targets()
    extras: dict[str, list[str]] = {}
    if not targets:
        return extras
    for package in extra_packages():
        several = len(targets) > 1 or package.logical_name == "device"
        if not (package.is_target_specific and several):
            continue
        requirements = [
            _requirement(package, target, get_target_family_platform_marker(target))
            for target in targets
        ]
        for target, requirement in zip(targets, requirements):
            extras[f"{package.logical_name}-{target}"] = [requirement]
        extras[f"{package.logical_name}-all"] = requirements
    return extras


def build_install_requires(target_family: str | None = None) -> list[str]:
    """What `rocm` itself requires."""
    return [
        package.get_dist_package_require(target_family)
        for name, package in ALL_PACKAGES.items()
        if package.required and name != "meta"
    ]


def install_command(*extras: str) -> str:
    """What installs `rocm` of this version, with these extras.

    It names its source, because another index may have a `rocm` that somebody else made. `rocwheel
    install` writes the source into the environment. Otherwise a package does not know which index
    it came from: the reader has to fill that in.
    """
    package = _bundling_package()
    if package is not None:
        # An install here would write over files of that package.
        return f"pip in another environment, since the files of ROCm here belong to {package}"
    command = _command_of_origin(extras)
    if command is not None:
        return command
    name = ALL_PACKAGES["meta"].get_dist_package_name()
    names = f"[{','.join(extras)}]" if extras else ""
    command = f'pip install --index-url INDEX_URL "{name}{names}=={__version__}"'
    return f"{command} (INDEX_URL is the index that this ROCm came from)"


def _bundling_package() -> str | None:
    """The package that has the files of ROCm in it, if no package of ROCm is installed here."""
    for record in sorted(Path(__file__).parent.parent.glob("*.dist-info/rocm_tie.json")):
        try:
            bundles = json.loads(record.read_text("utf-8")).get("bundles")
        except (OSError, ValueError, AttributeError):
            continue
        if bundles:
            return record.parent.name.partition("-")[0]
    return None


def _command_of_origin(extras: tuple[str, ...]) -> str | None:
    """The `rocwheel install` that adds these extras, if it made this environment."""
    try:
        origin = json.loads(Path(sys.prefix, "rocwheel-install.json").read_text("utf-8"))
        if (origin["schema"], origin["version"]) != ("rocwheel-environment-v1", __version__):
            return None
        device = "device-"
        targets = [extra.removeprefix(device) for extra in extras if extra.startswith(device)]
        others = [extra for extra in extras if not extra.startswith(device)]
        words = ["rocwheel", "install", origin["source"], "--venv", sys.prefix]
        words += ["--version", __version__]
        words += ["--target", ",".join(dict.fromkeys([*origin["targets"], *targets])) or "none"]
        words += ["--extras", ",".join(dict.fromkeys([*origin["extras"], *others])) or "none"]
        for package in origin["packages"]:
            words += ["--package", package]
        if origin["deps"]:
            words += ["--deps", origin["deps"]]
        if origin["no-check"]:
            words.append("--no-check")
        # Anybody may have written the file.
        values = [origin["source"], *origin["targets"], *origin["extras"], *origin["packages"]]
        if any(value.startswith("-") or not value.isprintable() for value in values):
            return None
        return shlex.join(words)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _requirement(package: PackageEntry, target: str | None, marker: str) -> str:
    pin = package.get_dist_package_require(target)
    return f"{pin}; {marker}" if marker else pin


def _available() -> str:
    return ", ".join(AVAILABLE_TARGET_FAMILIES) or "none"


def _detected_targets() -> list[str]:
    """The targets of this machine's GPUs in their order, each once."""
    if os.environ.get("ROCM_BOOTSTRAP_DISABLE_DETECTION") == "1":
        return []
    forced = os.environ.get("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", "").split(",")
    targets = [target.strip() for target in forced if target.strip()]
    return list(dict.fromkeys(targets or _targets_of_offload_arch() or _targets_of_kernel()))


def _targets_of_offload_arch() -> list[str]:
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    program = shutil.which("offload-arch", path=path)
    if program is None:
        _say("no offload-arch on PATH")
        return []
    try:
        result = subprocess.run(
            [program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DETECTION_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _say(f"{program}: {error}")
        return []
    if result.returncode != 0:
        _say(f"{program}: exit code {result.returncode}: {result.stderr.strip()}")
    lines = (line.strip() for line in result.stdout.splitlines())
    return [line for line in lines if line.startswith("gfx")]


def _targets_of_kernel() -> list[str]:
    """Asks the drivers, which are there before any part of ROCm is installed.

    First the GPUs of the compute driver, then others, which it does not list. `rocwheel targets
    --detect` decides in the same way.
    """
    topology = "class/kfd/kfd/topology/nodes"
    nodes = _names(topology)
    found: list[str | None] = []
    seen: set[str] = set()
    hidden = 0
    for node in sorted((node for node in nodes if node.isdigit()), key=int):
        try:
            properties = _properties(_read(f"{topology}/{node}/properties"))
        except PermissionError:
            # It belongs to the host, and not to this container.
            hidden += 1
            continue
        except OSError as error:
            _say(str(error))
            continue
        if properties.get("simd_count", 0) == 0:
            continue
        location = properties.get("location_id", 0)
        bus, device = location >> 8 & 0xFF, location >> 3 & 0x1F
        address = f"{properties.get('domain', 0):04x}:{bus:02x}:{device:02x}.0"
        seen.add(address)
        version = properties.get("gfx_target_version", 0)
        found.append(
            _target_of_version(version)
            if version > 0
            else _target_of_ip(address) or _target_of_code_name(f"{topology}/{node}/name")
        )
    for address in sorted(set(_names("bus/pci/devices")) - seen):
        if not _is_gpu(address):
            continue
        if nodes and hidden > 0 and _driver(address) == "amdgpu":
            hidden -= 1
            continue
        found.append(_target_of_ip(address))
    return [target for target in found if target]


def _properties(text: str) -> dict[str, int]:
    pairs = (line.partition(" ") for line in text.splitlines())
    return {key: int(value) for key, _, value in pairs if value.strip().isdecimal()}


def _is_gpu(address: str) -> bool:
    """Whether a device on the PCI bus is a GPU of AMD."""
    vendor = _text(f"bus/pci/devices/{address}/vendor")
    kind = _text(f"bus/pci/devices/{address}/class")
    return vendor == "0x1002" and kind.startswith(("0x0300", "0x0380", "0x1200"))


def _driver(address: str) -> str:
    try:
        return os.path.basename(os.readlink(f"{_SYSFS}/bus/pci/devices/{address}/driver"))
    except OSError:
        return ""


def _target_of_ip(address: str) -> str | None:
    core = f"bus/pci/devices/{address}/ip_discovery/die/0/GC/0"
    numbers = (_text(f"{core}/{name}") for name in ("major", "minor", "revision"))
    return _target_named(_IP_VERSIONS, ".".join(numbers))


def _target_of_code_name(path: str) -> str | None:
    return _target_named(_CODE_NAMES, _text(path))


def _target_named(names: dict[str, tuple[str, ...]], wanted: str) -> str | None:
    return next((target for target, known in names.items() if wanted in known), None)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(f"{_SYSFS}/{directory}")
    except OSError as error:
        _say(str(error))
        return []


def _read(path: str) -> str:
    return Path(_SYSFS, path).read_text("utf-8", "replace")


def _text(path: str) -> str:
    """The text of a file; empty without one."""
    try:
        return _read(path).strip()
    except OSError:
        return ""


def _target_of_version(version: int) -> str:
    """`gfx90a` of 90010: major, minor and stepping, two decimal digits each."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _say(message: str) -> None:
    if _VERBOSE:
        print(f"[rocm_sdk] {message}", file=sys.stderr)


def _read_tables(path: Path) -> None:
    """Fills the tables. The keys of each row are the parameters of its class."""
    tables = json.loads(path.read_text("utf-8"))
    for row in tables["packages"]:
        PackageEntry(**row)
    for row in tables["libraries"]:
        LibraryEntry(**row)
    for row in tables["files"]:
        FileEntry(**row)
    for table, rows in (
        (_FAMILIES, tables["families"]),
        (_IP_VERSIONS, tables["ip_versions"]),
        (_CODE_NAMES, tables["code_names"]),
    ):
        table.update((target, tuple(names)) for target, names in rows.items())


_read_tables(Path(__file__).with_name("_dist_info.json"))
