"""How what has happened comes from the engine: lost leases, and what greenlets wait for."""

from __future__ import annotations

import select
import sys
import threading
from collections import deque
from itertools import starmap
from typing import Generic, TypeVar

from leasehold import _native
from leasehold._endings import LostReason
from leasehold._threads.greenlets import Waits
from leasehold._watchlist import Watched, Watchlist

L = TypeVar("L", bound=Watched)


class Events(Generic[L]):
    """Passes a client's losses on, in a daemon thread that starts when somebody listens.

    The thread waits in `poll` on a file descriptor: it holds no lock and no native
    frame there, so that it may be cut off at the end of the process.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._mutex = threading.Lock()
        self._taken: deque[tuple[list[_native.Completed], list[tuple[int, LostReason]]]] = deque()
        self._is_inherited = False
        self.waits = Waits(native, self._hear)
        """Those of greenlets, whose results come with the losses."""

    def watch(self, lease: L) -> None:
        """Tells the lease when it is lost."""
        with self._mutex:
            self._watched.add(lease)
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="leasehold-events", daemon=True)
                self._thread.start()

    def drop_unheard(self) -> None:
        """Drops what nobody listens to, so that it does not pile up."""
        with self._mutex:
            if self._thread is None and not self._watched:
                self._take()

    def deliver(self) -> None:
        """Passes on what has happened, in the calling thread."""
        for lease in self._take():
            lease._on_lost()

    def stop(self) -> None:
        """Ends the thread. It is waited for a moment only, as it may run a callback."""
        self._stopped = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._native.ring()
            thread.join(0.1)

    def leave_to_parent(self) -> None:
        """In the child of a fork, where greenlets go on: what comes is no business of theirs."""
        self._is_inherited = True
        self.waits.stop_listening()

    def _take(self) -> list[L]:
        """Takes what has happened. Gives the lost leases, which nobody was told of yet."""
        if self._is_inherited:
            return []
        leases: list[L] = []
        try:
            # Ctrl-C may strike between any two steps, but not within this one: nothing that was taken may be lost.
            self._taken.extend(starmap(self._native.drain, [()]))
            while self._taken:
                completed, lost = self._taken[0]
                self.waits.answer(completed)
                leases += self._watched.take(lost)
                self._taken.popleft()
        except BaseException:
            self._native.ring()
            raise
        return leases

    def _hear(self) -> None:
        """The same in a hub of gevent, which calls back nobody who may wait."""
        for lease in self._take():
            sys.modules["gevent"].spawn(lease._on_lost)

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._native.fd, select.POLLIN)
        while not self._stopped:
            poller.poll()
            self.deliver()
