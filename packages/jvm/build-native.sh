#!/usr/bin/env bash
# Builds the native library for this machine. If STEADLOCK_BUILT names a folder, the library in it is copied instead.
#
# usage: build-native.sh TARGET     TARGET is Maven's build directory
#
# Puts the library into TARGET/classes/<os>-<arch>/, the folder in which JNA looks for it, in a jar too.
set -euo pipefail

target=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
built=${STEADLOCK_BUILT:-${CARGO_TARGET_DIR:-$root/target}/release}

case $(uname -m) in
  x86_64 | amd64) arch=x86-64 ;;
  aarch64 | arm64) arch=aarch64 ;;
  *) arch=$(uname -m) ;;
esac
case $(uname -s) in
  Linux) platform=linux-$arch library=libsteadlock_jvm.so ;;
  Darwin) platform=darwin-$arch library=libsteadlock_jvm.dylib ;;
  MINGW* | MSYS*) platform=win32-$arch library=steadlock_jvm.dll ;;
  *) echo "build-native.sh: no native library for $(uname -s)" >&2 && exit 1 ;;
esac

cd "$root"
if [ -z "${STEADLOCK_BUILT:-}" ]; then
  cargo native --quiet
fi

# Writes a new file and renames it, because a JVM may have the old one mapped. For the same reason the library is no
# Maven resource: Maven overwrites the old file in place.
classes=$target/classes/$platform
aside=$target/$library.new
mkdir -p "$classes"
cp "$built/$library" "$aside"
mv -f "$aside" "$classes/$library"
