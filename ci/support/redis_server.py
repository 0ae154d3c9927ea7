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

# The number of attempts to start a server, each with another port.
ATTEMPTS = 5


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
    with tempfile.TemporaryDirectory() as folder:
        # Another program can take the port after it was found free. The server ends then.
        for _ in range(ATTEMPTS):
            port = free_port()
            command = [server_program(), "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder]
            process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, env=environment)
            try:
                if _is_up(port, process):
                    yield RedisProcess(port, process)
                    return
            finally:
                # SIGKILL, as SIGTERM does not end a process that SIGSTOP has stopped.
                process.kill()
                process.wait()
        raise RuntimeError(f"redis-server has ended {ATTEMPTS} times at its start")


def _is_up(port: int, process: "subprocess.Popen[bytes]") -> bool:
    """Waits until this server answers, and not one of another program that took the port. Returns false if this server
    has ended."""
    deadline = time.monotonic() + 20
    with redis.Redis(port=port, socket_timeout=5) as store:
        while process.poll() is None:
            with contextlib.suppress(redis.RedisError):
                if store.info("server")["process_id"] == process.pid:
                    return True
            if time.monotonic() > deadline:
                raise RuntimeError("redis-server did not start")
            time.sleep(0.02)
    return False
