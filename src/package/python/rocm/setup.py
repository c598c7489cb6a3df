"""Builds `rocm` with setuptools; what it requires is decided on the machine that installs it."""

import importlib.util
import sys
from pathlib import Path

from setuptools import setup

here = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location(
    "rocm_dist_info", here / "src" / "rocm_sdk" / "_dist_info.py"
)
info = importlib.util.module_from_spec(spec)
spec.loader.exec_module(info)

# A source distribution says the same wherever it is built.
choice = None if "sdist" in sys.argv[1:] else info.choose_target_family()

setup(
    name="rocm",
    version=info.__version__,
    description="The ROCm SDK: choose its parts by extras",
    url="https://github.com/ROCm/TheRock",
    license="MIT",
    python_requires=">=3.10",
    package_dir={"": "src"},
    packages=["rocm_sdk", "rocm_sdk.tests"],
    package_data={"rocm_sdk": ["py.typed"]},
    entry_points={"console_scripts": ["rocm-sdk = rocm_sdk.__main__:main"]},
    install_requires=info.build_install_requires(choice and choice.family),
    extras_require={**info.build_extras(choice), **info.build_per_target_extras()},
)
