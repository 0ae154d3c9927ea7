#!/usr/bin/env bash
# Writes the Kotlin that calls the native library, after bindings/jvm or the version of uniffi has changed.
#
# usage: generate-kotlin.sh [--check]     --check compares it, and changes nothing
#
# It is committed since uniffi's generator takes minutes to build. Kotlin that does not fit its library is refused when
# that is loaded, by a sum over each function.
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
# The generator runs once: building it fast is worth more than a fast generator.
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
