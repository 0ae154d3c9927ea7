"""Shows the use of a fencing token: a stopped worker writes late, once without a token and once with one.

The exit status is 0 if the late write did damage without the token and was refused with it, and otherwise 1.
"""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEADLOCK = HERE.parent.parent / "target" / "release" / "steadlock"
START, A_ADDS, B_ADDS = 100, 10, 25
TIMEOUT = 60.0

Report = Callable[[str], object]


@contextlib.contextmanager
def embedded_server() -> Iterator[str]:
    """Runs `steadlock serve` while the context is open, and yields its URL."""
    if not STEADLOCK.exists():
        raise SystemExit("the steadlock command is not built: run ./ci/just demo-fencing")
    command = [str(STEADLOCK), "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


class Worker:
    """A worker in a child process. `report` receives each line of its output."""

    def __init__(self, name: str, url: str, database: Path, amount: int, options: list[str], report: Report) -> None:
        command = [sys.executable, str(HERE / "worker.py"), url, str(database), str(amount), *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.has_printed = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(name, report))
        self.reader.start()

    def _read(self, name: str, report: Report) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            report(f"{name} {line.strip()}")
            self.has_printed.set()

    def finish(self) -> None:
        """Waits until the worker has ended."""
        assert self.process.stdin
        self.process.stdin.close()
        status = self.process.wait(TIMEOUT)
        self.reader.join()
        if status:
            raise RuntimeError(f"a worker ended with status {status}")

    def stop(self) -> None:
        """Kills the worker."""
        self.process.kill()
        self.process.wait()
        self.reader.join()


def play(url: str, fenced: bool, report: Report) -> int:
    """Runs both workers on a new account, and returns the balance at the end."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as workers:
        database = Path(folder) / "account"
        with contextlib.closing(sqlite3.connect(database)) as account:
            account.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER)")
            account.execute("INSERT INTO account VALUES (7, ?, 0)", (START,))
            account.commit()

            options = ["--fenced"] if fenced else []
            a = Worker("A", url, database, A_ADDS, [*options, "--hold-back"], report)
            workers.callback(a.stop)
            if not a.has_printed.wait(TIMEOUT):
                raise RuntimeError("worker A did not get the lock")
            os.kill(a.process.pid, signal.SIGSTOP)
            report("A is stopped")

            b = Worker("B", url, database, B_ADDS, options, report)
            workers.callback(b.stop)
            b.finish()

            report("A continues")
            os.kill(a.process.pid, signal.SIGCONT)
            a.finish()
            (balance,) = account.execute("SELECT balance FROM account").fetchone()
            return int(balance)


def main() -> int:
    balances = []
    for fenced in (False, True):
        print("with the token" if fenced else "without a fencing token", flush=True)
        started = time.monotonic()

        def report(line: str, started: float = started) -> None:
            print(f"  {time.monotonic() - started:4.1f} s  {line}", flush=True)

        with embedded_server() as url:
            balances.append(play(url, fenced, report))
        missing = START + A_ADDS + B_ADDS - balances[-1]
        result = f"{missing} are lost" if missing else "nothing is lost"
        print(f"  {START} and {A_ADDS} and {B_ADDS} came to {balances[-1]}: {result}\n")
    return 0 if balances == [START + A_ADDS, START + A_ADDS + B_ADDS] else 1


if __name__ == "__main__":
    sys.exit(main())
