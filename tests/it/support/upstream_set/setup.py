"""Of every wheel: the arguments are in a file."""

import json
from pathlib import Path

from setuptools import setup

arguments = json.loads(Path("setup.json").read_text())
setup(options={"bdist_wheel": {"plat_name": "linux_x86_64"}}, zip_safe=False, **arguments)
