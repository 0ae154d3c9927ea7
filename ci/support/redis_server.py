"""Starts a redis-server for tests and benchmarks. The server uses a free port and saves nothing."""

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
    """Returns the path of the server that ci/support/server has under this name, or under `STEADLOCK_TEST_SERVER`."""
    command = [str(Path(__file__).with_name("server")), *([name] if name else [])]
    return subprocess.check_output(command, text=True).strip()


def free_port() -> int:
    """Returns a free port below 32000. Systems give higher ports to outgoing connections, and such a connection could
    use the port before the server starts."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Starts a server and yields its URL once the server answers."""
    with redis_process() as server:
        yield server.url


@contextlib.contextmanager
def redis_process(*options: str, environment: Mapping[str, str] | None = None) -> Iterator[RedisProcess]:
    """Starts a server and yields it once the server answers.

    The caller may stop or kill the server (SIGSTOP, SIGKILL). Without `environment`, the server inherits ours."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [server_program(), "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder, *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        try:
            _wait_until_up(port)
            yield RedisProcess(port, process)
        finally:
            # SIGKILL, as SIGTERM does not end a process that SIGSTOP has stopped.
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
