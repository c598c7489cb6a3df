"""Of `rocm`: read when the sdist is made, and again by each installer."""

import importlib.util
from pathlib import Path

from setuptools import setup

path = Path(__file__).parent / "src/rocm_sdk/_dist_info.py"
spec = importlib.util.spec_from_file_location("dist_info", path)
info = importlib.util.module_from_spec(spec)
spec.loader.exec_module(info)

family = info.determine_target_family()
optional = [it for it in info.ALL_PACKAGES.values() if not it.required]
setup(
    name="rocm",
    version=info.__version__,
    package_dir={"": "src"},
    packages=["rocm_sdk", "rocm_sdk.tests"],
    install_requires=info.build_install_requires(family),
    extras_require={
        **{it.logical_name: [it.get_dist_package_require(family)] for it in optional},
        **info.build_per_target_extras(),
    },
    entry_points={"console_scripts": ["rocm-sdk = rocm_sdk.__main__:main"]},
)
