"""The events of the engine: lost leases, results for greenlets, and lines of the log."""

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
from steadlock._shown import shown
from steadlock._threads.greenlets import Waits
from steadlock._watchlist import Watched, Watchlist
from steadlock.errors import UnavailableError

L = TypeVar("L", bound=Watched)
UNHEARD_LIMIT = 100
"""After how many calls in greenlets the queued events are taken, if no thread takes them."""


class Events(Generic[L]):
    """Passes on a client's events, in a daemon thread that starts when it is needed: for a lease, or for the log.

    The thread waits in `poll` on a file descriptor. It holds no lock and no native frame there, so it can be cut off at
    the end of the process. Nothing else in this class holds a lock either: signal handlers, finalizers and callbacks
    can call any method during another, and can wait for another thread that runs one.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._thread = Background(self._run, "steadlock-events")
        self._stopped = False
        self._taken: deque[tuple[list[_native.Completed], list[tuple[int, LostReason]], list[_native.Line]]] = deque()
        self._level = _log.Level(native)
        # Whether the log is off. `log_is_read` is called when it is on.
        self._is_unread = False
        self._unheard = 0
        self._is_inherited = False
        self.waits = Waits(native, self._hear)
        """The waits of greenlets. Their results arrive together with the losses."""

    def begin(self, name: str) -> None:
        """Starts the thread, if it does not run, so that the lease of this lock is notified of its loss. Raises
        `UnavailableError` if the process gets no thread.
        """
        try:
            self._start()
        except RuntimeError as error:
            cause = f"no thread can wait for the loss of its lease: {error}"
            raise UnavailableError(
                f'inspect of lock "{shown(name)}": {cause}; allow this process more threads, or end some',
                lock_name=name,
                operation="inspect",
                retryable=True,
                cause=cause,
            ) from error

    def watch_for_log(self) -> None:
        """Makes sure that later events are passed on at once, if the log is on or telemetry measures the client.

        A greenlet starts no thread, because that can switch greenlets. Its events are passed on when a greenlet waits
        the next time.
        """
        is_measured = self._watched.telemetry is not None
        if self._thread.has_begun() or (self._is_unread and not is_measured):
            return
        if running_hub() is None and not threads_are_greenlets():
            if self._level.follow() or is_measured:
                # At the end of the process no thread can be started any more, and the log is not needed.
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
        """Takes the queued events if neither the thread nor a lease waits for them, so that they do not pile up."""
        if not self._thread.has_begun() and not self._watched:
            self.deliver()

    def log_is_read(self) -> None:
        """Called when the log was off and is on now."""
        self._is_unread = False
        self.watch_for_log()

    def deliver(self) -> None:
        """Passes on the queued events, in the calling thread."""
        self._hand_on(_tell)
        self._watched.catch_up()
        _log.catch_up()

    def _start(self) -> None:
        if not self._stopped:
            self._thread.begin()

    def stop(self) -> None:
        """Ends the thread. Waits for it only briefly, because it can be running a callback."""
        self._stopped = True
        if self._thread.has_begun():
            self._native.ring()
            self._thread.join(0.1)

    def leave_to_parent(self) -> None:
        """Called in the child of a fork, where greenlets go on. They must ignore the events of the parent."""
        self._is_inherited = True
        self.waits.stop_listening()

    def _hand_on(self, tell: Callable[[L], object]) -> None:
        """Passes on the queued events: to greenlets, to the log, and to lost leases by `tell`.

        Events that were taken from the engine stay in a queue until they were passed on, so that an interrupt loses
        none. A signal handler or another thread that calls this meanwhile passes on the same events.
        """
        if self._is_inherited:
            return
        try:
            # One atomic step, which no interrupt can end.
            self._taken.extend(starmap(self._native.drain, [()]))
            while (batch := first(self._taken)) is not None:
                completed, lost, lines = batch
                self.waits.answer(completed)
                # The log comes before the losses, because a callback can end the process or take long. Writing the log
                # does not wait.
                _log.write(lines)
                self._watched.tell(lost, tell)
                take_out(self._taken, batch)
        except BaseException:
            self._native.ring()
            raise

    def _hear(self) -> None:
        """Passes on the queued events in a hub of gevent. Callbacks run in greenlets of their own, because code in the
        hub must not wait.
        """
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
                # An error of a callback or a handler must not prevent the reports of later losses.
                report(error)


def _tell(lease: Watched) -> None:
    lease._on_lost()


def wait_for(descriptor: Descriptor, limit: float = LOOK) -> None:
    """Waits until there are events, `limit` seconds at the most. Ctrl-C ends the wait."""
    poller = select.poll()
    # If the system has no descriptor left, the caller tries again after that time.
    with contextlib.suppress(OSError):
        poller.register(descriptor.look(), select.POLLIN)
    poller.poll(limit * 1_000)
