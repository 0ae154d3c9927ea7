"""The commands that a redis-server runs, in its order, as MONITOR prints them. Commands of scripts are among them."""

import re
import socket
import threading
import uuid
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import redis

_LINE = re.compile(rb"\+(\d+\.\d+) \[\d+ (\S+)\] (.*)")
_ARGUMENT = re.compile(rb'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Command:
    """A command: when the server ran it, in seconds of the server's clock; whether a script ran it; its arguments."""

    at: float
    by_script: bool
    arguments: tuple[str, ...]


class Monitor:
    """Records the commands of a server in a separate thread, while the context is open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._received = bytearray()
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        self._socket = socket.create_connection(("127.0.0.1", self._port))
        self._socket.sendall(b"MONITOR\r\n")
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        with self._changed:
            assert self._changed.wait_for(lambda: self._received.startswith(b"+OK\r\n"), timeout=5)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def commands(self) -> list[Command]:
        """Returns every command that the server has run since the context was entered."""
        end = f"end of {uuid.uuid4()}"
        with redis.Redis(port=self._port) as store:
            store.echo(end)
        with self._changed:
            assert self._changed.wait_for(lambda: self._received.find(end.encode()) >= 0, timeout=20)
            lines = bytes(self._received).split(b"\r\n")
        return [_command(match) for match in map(_LINE.match, lines) if match]

    def _listen(self) -> None:
        while chunk := self._socket.recv(1 << 16):
            with self._changed:
                self._received += chunk
                self._changed.notify_all()


def _command(match: re.Match[bytes]) -> Command:
    arguments = (argument.decode(errors="replace") for argument in _ARGUMENT.findall(match[3]))
    return Command(float(match[1]), match[2] == b"lua", tuple(arguments))
