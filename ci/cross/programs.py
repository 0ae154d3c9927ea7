"""Starts the contenders and communicates with them."""

import atexit
import functools
import http.client
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from redis_server import ATTEMPTS, free_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONTENDERS = HERE / "contenders"
JARS = ROOT / "examples" / "seckill" / "jvm" / "target" / "lib"
LANGUAGES = ["rust", "python-threads", "python-asyncio", "node", "jvm", "web"]
# Seconds that a contender may take to print a line which it prints at once: a JVM starts slowly on a busy machine.
OUTPUT_TIMEOUT = 60.0


def java(tool: str = "java") -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / tool) if home else tool


def program(language: str) -> list[str]:
    """Returns the command that runs a language's contender."""
    return {
        "rust": lambda: [str(ROOT / "target" / "debug" / "steadlock-contender")],
        "python-threads": lambda: [sys.executable, str(CONTENDERS / "threads.py")],
        "python-asyncio": lambda: [sys.executable, str(CONTENDERS / "tasks.py")],
        "node": lambda: ["node", str(CONTENDERS / "node.mjs")],
        "web": lambda: ["node", str(CONTENDERS / "web.mjs")],
        "jvm": lambda: [java(), *JVM_FLAGS, "-cp", f"{JARS}{os.sep}*{os.pathsep}{java_classes()}", "Contender"],
    }[language]()


# Contenders run only for seconds, so a JVM's late optimizations would just keep two cores busy.
JVM_FLAGS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@functools.cache
def java_classes() -> Path:
    """Compiles the Java contender once for all tests, and returns the folder of its classes."""
    folder = Path(tempfile.mkdtemp(prefix="contender-"))
    atexit.register(shutil.rmtree, folder)
    command = [java("javac"), "-cp", f"{JARS}{os.sep}*", "-d", str(folder), str(CONTENDERS / "Contender.java")]
    subprocess.run(command, check=True)
    return folder


@dataclass(frozen=True)
class Server:
    """The URL of the redis-server, and a connection to it."""

    url: str
    store: "redis.Redis"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def time(self) -> float:
        """Returns the time of the server's clock in seconds."""
        seconds, microseconds = self.store.time()
        return float(seconds + microseconds / 1_000_000)

    def subscribers(self, name: str) -> int:
        """Returns the number of connections that listen for releases of a lock."""
        named = self.store.pubsub_channels(f"*{{{name}}}*")
        channels = [channel for channel in named if ":grants:" not in str(channel)]
        return sum(count for _, count in self.store.pubsub_numsub(*channels)) if channels else 0

    def script_calls(self) -> int:
        """Returns the number of script calls since the server's statistics were reset."""
        statistics = self.store.info("commandstats")
        return sum(int(statistics.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in ("evalsha", "eval"))


class Contender:
    """A contender in a child process, which is killed at the end of the context."""

    def __init__(self, language: str, command: str, server: Server, name: str, **options: object) -> None:
        arguments = [
            argument for key, value in options.items() for argument in (f"--{key.replace('_', '-')}", str(value))
        ]
        self.language = language
        self.process = subprocess.Popen(
            [*program(language), command, server.url, name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def expect(self, line: str, within: float = OUTPUT_TIMEOUT) -> None:
        assert self.read(within) == line, f"{self.language} did not print {line!r}"

    def read(self, within: float = OUTPUT_TIMEOUT) -> str:
        try:
            return self._lines.get(timeout=within)
        except queue.Empty:
            raise AssertionError(f"{self.language} printed nothing for {within} s") from None

    def has_printed(self) -> bool:
        return not self._lines.empty()

    def start_round(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def finish(self) -> None:
        assert self.process.wait(timeout=OUTPUT_TIMEOUT) == 0, f"{self.language} failed"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put("")


@contextmanager
def together(contenders: Iterable[Contender]) -> Iterator[list[Contender]]:
    """Waits until all contenders have printed `ready`, yields them, and kills them at the end."""
    started = list(contenders)
    try:
        for contender in started:
            contender.expect("ready")
        yield started
    finally:
        for contender in started:
            contender.kill()


@contextmanager
def listening(command: Callable[[int], list[str]], folder: Path | None = None) -> Iterator[int]:
    """Runs a program that serves HTTP on a port, and yields the port. `command` returns the command for a port.

    Another program can take the port before this one listens. This one ends then, and is started on another port.
    """
    for _ in range(ATTEMPTS):
        port = free_port()
        with subprocess.Popen(command(port), cwd=folder, stdout=subprocess.DEVNULL) as process:
            try:
                if _is_up(process, port):
                    yield port
                    return
            finally:
                process.kill()
    raise AssertionError(f"the program has ended {ATTEMPTS} times at its start")


def _is_up(process: "subprocess.Popen[bytes]", port: int) -> bool:
    """Waits until the program answers. Returns false if it has ended."""
    wait_until("the program listens", lambda: process.poll() is not None or _answers(port))
    return process.poll() is None


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, http.client.HTTPException):
        return False


def start_round(contenders: list[Contender]) -> None:
    for contender in contenders:
        contender.start_round()


def finish(contenders: list[Contender]) -> list[str]:
    """Waits for all contenders, and returns the last line of each."""
    last_lines = [contender.read() for contender in contenders]
    for contender in contenders:
        contender.finish()
    return last_lines


def contend(contenders: Iterable[Contender]) -> list[str]:
    """Starts all contenders together, waits for them, and returns the last line of each."""
    with together(contenders) as ready:
        start_round(ready)
        return finish(ready)


@dataclass(frozen=True)
class Turns:
    """The result of a contender's `turns`: the seconds for which it held the lock, and the grants of each worker."""

    held: float
    grants: list[int]


def turns(line: str) -> Turns:
    held_ms, *grants = map(int, line.split())
    return Turns(held_ms / 1000, grants)


def wait_until(what: str, condition: Callable[[], object], within: float = OUTPUT_TIMEOUT) -> None:
    """Polls until the condition is true."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.005)


def wait_until_queued(store: redis.Redis, name: str, count: int, newest: Contender | None = None) -> None:
    """Waits until the queue of a fair lock has `count` waiters. Fails if the newest contender prints a line instead."""
    queue = f"steadlock:{{{name}}}:fair"
    wait_until(f"{count} are queued", lambda: store.zcard(queue) == count or (newest and newest.has_printed()))
    assert not newest or not newest.has_printed(), f"{newest.language} does not wait"
