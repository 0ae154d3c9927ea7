"""Measures a server's time for commands that are sent in one pipeline."""

import socket
from collections.abc import Sequence

import redis

Arguments = Sequence[str | bytes]


class Meter:
    """Sends many commands at once, and measures the time that the server spends on them."""

    def __init__(self, port: int) -> None:
        self._store = redis.Redis(port=port)
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    @property
    def version(self) -> str:
        info = self._store.info("server")
        return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"

    def load(self, script: str) -> str:
        return str(self._store.script_load(script))

    def count(self, keys: Sequence[str]) -> int:
        return int(self._store.exists(*keys))

    def microseconds(self, commands: Sequence[Arguments]) -> tuple[float, list[object]]:
        """Returns the server's average time for one of these commands, and their replies. All must have the same name.

        The row of EVALSHA in INFO includes the time of the commands that scripts call. The rows of these commands are
        not added.
        """
        name = str(commands[0][0]).lower()
        before = self._server_time(name)
        self._socket.sendall(b"".join(map(_encoded, commands)))
        replies = [self._reply() for _ in commands]
        return (self._server_time(name) - before) / len(commands), replies

    def _server_time(self, name: str) -> int:
        return int(self._store.info("commandstats").get(f"cmdstat_{name}", {"usec": 0})["usec"])

    def _reply(self) -> object:
        line = self._replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self._replies.read(int(rest) + 2)[:-2].decode()
        return int(rest) if kind == b":" else rest.decode()


def _encoded(command: Arguments) -> bytes:
    plain = [word.encode() if isinstance(word, str) else word for word in command]
    return b"*%d\r\n" % len(plain) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in plain)
