"""What happens to clients when the process forks, and when it ends."""

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
"""How long the end of the process may be held up, whatever the server does."""

LEAVING_LIMIT_MS = 200
"""How long the end waits for threads that wait; each looks up every 100 ms."""


LEAST_ASKING_LIMIT_MS = 100
"""How long the end waits at least for those who just start a thread for an address map; mostly microseconds."""


class Connection(Protocol):
    """What a fork and the end ask of the connection of a client."""

    def after_fork(self) -> None: ...
    def stop(self) -> None: ...
    def owners_have_ended(self, numbers: list[int | None]) -> None: ...
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
    _native.has_forked()
    _abandoned.clear()
    for connection in _living():
        connection.after_fork()
    _heed_children()
    _heed_end_of_celery_worker()


def _at_exit() -> None:
    """Ends the log and all waits, and releases the locks whose owner cannot run any more. Other threads have been
    joined, but for daemons: those that wait are granted nothing from now on, and end by `SystemExit`."""
    deadline = time.monotonic() + EXIT_LIMIT_MS / 1000
    _native.grant_no_more(LEAVING_LIMIT_MS)
    connections = _living()
    for connection in connections:
        connection.stop()
    _log.end(deadline - time.monotonic())
    _release([*(connection.stranded() for connection in connections), *_abandoned], deadline)
    # Last: a lost connection may be needed for the above.
    _native.ask_no_more(max(LEAST_ASKING_LIMIT_MS, _left_ms(deadline)))


def _owners_have_ended(numbers: list[int | None]) -> None:
    """Runs anywhere: in the midst of a garbage collection, at the end of a thread."""
    for connection in _living():
        connection.owners_have_ended(numbers)


def _living() -> list[Connection]:
    return [connection for known in _connections.valuerefs() if (connection := known()) is not None]


def _release(stranded: Iterable[tuple[_native.Client, list[int]]], deadline: float) -> None:
    work = list(stranded)
    if len(work) > 1:
        # So that one dead server does not use up the time of the others.
        for native, leases in work:
            native.end_waits(leases)
    for native, leases in work:
        native.release_all(leases, _left_ms(deadline), True)


def _at_end_of_child() -> None:
    """A child of multiprocessing ends with `os._exit`, which calls no `atexit`. Threads that are no daemons are
    joined after this."""
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if all(thread.daemon for thread in others):
        _at_exit()
    else:
        _release_stranded()


def _at_end_of_celery_worker(*_: object, **_named: object) -> None:
    """A process of Celery's prefork pool ends with `os._exit`, too, and calls no finalizers of multiprocessing. Later
    handlers of its signal may still use locks."""
    _release_stranded()


def _release_stranded() -> None:
    deadline = time.monotonic() + EXIT_LIMIT_MS / 1000
    for connection in _living():
        native, leases = connection.stranded()
        if leases:
            native.release_all(leases, _left_ms(deadline), False)


def _heed_end_of_celery_worker() -> None:
    """In a process that was forked just now: has Celery call us at its end. Nothing here imports Celery."""
    ending = getattr(sys.modules.get("celery.signals"), "worker_process_shutdown", None)
    if ending is not None:
        ending.connect(_at_end_of_celery_worker, weak=False, dispatch_uid="steadlock")


def _heed_children() -> None:
    """Has multiprocessing call us at the end of a child process. A program that does not use it need not load it."""
    global _heeds_children
    util: Any = sys.modules.get("multiprocessing.util")
    # Another thread may be just about to load it.
    if _heeds_children or not hasattr(util, "register_after_fork") or not hasattr(util, "Finalize"):
        return
    _heeds_children = True
    # A child forgets what is to be done at its parent's end, and then calls these.
    util.register_after_fork(_heed_end_of_child, _heed_end_of_child)
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _heed_end_of_child()


def _heed_end_of_child(_: object = None) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, _at_end_of_child, exitpriority=_LAST)


def _left_ms(deadline: float) -> int:
    return max(0, int((deadline - time.monotonic()) * 1000))


_connections: weakref.WeakValueDictionary[int, Connection] = weakref.WeakValueDictionary()
_abandoned: list[tuple[_native.Client, list[int]]] = []

_heeds_children = False
_LAST = -100
"""After all finalizers of multiprocessing itself, which join its queues and processes."""

_context.tell_ended(_owners_have_ended)
os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
_heed_children()
