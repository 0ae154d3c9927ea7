"""Starts the server processes of a rig, checks them while they start, and stops all of them at the end."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from certificates import Certificates

HOST = "127.0.0.1"
LOG_LINES = 15


class StopRequestedError(Exception):
    """A request to end the command: a signal, the end of stdin, or the end of the parent."""


class NotStartedError(Exception):
    """A rig did not start. The text is for the user of the command."""


class PortTakenError(NotStartedError):
    """Another program took a port between our check and the server's start. Another attempt can use other ports."""


@dataclass(frozen=True)
class Server:
    """One server process, and a connection to it."""

    port: int
    log: Path
    process: "subprocess.Popen[bytes]"
    store: "redis.Redis"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def run(self, *command: str | int) -> Any:
        return self.store.execute_command(*command)  # type: ignore[no-untyped-call]

    def answers(self) -> bool:
        """Whether this server answers on its port, and not the server of another program that took the port."""
        known: dict[str, Any] = self.run("INFO", "server")
        return bool(known["process_id"] == self.process.pid)


@dataclass
class Servers:
    """Starts servers of one program, each in a separate folder, and stops all of them at the end of the context."""

    program: str
    folder: Path
    certificates: Certificates | None = None
    # Returns whether the command was asked to end. `wait_until` checks it, so no server start is interrupted halfway.
    is_stop_requested: Callable[[], bool] = lambda: False
    running: list[Server] = field(default_factory=list)

    def start(self, port: int, *options: str) -> Server:
        """Starts a server that saves nothing. The server may not answer yet: see `wait_until`."""
        return self._start(port, [*self._listen(port), "--save", "", "--appendonly", "no", *options])

    def start_sentinel(self, port: int, *lines: str) -> Server:
        """Starts a sentinel. A sentinel needs a settings file that it can write to."""
        settings = self._folder(port) / "sentinel.conf"
        settings.write_text("\n".join([*lines, ""]))
        # This option also makes a sentinel use TLS for its own connections.
        tls = ["--tls-replication", "yes"] if self.certificates else []
        return self._start(port, ["--sentinel", *self._listen(port), *tls], settings)

    def wait_until(self, condition: Callable[[], bool], what: str, within: float = 60) -> None:
        """Waits until the condition is true. An error of a server that cannot answer yet counts as false.

        Raises `NotStartedError` after `within` seconds, or with the log of a server that died."""
        deadline = time.monotonic() + within
        while True:
            reason = "not yet"
            if self.is_stop_requested():
                raise StopRequestedError
            try:
                if condition():
                    return
            except redis.RedisError as error:
                reason = str(error)
            for server in self.running:
                if server.process.poll() is not None:
                    raise died(server)
            if time.monotonic() > deadline:
                raise NotStartedError(f"waited {within:.0f} s, but {what} did not happen: {reason}")
            time.sleep(0.05)

    def wait_until_all_answer(self) -> None:
        for server in self.running:
            self.wait_until(server.answers, f"an answer of the server on port {server.port}")

    def stop(self) -> None:
        for server in self.running:
            # SIGKILL, as SIGTERM does not end a process that SIGSTOP has stopped.
            server.process.kill()
        for server in self.running:
            server.process.wait()
            server.store.close()

    def _start(self, port: int, options: Sequence[str], settings: Path | None = None) -> Server:
        folder = self._folder(port)
        log = folder / "log"
        command = [self.program, *([str(settings)] if settings else []), "--bind", HOST, "--dir", str(folder), *options]
        with log.open("wb") as written:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                # A separate process group, so that Ctrl-C in a terminal reaches the command only.
                process_group=0,
                preexec_fn=ends_with_this_process(),
            )
        server = Server(port, log, process, self._connection(port))
        self.running.append(server)
        return server

    def _listen(self, port: int) -> list[str]:
        return self.certificates.listen(port) if self.certificates else ["--port", str(port)]

    def _connection(self, port: int) -> "redis.Redis":
        authority = str(self.certificates.authority) if self.certificates else None
        return redis.Redis(
            host=HOST,
            port=port,
            decode_responses=True,
            socket_timeout=10,
            ssl=authority is not None,
            ssl_ca_certs=authority,
        )

    def _folder(self, port: int) -> Path:
        folder = self.folder / str(port)
        folder.mkdir(exist_ok=True)
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def died(server: Server) -> NotStartedError:
    lines = server.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    text = "\n".join(f"  {line}" for line in lines)
    kind = PortTakenError if "Address already in use" in text else NotStartedError
    status = server.process.returncode
    return kind(f"the server on port {server.port} ended with status {status}. Its log ends with:\n{text}")


def ends_with_this_process() -> Callable[[], None] | None:
    """Returns a function that the child runs first, so that the kernel kills the child when this process ends.

    None if this is not Linux.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have ended before the call of prctl.
        if os.getppid() != parent:
            os._exit(1)

    return bind


PR_SET_PDEATHSIG = 1
