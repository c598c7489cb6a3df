"""The ROCm runtime and its tools; the files are in the package `_rocm_sdk_core`."""

from ._dist_info import __version__ as __version__
