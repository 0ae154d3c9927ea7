"""How what has happened comes from the engine: lost leases, what greenlets wait for, and the log."""

from __future__ import annotations

import contextlib
import select
import sys
import threading
from collections import deque
from itertools import starmap
from typing import Generic, TypeVar

from steadlock import _log, _native
from steadlock._context import lock_of_threads, reentrant_lock_of_threads, running_hub, threads_are_greenlets
from steadlock._descriptor import LOOK, Descriptor
from steadlock._endings import LostReason
from steadlock._threads.greenlets import Waits
from steadlock._watchlist import Watched, Watchlist

L = TypeVar("L", bound=Watched)
UNHEARD_LIMIT = 100
"""After how many calls without a thread and without a hub it is looked whether anything has happened."""


class Events(Generic[L]):
    """Passes a client's losses on, in a daemon thread that starts when somebody listens: a lease, or a log.

    The thread waits in `poll` on a file descriptor: it holds no lock and no native
    frame there, so that it may be cut off at the end of the process.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._mutex = lock_of_threads()
        # No code of the program runs under it, but for what a signal or a collection calls: that may come back to it.
        self._taking = reentrant_lock_of_threads()
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
        if self._thread is not None or (self._is_unread and not is_measured):
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
        if self._thread is None and not self._watched:
            self.deliver()

    def log_is_read(self) -> None:
        """Somebody reads the log that nobody read."""
        self._is_unread = False
        self.watch_for_log()

    def deliver(self) -> None:
        """Passes on what has happened, in the calling thread."""
        leases, lines = self._take()
        # First, as a callback may end the process, or take its time. It waits for nobody.
        _log.write(lines)
        for lease in leases:
            lease._on_lost()
        self._watched.catch_up()
        _log.catch_up()

    def _start(self) -> None:
        with self._mutex:
            if self._thread is not None or self._stopped:
                return
            thread = self._thread = threading.Thread(target=self._run, name="steadlock-events", daemon=True)
        # Without the mutex: other greenlets may run meanwhile.
        try:
            thread.start()
        except BaseException:
            # If it runs all the same, a second one beside it does no harm.
            self._thread = None
            raise

    def stop(self) -> None:
        """Ends the thread. It is waited for a moment only, as it may run a callback."""
        self._stopped = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._native.ring()
            # Another thread may be just about to start it.
            with contextlib.suppress(RuntimeError):
                thread.join(0.1)

    def leave_to_parent(self) -> None:
        """In the child of a fork, where greenlets go on: what comes is no business of theirs."""
        self._is_inherited = True
        self.waits.stop_listening()

    def _take(self) -> tuple[list[L], list[_native.Line]]:
        """Takes what has happened. Gives the lost leases and the lines of the log, which nobody was told of yet."""
        leases: list[L] = []
        log: list[_native.Line] = []
        if self._is_inherited:
            return leases, log
        try:
            # Ctrl-C may strike between any two steps, but not within this one: nothing that was taken may be lost.
            with self._taking:
                self._taken.extend(starmap(self._native.drain, [()]))
                while self._taken:
                    batch = self._taken[0]
                    completed, lost, lines = batch
                    self.waits.answer(completed)
                    leases += self._watched.take(lost)
                    log += lines
                    if self._taken and self._taken[0] is batch:
                        self._taken.popleft()
        except BaseException:
            self._native.ring()
            raise
        return leases, log

    def _hear(self) -> None:
        """The same in a hub of gevent, which calls back nobody who may wait."""
        self._level.follow()
        leases, lines = self._take()
        for lease in leases:
            sys.modules["gevent"].spawn(lease._on_lost)
        telemetry = self._watched.telemetry
        if telemetry is not None and telemetry.is_behind():
            sys.modules["gevent"].spawn(telemetry.catch_up)
        _log.write(lines)

    def _run(self) -> None:
        descriptor = Descriptor(self._native)
        while not self._stopped:
            wait_for(descriptor)
            self._level.follow()
            self.deliver()


def wait_for(descriptor: Descriptor) -> None:
    """Waits until something has happened, but no longer than `LOOK`. Ctrl-C comes through."""
    poller = select.poll()
    # If there is none to be had, it is looked again after that time.
    with contextlib.suppress(OSError):
        poller.register(descriptor.look(), select.POLLIN)
    poller.poll(LOOK * 1_000)
