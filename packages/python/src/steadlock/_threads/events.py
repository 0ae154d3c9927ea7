"""How what has happened comes from the engine: lost leases, what greenlets wait for, and the log."""

from __future__ import annotations

import contextlib
import select
import sys
from collections import deque
from collections.abc import Callable
from itertools import starmap
from typing import Generic, TypeVar

from steadlock import _log, _native
from steadlock._background import Background
from steadlock._context import running_hub, threads_are_greenlets
from steadlock._descriptor import LOOK, Descriptor
from steadlock._endings import LostReason
from steadlock._handing_on import first, take_out
from steadlock._reports import report
from steadlock._threads.greenlets import Waits
from steadlock._watchlist import Watched, Watchlist

L = TypeVar("L", bound=Watched)
UNHEARD_LIMIT = 100
"""After how many calls without a thread and without a hub it is looked whether anything has happened."""


class Events(Generic[L]):
    """Passes a client's losses on, in a daemon thread that starts when somebody listens: a lease, or a log.

    The thread waits in `poll` on a file descriptor: it holds no lock and no native
    frame there, so that it may be cut off at the end of the process. Nor does anything else here hold a lock:
    signal handlers, finalizers and callbacks come back to any of it, and may wait for another thread that is here.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._thread = Background(self._run, "steadlock-events")
        self._stopped = False
        self._taken: deque[tuple[list[_native.Completed], list[tuple[int, LostReason]], list[_native.Line]]] = deque()
        self._level = _log.Level(native)
        # Nobody reads the log, and the client is told when somebody does.
        self._is_unread = False
        self._unheard = 0
        self._is_inherited = False
        self.waits = Waits(native, self._hear)
        """Those of greenlets, whose results come with the losses."""

    def watch(self, lease: L) -> None:
        """Tells the lease when it is lost."""
        self._watched.add(lease)
        self._start()

    def watch_for_log(self) -> None:
        """What happens from now on is told when it happens, if anybody reads the log or measures the client.

        A greenlet starts no thread, as that may switch greenlets: it is told of when one next waits.
        """
        is_measured = self._watched.telemetry is not None
        if self._thread.has_begun() or (self._is_unread and not is_measured):
            return
        if running_hub() is None and not threads_are_greenlets():
            if self._level.follow() or is_measured:
                # At the end of the process no thread can be started any more, and nobody reads its log.
                with contextlib.suppress(RuntimeError):
                    self._start()
            else:
                self._is_unread = True
                _log.tell_of_reader(self)
            return
        self._level.follow()
        self._unheard += 1
        if self._unheard % UNHEARD_LIMIT == 0:
            self.drop_unheard()

    def drop_unheard(self) -> None:
        """Drops what nobody listens to, so that it does not pile up."""
        if not self._thread.has_begun() and not self._watched:
            self.deliver()

    def log_is_read(self) -> None:
        """Somebody reads the log that nobody read."""
        self._is_unread = False
        self.watch_for_log()

    def deliver(self) -> None:
        """Passes on what has happened, in the calling thread."""
        self._hand_on(_tell)
        self._watched.catch_up()
        _log.catch_up()

    def _start(self) -> None:
        if not self._stopped:
            self._thread.begin()

    def stop(self) -> None:
        """Ends the thread. It is waited for a moment only, as it may run a callback."""
        self._stopped = True
        if self._thread.has_begun():
            self._native.ring()
            self._thread.join(0.1)

    def leave_to_parent(self) -> None:
        """In the child of a fork, where greenlets go on: what comes is no business of theirs."""
        self._is_inherited = True
        self.waits.stop_listening()

    def _hand_on(self, tell: Callable[[L], object]) -> None:
        """Hands on what has happened: to greenlets, to the log, and to lost leases by `tell`.

        What was taken from the engine waits here until it was handed on, so that an interrupt loses nothing. A signal
        handler that comes here meanwhile, and another thread, hand on the same.
        """
        if self._is_inherited:
            return
        try:
            # One step, in which nothing strikes.
            self._taken.extend(starmap(self._native.drain, [()]))
            while (batch := first(self._taken)) is not None:
                completed, lost, lines = batch
                self.waits.answer(completed)
                # Before the losses, as a callback may end the process, or take its time. It waits for nobody.
                _log.write(lines)
                self._watched.tell(lost, tell)
                take_out(self._taken, batch)
        except BaseException:
            self._native.ring()
            raise

    def _hear(self) -> None:
        """The same in a hub of gevent, which calls back nobody who may wait."""
        self._level.follow()
        spawn = sys.modules["gevent"].spawn
        self._hand_on(lambda lease: spawn(lease._on_lost))
        telemetry = self._watched.telemetry
        if telemetry is not None and telemetry.is_behind():
            spawn(telemetry.catch_up)

    def _run(self) -> None:
        descriptor = Descriptor(self._native)
        while not self._stopped and self._thread.is_known():
            wait_for(descriptor)
            try:
                self._level.follow()
                self.deliver()
            except BaseException as error:
                # Later losses have to be told, whatever a callback or a handler raised.
                report(error)


def _tell(lease: Watched) -> None:
    lease._on_lost()


def wait_for(descriptor: Descriptor, limit: float = LOOK) -> None:
    """Waits until something has happened, but no longer than so many seconds. Ctrl-C comes through."""
    poller = select.poll()
    # If there is none to be had, it is looked again after that time.
    with contextlib.suppress(OSError):
        poller.register(descriptor.look(), select.POLLIN)
    poller.poll(limit * 1_000)
