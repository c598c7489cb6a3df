#!/usr/bin/env bash
# Names a release wherever the README, the docs and the workflows for users name one.
# Usage: .github/binary/pin.sh OWNER/NAME COMMIT VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() {
  echo "error: $1" >&2
  exit 2
}

[ $# = 3 ] || fail "usage: .github/binary/pin.sh OWNER/NAME COMMIT VERSION"
[[ $1 =~ ^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$ ]] || fail "not a repository such as \`ROCm/rocwheel\`: $1"
[[ $2 =~ ^[0-9a-f]{40}$ ]] || fail "not a whole commit id: $2"
[[ $3 =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "not a version such as \`v1.2.3\`: $3"

# What is named now is what the first workflow names first.
old=$(sed -n 's/^ *uses: //p' workflows/packages.yml | head -n 1)
for file in README.md docs/*.md workflows/*.yml; do
  # The dot keeps the line ends before it.
  text=$(cat "$file" && echo .)
  new=${text//"$old"/"$1@$2 # $3"}
  new=${new//"${old%%@*}"/"$1"}
  [ "$new" = "$text" ] || printf '%s' "${new%.}" >"$file"
done
