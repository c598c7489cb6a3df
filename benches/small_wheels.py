"""Makes small wheels: `small_wheels.py DIR PROJECTS VERSIONS`."""

import os
import sys
import zipfile


def wheel(directory: str, project: str, version: str) -> None:
    stem = project.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
        "Requires-Python: >=3.8\nRequires-Dist: pkg-0\n"
    )
    tags = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {
        f"{stem}/__init__.py": "x = 1\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": tags,
    }
    record = "".join(f"{name},,\n" for name in members)
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    path = os.path.join(directory, f"{stem}-{version}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name), text)


def main() -> None:
    directory, projects, versions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.makedirs(directory, exist_ok=True)
    for project in range(projects):
        for version in range(versions):
            wheel(directory, f"pkg-{project}", f"1.{version}.0")


main()
