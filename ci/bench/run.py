"""Lock + unlock pairs per second, side by side with other lock libraries. See README.md."""

import argparse
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from redis_server import redis_server  # noqa: E402  (found by the line above)


@dataclass(frozen=True)
class Row:
    """Two libraries and how many threads or tasks use them."""

    name: str
    peer: str
    program: list[str]
    tasks: int


def rows() -> list[Row]:
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else "java"
    target = HERE / "jvm" / "target"
    python_threads = [sys.executable, str(HERE / "contenders" / "threads.py")]
    python_tasks = [sys.executable, str(HERE / "contenders" / "tasks.py")]
    node = ["node", str(HERE / "node" / "tasks.mjs")]
    jvm = [java, "-cp", f"{target / 'classes'}{os.pathsep}{target / 'lib'}{os.sep}*", "Threads"]
    return [
        Row("python threads", "redis-py", python_threads, 1),
        Row("python threads", "redis-py", python_threads, 64),
        Row("python asyncio", "redis-py", python_tasks, 64),
        Row("node", "redis-semaphore", node, 1),
        Row("node", "redis-semaphore", node, 64),
        Row("jvm threads", "redisson", jvm, 1),
        Row("jvm threads", "redisson", jvm, 64),
    ]


class Contender:
    """One library in a process of its own, connected and waiting for its turn."""

    def __init__(self, row: Row, library: str, url: str) -> None:
        self.process = subprocess.Popen(
            [*row.program, library, url, str(row.tasks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._read() != "ready":
            raise RuntimeError(f"{row.name}: {library} did not start")

    def pairs_per_second(self, seconds: float) -> float:
        assert self.process.stdin
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        pairs, took = self._read().split()
        return int(pairs) / float(took)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()


def measure(row: Row, url: str, rounds: int, seconds: float) -> tuple[float, float, float]:
    """The medians of ours, of theirs, and of the ratio of neighbouring runs."""
    ours = theirs = None
    try:
        ours, theirs = Contender(row, "leasehold", url), Contender(row, row.peer, url)
        for contender in (ours, theirs):
            contender.pairs_per_second(max(seconds, 2.0))
        results = [(ours.pairs_per_second(seconds), theirs.pairs_per_second(seconds)) for _ in range(rounds)]
    finally:
        for contender in (ours, theirs):
            if contender:
                contender.stop()
    return (
        statistics.median(mine for mine, _ in results),
        statistics.median(other for _, other in results),
        statistics.median(mine / other for mine, other in results),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long one measurement lasts")
    options = parser.parse_args()

    console = Console(highlight=False)
    table = Table(title="lock + unlock pairs per second, each task on a lock of its own")
    for column in ("language", "tasks", "leasehold", "other", "", "ratio"):
        table.add_column(column, justify="left" if column in ("language", "") else "right")
    with redis_server() as url:
        for row in rows():
            if options.only not in row.name:
                continue
            console.print(f"{row.name}, {row.tasks} …")
            ours, theirs, ratio = measure(row, url, options.rounds, options.seconds)
            table.add_row(row.name, str(row.tasks), f"{ours:,.0f}", f"{theirs:,.0f}", row.peer, f"{ratio:.2f} x")
    console.print(table)


if __name__ == "__main__":
    main()
