"""What happens to clients when the process forks, and when it ends."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Iterable
from typing import Protocol

from steadlock import _context, _log, _native

EXIT_LIMIT_MS = 500
"""How long the end of the process may be held up, whatever the server does."""


LEAST_ASKING_LIMIT_MS = 100
"""How long the end waits at least for those who just start a thread for an address map; mostly microseconds."""


class Connection(Protocol):
    """What a fork and the end ask of the connection of a client."""

    def after_fork(self) -> None: ...
    def stop(self) -> None: ...
    def owners_have_ended(self, numbers: list[int]) -> None: ...
    def stranded(self) -> tuple[_native.Client, list[int]]:
        """The locks that are held by owners that cannot run any more."""
        ...


def register(connection: Connection) -> None:
    """Takes care of the connection until it is collected."""
    _connections[id(connection)] = connection


def keep_until_exit(native: _native.Client, leases: list[int]) -> None:
    """Goes on holding what a collected client held: collection never frees a lock."""
    _abandoned.append((native, leases))


def _after_fork() -> None:
    _abandoned.clear()
    for connection in _living():
        connection.after_fork()


def _at_exit() -> None:
    """Ends the log, and releases the locks whose owner cannot run any more. Other threads have been joined."""
    deadline = time.monotonic() + EXIT_LIMIT_MS / 1000
    connections = _living()
    for connection in connections:
        connection.stop()
    _log.end(deadline - time.monotonic())
    _release([*(connection.stranded() for connection in connections), *_abandoned], deadline)
    # Last: a lost connection may be needed for the above.
    _native.ask_no_more(max(LEAST_ASKING_LIMIT_MS, _left_ms(deadline)))


def _owners_have_ended(numbers: list[int]) -> None:
    """Runs anywhere: in the midst of a garbage collection, at the end of a thread."""
    for connection in _living():
        connection.owners_have_ended(numbers)


def _living() -> list[Connection]:
    return [connection for known in _connections.valuerefs() if (connection := known()) is not None]


def _release(stranded: Iterable[tuple[_native.Client, list[int]]], deadline: float) -> None:
    work = [(native, leases) for native, leases in stranded if leases]
    if len(work) > 1:
        # So that one dead server does not use up the time of the others.
        for native, leases in work:
            for lease in leases:
                native.release_later(lease)
    for native, leases in work:
        native.release_all(leases, _left_ms(deadline))


def _left_ms(deadline: float) -> int:
    return max(0, int((deadline - time.monotonic()) * 1000))


_connections: weakref.WeakValueDictionary[int, Connection] = weakref.WeakValueDictionary()
_abandoned: list[tuple[_native.Client, list[int]]] = []

_context.tell_ended(_owners_have_ended)
os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
