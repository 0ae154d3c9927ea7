"""The handling of clients when the process forks, and when it ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from steadlock import _context, _log, _native

EXIT_LIMIT_MS = 500
"""How long clients can delay the end of the process, even if the server does not answer. A call of an address map can
add `MIN_ADDRESS_MAP_LIMIT_MS`.
"""

WAITERS_EXIT_LIMIT_MS = 200
"""How long the end of the process waits at most for threads that wait for a lock. Each checks at least every 100 ms
whether it must end.
"""


MIN_ADDRESS_MAP_LIMIT_MS = 100
"""The lowest limit on the wait for a call that starts a thread for an address map, at the end of the process. Such a
call usually takes microseconds.
"""


class Connection(Protocol):
    """A client's connection, as far as a fork and the end of the process use it."""

    def after_fork(self) -> None: ...
    def stop(self) -> None: ...
    def owners_have_ended(self, numbers: list[int | None]) -> None: ...
    def leases_without_owner(self) -> tuple[_native.Client, list[int]]:
        """Returns the core's client, and its valid leases whose owners cannot run any more."""
        ...


def register(connection: Connection) -> None:
    """Handles the connection at a fork and at the end of the process, as long as the connection exists."""
    _connections[id(connection)] = connection


def release_at_exit(native: _native.Client, leases: list[int]) -> None:
    """Keeps the leases of a dropped client, and releases them at the end of the process. The drop itself must not
    release a lock.
    """
    _abandoned.append((native, leases))


def _after_fork() -> None:
    _native.has_forked()
    _abandoned.clear()
    for connection in _live_connections():
        connection.after_fork()
    _register_with_multiprocessing()
    _register_with_celery()


def _at_exit() -> None:
    """Ends all waits and the log, and releases the locks whose owners cannot run any more. All other threads have been
    joined, except daemon threads. Daemon threads that wait for a lock get none from now on, and end by `SystemExit`.
    """
    deadline = time.monotonic() + EXIT_LIMIT_MS / 1000
    _native.grant_no_more(WAITERS_EXIT_LIMIT_MS)
    connections = _live_connections()
    for connection in connections:
        connection.stop()
    _log.end(deadline - time.monotonic())
    _release([*(connection.leases_without_owner() for connection in connections), *_abandoned], deadline)
    # Must be last: the releases above can need a new connection, and with it the address map.
    _native.ask_no_more(max(MIN_ADDRESS_MAP_LIMIT_MS, _remaining_ms(deadline)))


def _owners_have_ended(numbers: list[int | None]) -> None:
    """Reports ended owners to all clients. Can run during a garbage collection, or at the end of a thread."""
    for connection in _live_connections():
        connection.owners_have_ended(numbers)


def _live_connections() -> list[Connection]:
    return [connection for known in _connections.valuerefs() if (connection := known()) is not None]


def _release(leases_by_client: Iterable[tuple[_native.Client, list[int]]], deadline: float) -> None:
    work = list(leases_by_client)
    if len(work) > 1:
        # First, all clients send their releases. Otherwise a dead server of one client could use up the time of the
        # others.
        for native, leases in work:
            native.end_waits(leases)
    for native, leases in work:
        native.release_all(leases, _remaining_ms(deadline), True)


def _at_child_exit() -> None:
    """Called at the end of a child of multiprocessing, because such a child ends with `os._exit`, which runs no
    `atexit` function. Non-daemon threads are joined after this call.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if all(thread.daemon for thread in others):
        _at_exit()
    else:
        _release_leases_without_owner()


def _at_celery_worker_exit(*_: object, **_named: object) -> None:
    """Called at the end of a process of Celery's prefork pool, because such a process ends with `os._exit` too, and
    runs no finalizers of multiprocessing. Handlers of the same signal that run later can still use locks.
    """
    _release_leases_without_owner()


def _release_leases_without_owner() -> None:
    deadline = time.monotonic() + EXIT_LIMIT_MS / 1000
    for connection in _live_connections():
        native, leases = connection.leases_without_owner()
        if leases:
            native.release_all(leases, _remaining_ms(deadline), False)


def _register_with_celery() -> None:
    """Registers the end of this process with Celery. Called in a process that was just forked. Nothing here imports
    Celery.
    """
    ending = getattr(sys.modules.get("celery.signals"), "worker_process_shutdown", None)
    if ending is not None:
        ending.connect(_at_celery_worker_exit, weak=False, dispatch_uid="steadlock")


def _register_with_multiprocessing() -> None:
    """Registers the end of child processes with multiprocessing, if the program has loaded it."""
    global _is_registered
    util: Any = sys.modules.get("multiprocessing.util")
    # Another thread can be loading the module at this moment.
    if _is_registered or not hasattr(util, "register_after_fork") or not hasattr(util, "Finalize"):
        return
    _is_registered = True
    # In a child, multiprocessing clears the finalizers of the parent, and then runs these functions.
    util.register_after_fork(_register_child_exit, _register_child_exit)
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _register_child_exit()


def _register_child_exit(_: object = None) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, _at_child_exit, exitpriority=_FINALIZER_PRIORITY)


def _remaining_ms(deadline: float) -> int:
    return max(0, int((deadline - time.monotonic()) * 1000))


_connections: weakref.WeakValueDictionary[int, Connection] = weakref.WeakValueDictionary()
_abandoned: list[tuple[_native.Client, list[int]]] = []

_is_registered = False
_FINALIZER_PRIORITY = -100
"""The priority of our finalizer: after those of multiprocessing itself, which join its queues and processes."""

_context.set_end_listener(_owners_have_ended)
os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
_register_with_multiprocessing()
