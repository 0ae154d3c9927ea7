"""Measures lock + unlock pairs per second, compared with other lock libraries or with itself. See README.md."""

import argparse
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci" / "support"))

from redis_server import redis_server  # noqa: E402  (found by the line above)

OURS = "steadlock"
WITH_METRICS = "steadlock, metrics"


@dataclass(frozen=True)
class Row:
    """A comparison with another library, and the number of threads or tasks that use each."""

    name: str
    peer: str
    tasks: int


ROWS = [
    Row("rust tasks", "raw scripts", 1),
    Row("rust tasks", "raw scripts", 64),
    Row("rust threads", "raw scripts", 1),
    Row("rust threads", "raw scripts", 8),
    Row("python threads", "redis-py", 1),
    Row("python threads", "redis-py", 64),
    Row("python asyncio", "redis-py", 64),
    Row("node", "redis-semaphore", 1),
    Row("node", "redis-semaphore", 64),
    Row("jvm threads", "redisson", 1),
    Row("jvm threads", "redisson", 64),
]


def program(name: str, checkout: Path) -> list[str]:
    """Returns the command of a language's contender, as it was built in a checkout."""
    here = checkout / "ci" / "bench"
    if name.startswith("rust "):
        return [str(checkout / "target" / "release" / "examples" / "contender"), name.removeprefix("rust ")]
    if name == "node":
        return ["node", str(here / "node" / "tasks.mjs")]
    if name == "jvm threads":
        java_home = os.environ.get("JAVA_HOME")
        java = str(Path(java_home) / "bin" / "java") if java_home else "java"
        target = here / "jvm" / "target"
        return [java, "-cp", f"{target / 'classes'}{os.pathsep}{target / 'lib'}{os.sep}*", "Threads"]
    python = str(checkout / ".tools" / "venv" / "bin" / "python")
    return [python, str(here / "contenders" / {"python threads": "threads.py", "python asyncio": "tasks.py"}[name])]


@dataclass(frozen=True)
class Speed:
    """The result of one measurement."""

    pairs_per_second: float
    cpu_micros_per_pair: float


class Contender:
    """A process with one library, which is connected and waits for its next measurement."""

    def __init__(self, command: list[str], library: str, url: str, tasks: int) -> None:
        self.process = subprocess.Popen(
            [*command, library, url, str(tasks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._read() != "ready":
            raise RuntimeError(f"{command[-1]}: {library} did not start")

    def run(self, seconds: float) -> Speed:
        assert self.process.stdin
        before = self._cpu_seconds()
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        pairs, took = self._read().split()
        return Speed(int(pairs) / float(took), (self._cpu_seconds() - before) * 1e6 / int(pairs))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def _cpu_seconds(self) -> float:
        """Returns the processor time of the process in user mode and in the kernel, including its ended threads.

        Returns 0 on systems other than Linux."""
        if sys.platform != "linux":
            return 0.0
        # This is the clock of clock_getcpuclockid(3) for another process. It has nanoseconds; /proc has only 1/100 s.
        return time.clock_gettime((~self.process.pid << 3) | 2)


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the contenders' name of a library, and the checkout that it was built in."""

    library: str
    checkout: Path = ROOT


@dataclass(frozen=True)
class Comparison:
    """The medians of our speeds, of the other side's, and of the ratios of neighbouring runs."""

    ours: Speed
    other: Speed
    speed_ratio: float
    cpu_ratio: float


def measure(row: Row, sides: tuple[Side, Side], url: str, rounds: int, seconds: float) -> list[tuple[Speed, Speed]]:
    """Starts both sides and measures them in turn. Returns the speeds of each round, ours first."""
    contenders: list[Contender] = []
    try:
        for side in sides:
            contenders.append(Contender(program(row.name, side.checkout), side.library, url, row.tasks))
        for contender in contenders:
            contender.run(max(seconds, 2.0))
        ours, other = contenders
        return [(ours.run(seconds), other.run(seconds)) for _ in range(rounds)]
    finally:
        for contender in contenders:
            contender.stop()


def compare(results: list[tuple[Speed, Speed]]) -> Comparison:
    return Comparison(
        median([ours for ours, _ in results]),
        median([theirs for _, theirs in results]),
        statistics.median(ours.pairs_per_second / theirs.pairs_per_second for ours, theirs in results),
        statistics.median(ours.cpu_micros_per_pair / (theirs.cpu_micros_per_pair or 1.0) for ours, theirs in results),
    )


def median(speeds: list[Speed]) -> Speed:
    return Speed(
        statistics.median(speed.pairs_per_second for speed in speeds),
        statistics.median(speed.cpu_micros_per_pair for speed in speeds),
    )


def sides_of(row: Row, options: argparse.Namespace) -> tuple[Side, Side]:
    if options.metrics:
        return Side(WITH_METRICS), Side(OURS)
    if options.before:
        return Side(OURS), Side(OURS, options.before)
    return Side(OURS), Side(row.peer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--tasks", type=int, help="rows with this number of tasks; with --metrics, 64")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=1, help="how often both are started again")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long one measurement lasts")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--before", type=Path, metavar="CHECKOUT", help="another checkout of this project, instead of other libraries"
    )
    instead.add_argument("--metrics", action="store_true", help="compares with and without metrics")
    options = parser.parse_args()
    tasks = options.tasks or (64 if options.metrics else None)

    console = Console(highlight=False, width=110)
    table = Table(title="lock + unlock pairs per second, each task on a lock of its own; CPU of the client per pair")
    ours = WITH_METRICS if options.metrics else OURS
    # The cost of metrics is too small to show with two digits.
    digits = 3 if options.metrics else 2
    for column in ("language", "tasks", ours, "CPU", "other", "CPU", "", "speed", "CPU"):
        table.add_column(column, justify="left" if column in ("language", "") else "right")
    with redis_server() as url:
        for row in ROWS:
            if options.only not in row.name or tasks not in (None, row.tasks):
                continue
            console.print(f"{row.name}, {row.tasks} …")
            sides = sides_of(row, options)
            other = "no metrics" if options.metrics else "before" if options.before else row.peer
            results = []
            for _ in range(options.starts):
                results += measure(row, sides, url, options.rounds, options.seconds)
            result = compare(results)
            table.add_row(
                row.name,
                str(row.tasks),
                f"{result.ours.pairs_per_second:,.0f}",
                f"{result.ours.cpu_micros_per_pair:.1f} µs",
                f"{result.other.pairs_per_second:,.0f}",
                f"{result.other.cpu_micros_per_pair:.1f} µs",
                other,
                f"{result.speed_ratio:.{digits}f} x",
                f"{result.cpu_ratio:.{digits}f} x",
            )
    console.print(table)


if __name__ == "__main__":
    main()
