#!/usr/bin/env bash
# Makes the pictures of the pages and of the job summary, from the sample's set.
#
#     docs/screenshots/make.sh [ROCWHEEL]
#
# Needs chromium, cmark-gfm (GitHub's own Markdown) and cwebp; in Debian:
#     apt-get install chromium cmark-gfm webp fonts-noto-color-emoji fonts-dejavu-core
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rocwheel=${1:-$here/../../target/dist/rocwheel}
work=$(mktemp -d)
trap '[ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT

"$rocwheel" pipeline --sample --output-dir "$work/sample" --no-progress --quiet >/dev/null
set=$work/sample/local-linux/python
# The sample belongs to no run, and nothing in it is yanked. The pictures show both.
sed -i 's|"run-id": "local"|"run-id": "21440027240", "repository": "ROCm/TheRock"|' "$set/set.json"
sed -i 's|"project": "rocm-profiler",|& "yanked": "the launcher is broken",|' "$set/set.json"
"$rocwheel" index "$set" --quiet >/dev/null

shoot() { # NAME ADDRESS WIDTH HEIGHT SCHEME: 0 is dark, 1 is light
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files \
    --blink-settings=preferredColorScheme="$5" --window-size="$3,$4" \
    --screenshot="$work/$1.png" "$2" >/dev/null 2>&1
  cwebp -quiet -near_lossless 60 "$work/$1.png" -o "$here/$1.webp"
}

shoot packages-light "file://$set/dist/index.html" 1100 990 1
shoot packages-dark "file://$set/dist/index.html" 1100 990 0

# No window is as narrow as a phone: three phones stand in one.
{
  echo '<!DOCTYPE html><style>body{background:#d0d5dd;display:flex;gap:20px;margin:20px}'
  echo 'iframe{background:#fff;border:0;border-radius:16px;height:780px;width:375px}</style>'
  for page in dist/index.html simple/index.html simple/rocm/index.html; do
    echo "<iframe src=\"file://$set/$page\"></iframe>"
  done
} >"$work/phones.html"
shoot phones "file://$work/phones.html" 1205 820 1

# A set in which much is wrong, compared with the sample, as GitHub shows its summary.
rm -r "$work/sample/artifacts/rccl_lib_gfx1100"
plugin=$work/sample/artifacts/rocgdb_run_generic/debug-tools/rocgdb/stage/lib/gdb/plugin.so
cp --remove-destination "$plugin" "$work/plugin.so"
head -c 300000 /dev/urandom >>"$work/plugin.so"
mv "$work/plugin.so" "$plugin"
later=$work/later
"$rocwheel" build --artifact-dir "$work/sample/artifacts" --version 0.99.1.dev0 --output-dir "$later" --quiet >/dev/null
rm "$later/set.json" "$later/dist/"rocm_profiler*
python3 - "$later/dist/"rocm_sdk_libraries*.whl <<'PYTHON'
import os, sys, zipfile
wheel = sys.argv[1]
with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(wheel + ".new", "w", zipfile.ZIP_DEFLATED) as new:
    for member in old.infolist():
        if "libhipsparselt" not in member.filename:
            new.writestr(member, old.read(member))
os.replace(wheel + ".new", wheel)
PYTHON
"$rocwheel" check "$later" --require-targets gfx942,gfx1100,gfx90a --format json --quiet >"$work/findings.json" || true
"$rocwheel" summary "$later" --findings "$work/findings.json" --baseline "$set/set.json" --index-url \
  https://therock-ci-artifacts.s3.amazonaws.com/21440027240-linux/python/simple/ >"$work/summary.md"
{
  cat <<'HTML'
<!DOCTYPE html><meta charset=utf-8><style>
body{color:#1f2328;font:16px/1.5 system-ui,"Noto Color Emoji",sans-serif;margin:24px auto;max-width:960px}
h2{border-bottom:1px solid #d1d9e0;padding-bottom:.3em} a{color:#0969da;text-decoration:none}
table{border-collapse:collapse;display:block;margin:0 0 16px;overflow:auto;width:max-content;max-width:100%}
th,td{border:1px solid #d1d9e0;padding:6px 13px} tr:nth-child(2n){background:#f6f8fa}
code{background:#818b981f;border-radius:6px;font:85% monospace;padding:.2em .4em}
pre{background:#f6f8fa;border-radius:6px;overflow:auto;padding:16px} pre code{background:none;padding:0}
</style>
HTML
  cmark-gfm --unsafe --extension table --extension tagfilter --extension strikethrough --extension autolink "$work/summary.md"
} >"$work/summary.html"
shoot summary "file://$work/summary.html" 1010 2010 1
