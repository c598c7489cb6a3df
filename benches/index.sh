#!/usr/bin/env bash
# Times `rocwheel index` beside piprepo and dumb-pypi, whole processes on the same small wheels.
#
#     cargo build --profile dist && benches/index.sh [PROJECTS VERSIONS]
#
# Needs Python with venv, access to PyPI, and GNU time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rocwheel=${ROCWHEEL:-$here/../target/dist/rocwheel}
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

measure() { # NAME COMMAND… : the best of three.
  local name=$1 best= cpu= memory=
  shift
  for _ in 1 2 3; do
    [ -n "${FRESH:-}" ] && rm -rf "$work"/packages/{simple,index.html,set.json,SHA256SUMS} \
      && find "$work/packages" -name '*.metadata' -delete
    /usr/bin/time -f '%e %M %U %S' -o "$work/time" "$@" >/dev/null 2>&1
    read -r seconds kilobytes user system <"$work/time"
    if [ -z "$best" ] || [ "$(printf '%s\n%s\n' "$seconds" "$best" | sort -n | head -n 1)" = "$seconds" ]; then
      best=$seconds cpu="$user + $system"
    fi
    memory=$kilobytes
  done
  printf '| %s | %s s | %s s | %s MB |\n' "$name" "$best" "$cpu" "$((memory / 1000))"
}

echo "$((projects * versions)) wheels of $projects projects"
echo '| what | wall | user + system | peak memory |'
echo '|---|--:|--:|--:|'
if [ "${OTHERS:-yes}" = yes ]; then
  (cd "$work/packages" && ls -- *.whl) >"$work/list"
  FRESH=yes measure 'piprepo build' "$tools/bin/piprepo" build "$work/packages"
  measure 'dumb-pypi' "$tools/bin/dumb-pypi" --package-list "$work/list" \
    --packages-url https://example.org/ --output-dir "$work/dumb"
  rm -rf "$work/packages/simple"
  # What its user has to find out first, so that its pages have digests and metadata too.
  digests() {
    python3 "$here/package_list.py" "$work/packages" >"$work/list.json"
    "$tools/bin/dumb-pypi" --package-list-json "$work/list.json" \
      --packages-url https://example.org/ --output-dir "$work/dumb-digests"
  }
  export -f digests
  export here work tools
  measure 'dumb-pypi, with digests and metadata' bash -c digests
  find "$work/packages" -name '*.metadata' -delete
fi
FRESH=yes measure 'rocwheel index, the first time' "$rocwheel" index --no-check "$work/packages"
measure 'rocwheel index, nothing changed' "$rocwheel" index --no-check "$work/packages"
find "$work/packages" -name "*.whl" -exec touch {} +
measure 'rocwheel index, every time changed' "$rocwheel" index --no-check "$work/packages"
