#!/usr/bin/env bash
# Times `rocwheel index` beside piprepo and dumb-pypi, whole processes on the same small wheels.
#
#     cargo build --release && benches/index.sh [PROJECTS VERSIONS]
#
# Needs Python with venv, access to PyPI, and GNU time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rocwheel=${ROCWHEEL:-$here/../target/release/rocwheel}
projects=${1:-1000} versions=${2:-10}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 "$here/small_wheels.py" "$work/packages" "$projects" "$versions"
if [ "${OTHERS:-yes}" = yes ]; then
  tools=${TOOLS:-$work/tools}
  if [ ! -d "$tools" ]; then
    python3 -m venv "$tools"
    # piprepo needs the pkg_resources of an older setuptools.
    "$tools/bin/pip" install --quiet piprepo==0.1.3 dumb-pypi==1.15.0 'setuptools<81'
  fi
fi
# A clock's grain later a file's time is believed.
sleep 3

measure() { # NAME COMMAND… : the best of three, and the most memory.
  local name=$1 best= memory=
  shift
  for _ in 1 2 3; do
    [ -n "${FRESH:-}" ] && rm -rf "$work"/packages/{simple,index.html,set.json,SHA256SUMS} \
      && find "$work/packages" -name '*.metadata' -delete
    /usr/bin/time -f '%e %M' -o "$work/time" "$@" >/dev/null 2>&1
    read -r seconds kilobytes <"$work/time"
    if [ -z "$best" ] || [ "$(printf '%s\n%s\n' "$seconds" "$best" | sort -n | head -n 1)" = "$seconds" ]; then
      best=$seconds
    fi
    memory=$kilobytes
  done
  printf '| %s | %s s | %s MB |\n' "$name" "$best" "$((memory / 1000))"
}

echo "$((projects * versions)) wheels of $projects projects"
if [ "${OTHERS:-yes}" = yes ]; then
  (cd "$work/packages" && ls -- *.whl) >"$work/list"
  FRESH=yes measure 'piprepo build' "$tools/bin/piprepo" build "$work/packages"
  measure 'dumb-pypi' "$tools/bin/dumb-pypi" --package-list "$work/list" \
    --packages-url https://example.org/ --output-dir "$work/dumb"
  rm -rf "$work/packages/simple"
fi
FRESH=yes measure 'rocwheel index, the first time' "$rocwheel" index "$work/packages"
measure 'rocwheel index, nothing changed' "$rocwheel" index "$work/packages"
touch "$work"/packages/*.whl
measure 'rocwheel index, every time changed' "$rocwheel" index "$work/packages"
