"""The ROCm profilers; the files are in the package `_rocm_profiler`."""

from ._dist_info import __version__ as __version__
