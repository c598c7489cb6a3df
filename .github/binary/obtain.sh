#!/usr/bin/env bash
# Finds, builds or downloads rocwheel for action.yml: its path becomes the output `path`, and its
# directory goes on the PATH of later steps.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
runner="${RUNNER_OS:-unknown}-${RUNNER_ARCH:-unknown}"
suffix=""
[ "${RUNNER_OS:-}" != Windows ] || suffix=.exe

# In a message, what would end it or be taken for part of the command.
escaped() {
  local text=${1//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '%s' "${text//$'\n'/%0A}"
}

fail() {
  echo "::error title=rocwheel::$(escaped "$1")" >&2
  exit 2
}

# Windows takes `C:/x`, and Git's bash has `/c/x`.
native() {
  if [ -n "$suffix" ] && command -v cygpath >/dev/null; then cygpath -m "$1"; else printf '%s\n' "$1"; fi
}

# Whether there is a release for this runner.
is_released() {
  grep -q '^url ' "$here/release.txt" && grep -q "^$runner " "$here/release.txt"
}

sha256() {
  if command -v sha256sum >/dev/null; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi | cut -d ' ' -f 1
}

given() {
  # It becomes a line of a file of the runner, which a line end would give another line.
  [[ $BINARY != *[$'\r\n']* ]] || fail "the input \`binary\` has more than one line: $BINARY"
  [ -f "$BINARY" ] || fail "the input \`binary\` names no file: $BINARY"
  [ -x "$BINARY" ] || fail "the input \`binary\` names a file that cannot be executed: $BINARY"
  (cd "$(dirname "$BINARY")" && printf '%s/%s\n' "$PWD" "$(basename "$BINARY")")
}

# Cargo and rustup obey the files of the directory that they run in: `.cargo/config.toml` may name any program as
# the compiler, and the job may have checked out code that nobody has read. So they run where the action is.
built() {
  command -v cargo >/dev/null || fail "\`build-from-source\` needs Rust: install it in an earlier step"
  local target="$RUNNER_TEMP/rocwheel"
  cd "$here/../.."
  cargo build --locked --release --package rocwheel --bin rocwheel --target-dir "$target" >&2 ||
    fail "rocwheel could not be built from its source"
  printf '%s\n' "$target/release/rocwheel$suffix"
}

# What a container has of curl, wget, Python and Node.js; GitHub mounts its Node.js into every container of
# a job. The digest is compared afterwards, with each of these programs. 22 is refused by the server, 127 is not there.
get() {
  local code=127 node
  if command -v curl >/dev/null; then
    code=0
    # That of Enterprise Linux 8 knows no `--retry-all-errors`; it waits by itself only for what it calls
    # transient.
    curl --proto '=https' --proto-redir '=https' --tlsv1.2 --fail --silent --show-error --location \
      --retry 3 --connect-timeout 20 --output "$2" "$1" || code=$?
    # 2: an option that it does not know. 35, 60: TLS or certificates that are too old.
    case $code in 2 | 35 | 60) ;; *) return "$code" ;; esac
  fi
  if command -v wget >/dev/null && wget -q -O "$2" "$1"; then return 0; fi
  if command -v python3 >/dev/null && python3 -c "$python" "$1" "$2"; then return 0; fi
  for node in node /__e/node*/bin/node; do
    if command -v "$node" >/dev/null && "$node" -e "$javascript" "$1" "$2"; then return 0; fi
  done
  return "$code"
}

python='import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])'
# shellcheck disable=SC2016 # they are for JavaScript
javascript='
const [url, file] = process.argv.slice(1);
fetch(url).then(async (answer) => {
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  require("fs").writeFileSync(file, Buffer.from(await answer.arrayBuffer()));
}).catch((error) => { console.error(`${error}`); process.exit(1); });'

# Tried again in a loop of our own. What the server refuses stays refused, and so does a machine without a
# program that downloads.
fetch() {
  local pause code
  for pause in 1 2 4 8 ''; do
    code=0
    get "$1" "$2" || code=$?
    case $code in 0 | 22 | 127) return "$code" ;; esac
    [ -z "$pause" ] || sleep "$pause"
  done
  return "$code"
}

# A binary of an earlier job counts if it is the very same.
downloaded() {
  local key value name url="" wanted="" asset=""
  while read -r key value name; do
    case $key in
      url) url=${value%/} ;;
      "$runner") wanted=$value asset=$name ;;
    esac
  done <"$here/release.txt"
  [ -n "$url" ] || fail "rocwheel has no release yet, and is built where there is Rust: install it in an earlier step"
  [ -n "$asset" ] || fail "no release of rocwheel is for $runner, and it is built where there is Rust: install it in an earlier step"
  local directory="${RUNNER_TOOL_CACHE:-$RUNNER_TEMP}/rocwheel/$wanted"
  local binary="$directory/rocwheel$suffix"
  if [ ! -f "$binary" ] || [ "$(sha256 "$binary")" != "$wanted" ]; then
    local part="$RUNNER_TEMP/rocwheel-$$.part"
    mkdir -p "$directory"
    local code=0
    fetch "$url/$asset" "$part" || code=$?
    [ "$code" != 127 ] || fail "could not download $url/$asset: install curl, wget or python3 in the container"
    [ "$code" = 0 ] || fail "could not download $url/$asset"
    local found
    found=$(sha256 "$part")
    if [ "$found" != "$wanted" ]; then
      rm -f "$part"
      fail "$url/$asset is not what was released: its sha256 is $found instead of $wanted"
    fi
    chmod +x "$part"
    mv -f "$part" "$binary"
  fi
  printf '%s\n' "$binary"
}

if [ -n "${BINARY:-}" ]; then
  path=$(given)
else
  case "${BUILD_FROM_SOURCE:-auto}" in
    true) path=$(built) ;;
    false) path=$(downloaded) ;;
    auto)
      # A checkout of this repository works as it is.
      if is_released || ! command -v cargo >/dev/null; then path=$(downloaded); else path=$(built); fi
      ;;
    *) fail "the input \`build-from-source\` is none of \`auto\`, \`true\`, \`false\`: $BUILD_FROM_SOURCE" ;;
  esac
fi
native "$(dirname "$path")" >>"$GITHUB_PATH"
printf 'path=%s\n' "$(native "$path")" >>"$GITHUB_OUTPUT"
"$path" --version
