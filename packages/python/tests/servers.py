"""Servers for tests: a redis-server on a free port, without persistence, that tests can stop and pause."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import redis

if TYPE_CHECKING:
    import steadlock


@functools.cache
def server_program() -> str:
    """Returns the server program for the tests. ci/support/server chooses it by `STEADLOCK_TEST_SERVER`."""
    script = Path(__file__).parents[3] / "ci" / "support" / "server"
    return subprocess.check_output([str(script)], text=True).strip()


BUS = 10_000
"""A cluster node uses its port plus this number for the connections to other nodes."""
ATTEMPTS = 5
"""The number of attempts to start a server, each with another port."""


def free_port() -> int:
    """Returns a port that is free, as is the bus port of a cluster node there. Both are outside the range from which
    systems choose ports of outgoing connections: one of these could occupy it before the server starts.
    """
    return _free_port_of(range(10_000, 22_000), BUS)


def unused_port() -> int:
    """Returns a port without a listener, outside the range in which other tests start servers."""
    return _free_port_of(range(2_000, 9_000))


def _free_port_of(ports: range, *further: int) -> int:
    """Returns a port that is free, as are the ports at these distances above it."""
    while True:
        port = random.choice(ports)
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for distance in (0, *further):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port + distance))
            return port


class RedisServer:
    """A redis-server that runs during a `with` block. A test can pause it, kill it and start it again meanwhile."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None
        self._choose_port()

    def start(self) -> None:
        assert self._is_started(), f"redis-server has ended: {self._log.read_text()}"

    def _choose_port(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"

    @property
    def _log(self) -> Path:
        return Path(self._folder.name) / "log"

    def _is_started(self) -> bool:
        """Starts the server and waits until it accepts connections. Returns false if it has ended."""
        command = [server_program(), "--port", str(self.port), "--save", "", "--appendonly", "no"]
        command += ["--dir", self._folder.name, *self._options]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log)
        deadline = time.monotonic() + 20
        # Reads the log, because a connection can lead to another program that took the port.
        while b"Ready to accept connections" not in self._log.read_bytes():
            if self._process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"redis-server did not start: {self._log.read_text()}"
            time.sleep(0.01)
        return True

    def kill(self) -> None:
        """Kills the server. The port then refuses connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the process during the block: the server still accepts connections, but does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # The process can run for a moment after the signal was sent.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        for _ in range(ATTEMPTS - 1):
            if self._is_started():
                return self
            # Another program can have taken the port after it was found free.
            self._choose_port()
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()


@contextlib.contextmanager
def development_server() -> Iterator[str]:
    """Runs `steadlock serve`, and yields its URL."""
    command = Path(__file__).parents[3] / "target" / "release" / "steadlock"
    assert command.exists(), f"{command} is missing; build it by `just build-cli`"
    process = subprocess.Popen(
        [command, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


Store = redis.Redis
"""An ordinary client, with which tests read and change the data on the server."""


def store_of(server: RedisServer) -> Store:
    return redis.Redis(port=server.port, decode_responses=True)


def script_calls(store: Store) -> int:
    """Returns how many script calls the server has run."""
    stats = store.info("commandstats")
    assert isinstance(stats, dict)
    return sum(int(stats.get(name, {"calls": 0})["calls"]) for name in ("cmdstat_evalsha", "cmdstat_eval"))


def until_refused(client: steadlock.Client) -> None:
    """Waits until a caller waits for a lock and its first attempt was refused. The client must have metrics."""
    waiting = re.compile(r"^steadlock_waiting{.*} [1-9]", re.MULTILINE)
    eventually(20, lambda: waiting.search(client.metrics()))
    # The server answers a client's calls in order, so this reply comes after the refusal.
    client.lock("another").locked()


def eventually(seconds: float, condition: Callable[[], object]) -> float:
    """Waits until the condition holds, and returns how long that took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"not within {seconds} s"
        time.sleep(0.002)
    return time.monotonic() - started
