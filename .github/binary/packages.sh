#!/usr/bin/env bash
# Makes the packages for PyPI: the sdist, and for each program that was built a wheel with it.
# Usage: .github/binary/packages.sh BUILT OUT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
built=${1:?usage: packages.sh BUILT OUT}
out=${2:?usage: packages.sh BUILT OUT}

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --require-hashes --requirement "$here/requirements.txt"
SOURCE_DATE_EPOCH=315532800 "$tools/bin/maturin" sdist --manifest-path "$here/../../Cargo.toml" --out "$out"
for target in "$built"/*-*-*; do
  "$here/release.py" wheel "$(basename "$target")" "$target"/rocwheel* "$out"/rocwheel-*.tar.gz "$out"
done
