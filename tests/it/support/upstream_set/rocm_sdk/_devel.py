"""Unpacks the development files beside the packages, and writes down in RECORD what it made."""

import importlib
import json
import os
import shutil
import tarfile
from importlib import metadata
from pathlib import Path

# Symlinks that stay ones: the compiler looks at the name that it was called by.
PRESERVED = {"amdclang", "amdclang++", "amdclang-cl", "amdclang-cpp"}
PRESERVED |= {"amdflang", "amdlld", "amdllvm"}


def get_devel_root():
    module = Path(importlib.import_module("rocm_sdk_devel").__file__).parent
    site = module.parent
    root = site / "_rocm_sdk_devel"
    archive = module / "_devel.tar"
    if archive.exists():
        record = record_of("rocm-sdk-devel", site)
        with record.open("a") as rows:
            expand(archive, site, rows)
        archive.unlink()
    for device in sorted(site.glob("rocm_sdk_device_*.dist-info")):
        link_device_files(device, site, root)
    return root


def record_of(name, site):
    files = next(iter(metadata.distributions(name=name, path=[str(site)]))).files
    return site / next(it for it in files if str(it).endswith(".dist-info/RECORD"))


def expand(archive, site, rows):
    touched = set()
    with tarfile.open(archive) as tar:
        for member in tar:
            to = site / member.name
            if member.isdir():
                if to not in touched:
                    shutil.rmtree(to, ignore_errors=True)
                    touched.add(to)
                to.mkdir(parents=True, exist_ok=True)
                continue
            if to.parent not in touched:
                shutil.rmtree(to.parent, ignore_errors=True)
                touched.add(to.parent)
                to.parent.mkdir(parents=True)
            rows.write(f"{member.name},,\n")
            if member.issym():
                target = to.parent / member.linkname
                is_preserved = to.name in PRESERVED and to.parent.name == "bin"
                is_preserved &= to.parent.parent.name.startswith("_rocm_sdk_devel")
                if target.is_file() and not is_preserved:
                    os.link(target.resolve(), to)
                else:
                    to.symlink_to(member.linkname)
            else:
                tar.extract(member, site)


def link_device_files(device, site, root):
    (root / ".devel_reconcile.lock").touch()
    record = device / "RECORD"
    rows = record.read_text().splitlines()
    named = {row.split(",")[0] for row in rows}
    for manifest in site.glob("_rocm_sdk_libraries/.devel_links/*.json"):
        if str(manifest.relative_to(site)) not in named:
            continue
        for link in json.loads(manifest.read_text())["links"]:
            to = root / link["relpath"]
            to.parent.mkdir(parents=True, exist_ok=True)
            to.unlink(missing_ok=True)
            os.link((to.parent / link["target"]).resolve(), to)
            name = f"_rocm_sdk_devel/{link['relpath']}"
            rows += [] if name in named else [f"{name},,"]
    record.write_text("\n".join(rows) + "\n")
