#!/usr/bin/env bash
# Prints the home of the newest JDK on this machine, for STEADLOCK_TEST_JAVA_HOME. Ignores JDKs before 22, and fails
# with a message if there is no other. Prints the variable itself if it is set.
set -euo pipefail

oldest=22

if [ -n "${STEADLOCK_TEST_JAVA_HOME:-}" ]; then
  echo "$STEADLOCK_TEST_JAVA_HOME"
  exit
fi

newest=0
for home in "${JAVA_HOME:-}" /usr/lib/jvm/* /opt/*jdk* /Library/Java/JavaVirtualMachines/*/Contents/Home \
  "$HOME"/.sdkman/candidates/java/*; do
  [ -x "$home/bin/java" ] && [ -r "$home/release" ] || continue
  version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
  if [ "${version:-0}" -ge "$oldest" ] && [ "$version" -gt "$newest" ]; then
    newest=$version found=$home
  fi
done

if [ "$newest" -eq 0 ]; then
  echo "no JDK from $oldest on was found: set STEADLOCK_TEST_JAVA_HOME to one, to run the tests on it too" >&2
  exit 1
fi
echo "$found"
