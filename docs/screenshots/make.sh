#!/usr/bin/env bash
# Makes the pictures of the index pages: of the sample's set, as a desktop and a phone show them.
#
#     docs/screenshots/make.sh [ROCWHEEL]
#
# Needs chromium (Debian: apt-get install chromium).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rocwheel=${1:-$here/../../target/dist/rocwheel}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$rocwheel" pipeline --sample --output-dir "$work" --no-progress --quiet >/dev/null
set=$work/local-linux/python
# One withdrawn file, so that the pictures show what that looks like.
echo 'rocm-profiler==0.0.1.dev0  the launcher is broken' >"$work/yank.txt"
"$rocwheel" index "$set" --yank "$work/yank.txt" --quiet >/dev/null

shoot() { # NAME ADDRESS WIDTH HEIGHT SCALE
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files \
    --force-device-scale-factor="$5" --window-size="$3,$4" \
    --screenshot="$here/$1.png" "$2" >/dev/null 2>&1
}

shoot find-links-desktop "file://$set/index.html" 1024 860 1

# No window is as narrow as a phone: three phones stand in one.
{
  echo '<!DOCTYPE html><style>body{background:#d0d5dd;display:flex;gap:20px;margin:20px}'
  echo 'iframe{background:#fff;border:0;border-radius:16px;height:720px;width:375px}</style>'
  for page in index.html simple/index.html simple/rocm-profiler/index.html; do
    echo "<iframe src=\"file://$set/$page\"></iframe>"
  done
} >"$work/phones.html"
shoot phones "file://$work/phones.html" 1205 760 1
