"""A redis-server for tests and benchmarks: on a free port, with nothing saved, stopped at the end."""

import contextlib
import functools
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import redis


@dataclass(frozen=True)
class RedisProcess:
    """A redis-server, its port and its process."""

    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"


@functools.cache
def server_program(name: str | None = None) -> str:
    """The server that ci/support/server has by this name, or by `STEADLOCK_TEST_SERVER`."""
    command = [str(Path(__file__).with_name("server")), *([name] if name else [])]
    return subprocess.check_output(command, text=True).strip()


def free_port() -> int:
    """None of those that systems give to outgoing connections: one of these might take it before the server starts."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Yields its URL once it answers."""
    with redis_process() as server:
        yield server.url


@contextlib.contextmanager
def redis_process(*options: str, environment: Mapping[str, str] | None = None) -> Iterator[RedisProcess]:
    """Yields the server once it answers. It may be stopped or dead at the end. Its environment is ours unless given."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [server_program(), "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder, *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        try:
            _wait_until_up(port)
            yield RedisProcess(port, process)
        finally:
            # Unlike SIGTERM this also ends a server that is stopped.
            process.kill()
            process.wait()


def _wait_until_up(port: int) -> None:
    deadline = time.monotonic() + 10
    with redis.Redis(port=port) as store:
        while True:
            try:
                store.ping()
                return
            except redis.ConnectionError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError("redis-server did not start") from error
                time.sleep(0.02)
