#!/usr/bin/env bash
# Finds the newest JDK on this machine: STEADLOCK_TEST_JAVA_HOME if that is set, or else the newest from 22 on.
#
# usage: newer-jdk.sh               prints its home, or fails with a message if there is none
#        newer-jdk.sh COMMAND...    runs the command with STEADLOCK_TEST_JAVA_HOME, or only prints this message
set -euo pipefail

oldest=22

newest_jdk() {
  local home version newest=0 found=
  for home in "${JAVA_HOME:-}" /usr/lib/jvm/* /opt/*jdk* /Library/Java/JavaVirtualMachines/*/Contents/Home \
    "$HOME"/.sdkman/candidates/java/*; do
    [ -x "$home/bin/java" ] && [ -r "$home/release" ] || continue
    version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
    if [ "${version:-0}" -ge "$oldest" ] && [ "$version" -gt "$newest" ]; then
      newest=$version found=$home
    fi
  done
  echo "$found"
}

found=${STEADLOCK_TEST_JAVA_HOME:-$(newest_jdk)}
if [ -z "$found" ]; then
  echo "no JDK from $oldest on was found: set STEADLOCK_TEST_JAVA_HOME to one, to run the tests on it too" >&2
  [ $# -gt 0 ] || exit 1
elif [ $# -gt 0 ]; then
  STEADLOCK_TEST_JAVA_HOME=$found exec "$@"
else
  echo "$found"
fi
