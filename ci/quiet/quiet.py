"""Runs a command that asserts milliseconds, and again if it failed while the machine was taken away.

A virtual machine shares its processors with others: now and then it gets none for a tenth of a second or longer, and
everything in it comes late. The kernel counts that time as stolen. A test that fails then says nothing about locks.

    quiet.py [--again OPTION] COMMAND...

OPTION is added to the command when it is run again. The exit status is that of its last run: a failure stays one, at
once where no time was stolen, and after a few tries where there was each time.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

TRIES = 4
# Of a sample's 100 ms on each processor, so many stolen ones are a disturbance.
SAMPLE = 0.1
DISTURBANCE = 0.03
# So long nothing is to be stolen before the command begins, and so long that is waited for.
CALM = 2.0
WAIT = 45.0

Clock = Callable[[], float]


def stolen_seconds() -> float:
    """What the processors together were kept from running since the machine started; 0 where nothing counts it."""
    try:
        processors = Path("/proc/stat").read_text().splitlines()[0].split()
        return int(processors[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


class Watch:
    """Looks every tenth of a second at how much time was stolen, while its context is open."""

    def __init__(self, stolen: Clock = stolen_seconds) -> None:
        self.disturbances = 0
        self.worst = 0.0
        self.since = time.monotonic()
        self._stolen = stolen
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def calm_for(self) -> float:
        return time.monotonic() - self.since

    def _look(self) -> None:
        before = self._stolen()
        while not self._end.wait(SAMPLE):
            now = self._stolen()
            if now - before >= DISTURBANCE:
                self.disturbances += 1
                self.worst = max(self.worst, now - before)
                self.since = time.monotonic()
            before = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()


def wait_for_calm(stolen: Clock = stolen_seconds) -> None:
    deadline = time.monotonic() + WAIT
    with Watch(stolen) as watch:
        while watch.calm_for() < CALM and time.monotonic() < deadline:
            time.sleep(SAMPLE)


def judge(run: Callable[[bool], int], stolen: Clock = stolen_seconds, say: Callable[[str], None] = print) -> int:
    """Runs until it passes, or fails on a machine that was not disturbed, a few times at the most. `run` is told
    whether it is not the first time. Returns its last status."""
    status = 0
    for number in range(1, TRIES + 1):
        wait_for_calm(stolen)
        with Watch(stolen) as watch:
            status = run(number > 1)
        if status == 0 or not watch.disturbances:
            break
        say(
            f"quiet: failed while the machine was taken away {watch.disturbances} times, "
            f"for {watch.worst * 1000:.0f} ms at the worst (try {number} of {TRIES})"
        )
    return status


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--again", action="append", default=[])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    def run(again: bool) -> int:
        return subprocess.run([*options.command, *(options.again if again else [])]).returncode

    return judge(run, say=lambda text: print(text, file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main())
