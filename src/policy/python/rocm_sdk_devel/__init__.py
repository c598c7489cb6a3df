"""What it takes to build against ROCm; `rocm-sdk init` unpacks it as `_rocm_sdk_devel`."""

from ._dist_info import __version__ as __version__
