"""Runs a command, and fails if one of its processes is still alive afterwards.

    leftovers.py COMMAND...

On Linux this program finds every process that the command has started, in any session and with any environment: it
adopts the orphans, which would otherwise become children of init. The exit status is the command's. If the command
succeeds and a process is left, the status is 1. Processes that are left are printed and killed. After SIGTERM, this
program ends the command and kills all processes that it started.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PR_SET_CHILD_SUBREAPER = 36
#: Seconds that processes have to end by themselves after the command.
GRACE = 5.0


class Process(NamedTuple):
    pid: int
    command: str


def adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> dict[int, int]:
    """Returns the parent of each living process."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The process name in parentheses can have any character, also `)` and spaces.
            state, parent = file.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state not in "ZX":
                found[int(file.parent.name)] = int(parent)
    return found


def descendants() -> Iterator[Process]:
    """Yields the living descendants of this process."""
    parent_of = parents()
    below = {os.getpid()}
    while more := {pid for pid, parent in parent_of.items() if parent in below} - below:
        below |= more
    for pid in sorted(below - {os.getpid()}):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            yield Process(pid, command)


def reap() -> None:
    """Frees the process ids of children that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass


def remaining() -> list[Process]:
    """Gives every process a short time to end by itself, and returns those that did not."""
    deadline = time.monotonic() + GRACE
    while True:
        reap()
        found = list(descendants())
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def wait(command: "subprocess.Popen[bytes]") -> int:
    """Waits for the command, and reaps orphans in the meantime, because tests check whether a process id is in use."""
    while True:
        pid, status = os.wait()
        if pid == command.pid:
            return os.waitstatus_to_exitcode(status)


def end(processes: Sequence[Process]) -> None:
    """Prints and kills these processes, and waits until they are gone."""
    for process in processes:
        print(f"leftovers: process {process.pid} outlived the command: {process.command[:300]}", file=sys.stderr)
        with suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)
    if processes:
        remaining()


def run(command: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    adopt_orphans()
    started = None
    try:
        started = subprocess.Popen(command)
        status = wait(started)
    except BaseException:
        # SIGTERM can arrive when the command runs but `started` is not set yet. Then `remaining` finds the command.
        if started is not None:
            started.terminate()
        end(remaining())
        raise
    found = remaining()
    end(found)
    # Like a shell, this returns 128 + the signal's number for a command that a signal ended.
    return 128 - status if status < 0 else status or (1 if found else 0)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
