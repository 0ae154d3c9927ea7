"""Runs a command that asserts milliseconds. Runs it again if it failed while the machine was disturbed.

A virtual machine shares its processors with others. Sometimes it has none for a tenth of a second or longer, and
everything in it is late. The kernel counts that time as stolen. A pause of the whole machine is not counted, but then a
sleeping thread wakes up late, by the steady clock or by the wall clock: while the host takes a snapshot, the steady
clock may stand still, and the wall clock is set forward afterwards. A test that fails during such a moment proves
nothing.

    quiet.py [--again OPTION] COMMAND...

OPTION is added to the command when it is run again. The exit status is that of the last run. A failure counts at once
if there was no disturbance during the run, and after `ATTEMPTS` runs if there was one during each of them.
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

ATTEMPTS = 4
# Seconds. The machine was disturbed if at least DISTURBANCE was stolen in one SAMPLE, on all processors together, or if
# a SAMPLE ended later than it should by at least PAUSE.
SAMPLE = 0.1
DISTURBANCE = 0.03
PAUSE = 0.4
# Seconds. The command begins after UNDISTURBED_BEFORE without a disturbance, and after LONGEST_WAIT in any case.
UNDISTURBED_BEFORE = 2.0
LONGEST_WAIT = 45.0

Clock = Callable[[], float]


def stolen_seconds() -> float:
    """Returns the stolen time of all processors since the machine started, or 0 if the system does not count it."""
    try:
        processors = Path("/proc/stat").read_text().splitlines()[0].split()
        return int(processors[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


class Watch:
    """Looks for disturbances every tenth of a second while its context is open."""

    def __init__(self, stolen: Clock = stolen_seconds, wall: Clock = time.time, pause: float | None = None) -> None:
        """`pause` is the shortest pause that is a disturbance, in seconds; the default is `PAUSE`."""
        self.disturbances = 0
        self.worst = 0.0
        self.since = time.monotonic()
        self._stolen, self._wall = stolen, wall
        self._pause = PAUSE if pause is None else pause
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def undisturbed_for(self) -> float:
        return time.monotonic() - self.since

    def _look(self) -> None:
        before, began, wall = self._stolen(), time.monotonic(), self._wall()
        has_ended = False
        while not has_ended:
            has_ended = self._end.wait(SAMPLE)
            now, ended, ended_wall = self._stolen(), time.monotonic(), self._wall()
            stolen, late = now - before, max(ended - began, ended_wall - wall) - SAMPLE
            if stolen >= DISTURBANCE or late >= self._pause:
                self.disturbances += 1
                self.worst = max(self.worst, stolen, late)
                self.since = ended
            before, began, wall = now, ended, ended_wall

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()


def wait_until_undisturbed(stolen: Clock = stolen_seconds) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    with Watch(stolen) as watch:
        while watch.undisturbed_for() < UNDISTURBED_BEFORE and time.monotonic() < deadline:
            time.sleep(SAMPLE)


def run_until_undisturbed(
    run: Callable[[bool], int], stolen: Clock = stolen_seconds, report: Callable[[str], None] = print
) -> int:
    """Calls `run` until it passes or fails on an undisturbed machine, at most `ATTEMPTS` times. Returns its status.

    The argument of `run` is false for the first call and true for each later one."""
    status = 0
    for number in range(1, ATTEMPTS + 1):
        wait_until_undisturbed(stolen)
        with Watch(stolen) as watch:
            status = run(number > 1)
        if status == 0 or not watch.disturbances:
            break
        report(
            f"quiet: failed while the machine was disturbed {watch.disturbances} times, "
            f"for {watch.worst * 1000:.0f} ms at the worst (attempt {number} of {ATTEMPTS})"
        )
    return status


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--again", action="append", default=[])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    def run(again: bool) -> int:
        return subprocess.run([*options.command, *(options.again if again else [])]).returncode

    return run_until_undisturbed(run, report=lambda text: print(text, file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main())
