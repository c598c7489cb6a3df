"""For tools that call setuptools by name; installers use `rocm_build`, which needs nothing."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rocm_build

# A source distribution says the same wherever it is built.
choice = None if "sdist" in sys.argv[1:] else rocm_build.choose()

setup(
    name=rocm_build.NAME,
    version=rocm_build.info.__version__,
    description=rocm_build.SUMMARY,
    license=rocm_build.LICENSE,
    project_urls=rocm_build.URLS,
    python_requires=rocm_build.REQUIRES_PYTHON,
    package_dir={"": "src"},
    packages=rocm_build.PACKAGES,
    package_data={"rocm_sdk": ["_dist_info.json", "py.typed"]},
    entry_points={
        "console_scripts": [f"{name} = {call}" for name, call in rocm_build.SCRIPTS.items()]
    },
    install_requires=rocm_build.requires(choice),
    extras_require=rocm_build.extras(choice),
)
