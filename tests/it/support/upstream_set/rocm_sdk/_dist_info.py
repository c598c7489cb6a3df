"""What this distribution has."""

import importlib.util
import os
import subprocess
import sysconfig

__version__ = "DEFAULT"
PY_PACKAGE_SUFFIX_NONCE = "_DEFAULT"
DEFAULT_TARGET_FAMILY = "DEFAULT"
AVAILABLE_TARGET_FAMILIES = []
LINUX_TARGET_FAMILIES = []
WINDOWS_TARGET_FAMILIES = []
ALL_PACKAGES = {}
ALL_LIBRARIES = {}


class PackageEntry:
    def __init__(
        self,
        logical_name,
        dist_package_template,
        *,
        pure_py_package_name,
        template_directory,
        required=False,
    ):
        self.logical_name = logical_name
        self.dist_package_template = dist_package_template
        self.pure_py_package_name = pure_py_package_name
        self.template_directory = template_directory
        self.required = required
        ALL_PACKAGES[logical_name] = self

    @property
    def is_target_specific(self):
        return "{target_family}" in self.dist_package_template

    def get_dist_package_name(self, target_family=None):
        base = (target_family or "").split(":")[0]
        return self.dist_package_template.format(target_family=base)

    def get_dist_package_require(self, target_family=None):
        return f"{self.get_dist_package_name(target_family)}=={__version__}"

    def get_py_package_name(self, target_family=None):
        name = self.get_dist_package_name(target_family).replace("-", "_")
        return f"_{name}{PY_PACKAGE_SUFFIX_NONCE}"

    def has_py_package(self, target_family=None):
        return importlib.util.find_spec(self.get_py_package_name(target_family)) is not None


class LibraryEntry:
    def __init__(
        self,
        shortname,
        package_name,
        so_pattern,
        dll_pattern,
        posix_relpath="lib",
        optional=False,
    ):
        self.shortname = shortname
        self.package = ALL_PACKAGES[package_name]
        self.posix_relpath = posix_relpath
        self.windows_relpath = "bin"
        self.so_pattern = so_pattern
        self.dll_pattern = dll_pattern
        self.optional = optional
        ALL_LIBRARIES[shortname] = self


def discover_current_target_family():
    path = [sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
    try:
        environment = {**os.environ, "PATH": os.pathsep.join(path)}
        said = subprocess.check_output(
            ["offload-arch"], env=environment, stderr=subprocess.STDOUT, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    for target in said.split():
        for name in [f"{target[:-1]}X-{it}" for it in ("all", "dgpu", "igpu", "dcgpu")] + [target]:
            if name in AVAILABLE_TARGET_FAMILIES:
                return name
    return None


def determine_target_family():
    family = os.environ.get("ROCM_SDK_TARGET_FAMILY")
    family = family or discover_current_target_family() or DEFAULT_TARGET_FAMILY
    if family not in AVAILABLE_TARGET_FAMILIES:
        raise ValueError(f"Requested ROCM_SDK_TARGET_FAMILY={family} is not available")
    return family


def get_target_family_platform_marker(target_family):
    if not (LINUX_TARGET_FAMILIES and WINDOWS_TARGET_FAMILIES):
        return ""
    is_linux = target_family in LINUX_TARGET_FAMILIES
    if is_linux and target_family in WINDOWS_TARGET_FAMILIES:
        return ""
    return 'sys_platform == "linux"' if is_linux else 'sys_platform == "win32"'


def build_per_target_extras():
    targets = sorted({it.split(":")[0] for it in AVAILABLE_TARGET_FAMILIES})
    extras = {}
    for package in ALL_PACKAGES.values():
        if len(targets) < 2 or package.required or not package.is_target_specific:
            continue
        for target in targets:
            marker = get_target_family_platform_marker(target)
            line = package.get_dist_package_require(target) + (f"; {marker}" if marker else "")
            extras[f"{package.logical_name}-{target}"] = [line]
            extras.setdefault(f"{package.logical_name}-all", []).append(line)
    return extras


def build_install_requires(target_family):
    packages = [it for it in ALL_PACKAGES.values() if it.required and it.logical_name != "meta"]
    return [it.get_dist_package_require(target_family) for it in packages]


PackageEntry(
    "meta", "rocm", pure_py_package_name="rocm_sdk", template_directory="rocm", required=True
)
PackageEntry(
    "core",
    "rocm-sdk-core",
    pure_py_package_name="rocm_sdk_core",
    template_directory="rocm-sdk-core",
    required=True,
)
PackageEntry(
    "libraries",
    "rocm-sdk-libraries-{target_family}",
    pure_py_package_name="rocm_sdk_libraries",
    template_directory="rocm-sdk-libraries",
)
PackageEntry(
    "device",
    "rocm-sdk-device-{target_family}",
    pure_py_package_name="rocm_sdk_device",
    template_directory="rocm-sdk-device",
)
PackageEntry(
    "devel",
    "rocm-sdk-devel",
    pure_py_package_name="rocm_sdk_devel",
    template_directory="rocm-sdk-devel",
)
PackageEntry(
    "profiler",
    "rocm-profiler",
    pure_py_package_name="rocm_profiler",
    template_directory="rocm-profiler",
)

LibraryEntry("amdhip64", "core", "libamdhip64.so*", "amdhip64*.dll")
LibraryEntry("hiprtc", "core", "libhiprtc.so*", "hiprtc0*.dll")
LibraryEntry("roctx64", "core", "libroctx64.so*", "")
LibraryEntry(
    "rocm_sysdeps_liblzma",
    "core",
    "librocm_sysdeps_liblzma.so.*",
    "",
    posix_relpath="lib/rocm_sysdeps/lib",
)
LibraryEntry("rocdxg", "core", "librocdxg*.so*", "", optional=True)
LibraryEntry("hipblas", "libraries", "libhipblas.so*", "*hipblas*.dll")
LibraryEntry("hipfft", "libraries", "libhipfft.so*", "hipfft*.dll")
LibraryEntry("miopen", "libraries", "libMIOpen.so*", "MIOpen*.dll")
