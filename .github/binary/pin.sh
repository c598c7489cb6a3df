#!/usr/bin/env bash
# Names a release. First `steps`, in the workflows that others call: the commit with the binaries of the release.
# Then `pages`, wherever a user copies from, in the README, the docs and the callers: the commit that `steps` led to,
# because a workflow that is called has to name the release, too.
# Usage: .github/binary/pin.sh steps|pages OWNER/NAME COMMIT VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() {
  echo "error: $1" >&2
  exit 2
}

[ $# = 4 ] || fail "usage: .github/binary/pin.sh steps|pages OWNER/NAME COMMIT VERSION"
case $1 in
  steps) files=(.github/workflows/*.yml) ;;
  pages) files=(README.md docs/*.md workflows/*.yml) ;;
  *) fail "not \`steps\` or \`pages\`: $1" ;;
esac
[[ $2 =~ ^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$ ]] || fail "not a repository such as \`ROCm/rocwheel\`: $2"
[[ $3 =~ ^[0-9a-f]{40}$ ]] || fail "not a whole commit id: $3"
[[ $4 =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "not a version such as \`v1.2.3\`: $4"

# What is named now is what the caller of packages.yml, or its first step, names.
sample=workflows/packages.yml
[ "$1" = pages ] || sample=.github/workflows/packages.yml
old=$(sed -nE 's#^ *uses: ([^/]+/[^/@]+).*#\1#p' "$sample" | head -n 1)
for file in "${files[@]}"; do
  # The dot keeps the line ends before it.
  text=$(cat "$file" && echo .)
  new=$(sed -E \
    -e "s#${old//./\\.}(/[A-Za-z0-9._/-]+)?@[0-9a-f]{40} \\# .*#$2\\1@$3 \\# $4#" \
    -e "s#${old//./\\.}#$2#g" <<<"$text")
  [ "$new" = "$text" ] || printf '%s' "${new%.}" >"$file"
done
