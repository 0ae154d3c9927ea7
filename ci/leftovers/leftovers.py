"""Runs a command, and fails if a process of it is still alive afterwards.

    leftovers.py COMMAND...

A process belongs to the command if it has inherited the environment in which the command began, in whatever session or
group it is, and whoever its parent is now. The exit status is the command's, or 1 if something was left; what was left
is named, and ended.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

MARK = "LEFTOVERS_MARK"
#: A process that was asked to end may take this long, in seconds.
GRACE = 5.0


class Process(NamedTuple):
    pid: int
    command: str


def left(mark: str) -> Iterator[Process]:
    """The living processes that began with this mark, but for the calling one."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() not in (folder / "environ").read_bytes() or int(folder.name) == os.getpid():
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            # It has ended meanwhile, or is another user's.
            continue
        # One that has ended and was not waited for has neither.
        if command:
            yield Process(int(folder.name), command)


def left_after_grace(mark: str) -> list[Process]:
    until = time.monotonic() + GRACE
    while (found := list(left(mark))) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def run(command: Sequence[str]) -> int:
    mark = f"{MARK}={secrets.token_hex(16)}"
    name, _, value = mark.partition("=")
    status = subprocess.run(command, env=os.environ | {name: value}, check=False).returncode
    found = left_after_grace(mark)
    for process in found:
        print(f"leftovers: process {process.pid} outlived the command: {process.command[:300]}", file=sys.stderr)
        os.kill(process.pid, signal.SIGKILL)
    return status or (1 if found else 0)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
