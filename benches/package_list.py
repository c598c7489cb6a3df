"""Finds what dumb-pypi does not: `package_list.py DIR >LIST` prints its list with digests and metadata."""

import concurrent.futures
import email.parser
import hashlib
import json
import pathlib
import sys
import zipfile


def facts(path: pathlib.Path) -> str:
    body = path.read_bytes()
    with zipfile.ZipFile(path) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = wheel.read(name)
    path.with_name(f"{path.name}.metadata").write_bytes(metadata)
    headers = email.parser.BytesHeaderParser().parsebytes(metadata)
    return json.dumps({
        "filename": path.name,
        "hash": f"sha256={hashlib.sha256(body).hexdigest()}",
        "requires_python": headers["Requires-Python"],
        "core_metadata": f"sha256={hashlib.sha256(metadata).hexdigest()}",
    })


def main() -> None:
    wheels = sorted(pathlib.Path(sys.argv[1]).glob("*.whl"))
    with concurrent.futures.ProcessPoolExecutor() as pool:
        print("\n".join(pool.map(facts, wheels, chunksize=250)))


if __name__ == "__main__":
    main()
