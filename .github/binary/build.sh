#!/usr/bin/env bash
# Builds the program that is released, and prints its path. Two builds have the same bytes, in any
# directory and on any machine: the compilers are pinned here, and no path is in the program.
# Usage: .github/binary/build.sh TARGET
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=${1:?usage: .github/binary/build.sh TARGET}
# The exact version: a newer patch release may compile to other bytes.
rust=${ROCWHEEL_RUST:-$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml).0}
export RUSTUP_TOOLCHAIN=$rust CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never
# mimalloc says when it was compiled (`__DATE__`), and this is the time that a C compiler takes.
export SOURCE_DATE_EPOCH=315532800

flags=()
c_flags=""
command=(cargo build)
case $target in
  # Zig is a C compiler and a linker for musl, on any machine. A panic ends the program, so no table says
  # how to unwind its stack.
  *-linux-musl)
    command=(cargo zigbuild)
    flags+=(-Cforce-unwind-tables=no -Clink-self-contained=no)
    c_flags+=" -fno-asynchronous-unwind-tables -fno-unwind-tables"
    ;;
  *-apple-darwin)
    # The oldest systems that this Rust supports.
    case $target in aarch64-*) export MACOSX_DEPLOYMENT_TARGET=11.0 ;; *) export MACOSX_DEPLOYMENT_TARGET=10.12 ;; esac
    ;;
  # The time of the build would be in the header.
  *-windows-msvc)
    flags+=(-Clink-arg=/Brepro -Ctarget-feature=+crt-static)
    ;;
  *)
    echo "error: no release is for $target" >&2
    exit 2
    ;;
esac

# Windows takes `C:/x`, and Git's bash has `/c/x`.
native() {
  if command -v cygpath >/dev/null; then cygpath -m "$1"; else printf '%s' "$1"; fi
}

# Paths are in messages of panics, and in assertions of C. What is in the target directory comes last,
# because the last prefix that fits counts.
maps=(
  "$(native "$(rustc --print sysroot)")=/rust"
  "$(native "${CARGO_HOME:-$HOME/.cargo}")=/cargo"
  "$(native "$PWD")=/rocwheel"
  "$(native "${CARGO_TARGET_DIR:-$PWD/target}")=/rocwheel/target"
)
for map in "${maps[@]}"; do
  if [[ $map == *" "* && $target != *-msvc ]]; then
    # C compilers get their flags as one text, in which a space ends a flag.
    echo "error: a space in a path: ${map%=*}; build in another directory" >&2
    exit 2
  fi
  flags+=("--remap-path-prefix=$map")
  c_flags+=" -ffile-prefix-map=$map"
done
[[ $target == *-msvc ]] || export CFLAGS="${CFLAGS:-}$c_flags"

# The standard library is built again, with sorts that are small (a program has a copy for each type) and
# without what reads symbols of a stack, which a stripped program does not have. Cargo calls both unstable;
# the exact version is known, so they are not going to change.
export RUSTC_BOOTSTRAP=1
options=(--locked --profile dist --package rocwheel --bin rocwheel --target "$target")
options+=("-Zbuild-std=std,panic_abort" "-Zbuild-std-features=optimize_for_size")
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf '%s' "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS
"${command[@]}" "${options[@]}" >&2
suffix=""
[[ $target != *-windows-* ]] || suffix=.exe
printf '%s\n' "${CARGO_TARGET_DIR:-$PWD/target}/$target/dist/rocwheel$suffix"
