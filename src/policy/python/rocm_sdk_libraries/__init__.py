"""The ROCm libraries; the files are in the package `_rocm_sdk_libraries`."""

from ._dist_info import __version__ as __version__
