#!/usr/bin/env bash
# Writes the Kotlin code that calls the native library. Run it after a change of bindings/jvm or of the version of
# uniffi.
#
# usage: generate-kotlin.sh [--check]     --check compares the code and changes nothing
#
# The code is committed, because uniffi's generator takes minutes to build. Code that does not match the library fails
# when the library is loaded, because uniffi compares a checksum of each function.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
built=${CARGO_TARGET_DIR:-$root/target}
kotlin=$here/src/main/uniffi
case $(uname -s) in
  Darwin) library=libsteadlock_jvm.dylib ;;
  *) library=libsteadlock_jvm.so ;;
esac

cd "$root"
cargo build --quiet --locked --release --package steadlock-jvm
# A debug build, because the generator runs only once: a short build matters more than a fast generator.
cargo build --quiet --locked --package steadlock-uniffi-bindgen

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
"$built/debug/steadlock-uniffi-bindgen" generate "$built/release/$library" \
  --language kotlin --no-format --out-dir "$fresh"
if [ "${1:-}" = --check ]; then
  diff --recursive --brief "$fresh" "$kotlin" || {
    echo "generate-kotlin.sh: src/main/uniffi is not what uniffi generates: run ./ci/just jvm-kotlin" >&2
    exit 1
  }
else
  rm -rf "$kotlin"
  cp -r "$fresh" "$kotlin"
fi
