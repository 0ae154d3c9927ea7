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
from steadlock._context import running_hub, threads_are_greenlets
from steadlock._daemon_thread import DaemonThread
from steadlock._descriptor import CHECK_INTERVAL, Descriptor
from steadlock._error_reports import report
from steadlock._outcomes import LostReason
from steadlock._reentrant_queue import first, remove_item
from steadlock._shown import shown
from steadlock._threads.greenlets import GreenletWaits
from steadlock._watchlist import Watched, Watchlist
from steadlock.errors import UnavailableError

L = TypeVar("L", bound=Watched)
CALLS_PER_DRAIN = 100
"""After how many calls in greenlets the queued events are taken, if no thread takes them."""


class Events(Generic[L]):
    """Passes on a client's events: in a daemon thread that starts when it is needed for a lease, the log or telemetry;
    with gevent, in the hub, the greenlet that waits on behalf of the others.

    The thread waits in `poll` on a file descriptor. It holds no lock and no native frame there, so it can be cut off at
    the end of the process. Nothing else in this class holds a lock either: signal handlers, finalizers and callbacks
    can call any method in the middle of another, and can wait for another thread that runs such a method.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._thread = DaemonThread(self._run, "steadlock-events")
        self._stopped = False
        self._batches: deque[tuple[list[_native.Completed], list[tuple[int, LostReason]], list[_native.Line]]] = deque()
        self._level = _log.Level(native)
        # Whether the log is off. `on_log_enabled` is called when it is switched on.
        self._is_log_off = False
        self._undelivered_calls = 0
        self._is_inherited = False
        self.waits = GreenletWaits(native, self._deliver_in_hub)
        """The waits of greenlets. Their results arrive together with the losses."""

    def start(self, name: str) -> None:
        """Starts the thread, if it does not run, so that the lease of this lock is notified of its loss. Raises
        `UnavailableError` if the process gets no thread.
        """
        try:
            self._start_thread()
        except RuntimeError as error:
            cause = f"no thread can wait for the loss of its lease: {error}"
            raise UnavailableError(
                f'inspect of lock "{shown(name)}": {cause}; allow this process more threads, or end some',
                lock_name=name,
                operation="inspect",
                retryable=True,
                cause=cause,
            ) from error

    def ensure_delivery(self) -> None:
        """Makes sure that later events are passed on at once, if the log is on or telemetry measures the client.

        A greenlet starts no thread, because that can switch greenlets. Its events are passed on when a greenlet waits
        the next time, or after `CALLS_PER_DRAIN` calls.
        """
        is_measured = self._watched.telemetry is not None
        if self._thread.is_running() or (self._is_log_off and not is_measured):
            return
        if running_hub() is None and not threads_are_greenlets():
            if self._level.follow() or is_measured:
                # At the end of the process no thread can be started any more, and the log is not needed.
                with contextlib.suppress(RuntimeError):
                    self._start_thread()
            else:
                self._is_log_off = True
                _log.notify_when_enabled(self)
            return
        self._level.follow()
        self._undelivered_calls += 1
        if self._undelivered_calls % CALLS_PER_DRAIN == 0:
            self.drain_unwatched()

    def drain_unwatched(self) -> None:
        """Takes the queued events if neither the thread nor a lease waits for them, so that they do not pile up."""
        if not self._thread.is_running() and not self._watched:
            self.deliver()

    def on_log_enabled(self) -> None:
        """Called when the log was off and is on now."""
        self._is_log_off = False
        self.ensure_delivery()

    def deliver(self) -> None:
        """Passes on the queued events, in the calling thread."""
        self._dispatch(_notify)
        self._watched.catch_up()
        _log.catch_up()

    def _start_thread(self) -> None:
        if not self._stopped:
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread. Waits for it only briefly, because it can be running a callback."""
        self._stopped = True
        if self._thread.is_running():
            self._native.ring()
            self._thread.join(0.1)

    def after_fork(self) -> None:
        """Called in the child of a fork, where greenlets go on. They must ignore the events of the parent."""
        self._is_inherited = True
        self.waits.stop_listening()

    def _dispatch(self, notify: Callable[[L], object]) -> None:
        """Passes on the queued events: to greenlets, to the log, and to lost leases by `notify`.

        Events that were taken from the engine stay in a queue until they were passed on, so that an interrupt (an
        exception of a signal handler) loses none. A signal handler or another thread that calls this meanwhile passes
        on the same events.
        """
        if self._is_inherited:
            return
        try:
            # One atomic step, which no interrupt can end.
            self._batches.extend(starmap(self._native.drain, [()]))
            while (batch := first(self._batches)) is not None:
                completed, lost, lines = batch
                self.waits.deliver(completed)
                # The log comes before the losses, because a callback can end the process or take long. Writing the log
                # does not wait.
                _log.write(lines)
                self._watched.notify(lost, notify)
                remove_item(self._batches, batch)
        except BaseException:
            self._native.ring()
            raise

    def _deliver_in_hub(self) -> None:
        """Passes on the queued events in a hub of gevent. Callbacks run in greenlets of their own, because code in the
        hub must not wait.
        """
        self._level.follow()
        spawn = sys.modules["gevent"].spawn
        self._dispatch(lambda lease: spawn(lease._on_lost))
        telemetry = self._watched.telemetry
        if telemetry is not None and telemetry.is_behind():
            spawn(telemetry.catch_up)

    def _run(self) -> None:
        descriptor = Descriptor(self._native)
        while not self._stopped and self._thread.is_latest():
            wait_for_events(descriptor)
            try:
                self._level.follow()
                self.deliver()
            except BaseException as error:
                # An error of a callback or a handler must not prevent the reports of later losses.
                report(error)


def _notify(lease: Watched) -> None:
    lease._on_lost()


def wait_for_events(descriptor: Descriptor, limit: float = CHECK_INTERVAL) -> None:
    """Waits until there are events, at most `limit` seconds. Ctrl-C ends the wait."""
    poller = select.poll()
    # If the system has no descriptor left, the caller tries again after `limit`.
    with contextlib.suppress(OSError):
        poller.register(descriptor.refresh(), select.POLLIN)
    poller.poll(limit * 1_000)
