"""How the threads of a program hear that a lease is lost."""

from __future__ import annotations

import select
import threading
from typing import TYPE_CHECKING

from leasehold import _native

if TYPE_CHECKING:
    from leasehold._lease import Lease


class Events:
    """Passes a client's losses on, in a daemon thread that starts when somebody listens.

    The thread waits in `poll` on a file descriptor: it holds no lock and no native
    frame there, so that it may be cut off at the end of the process.
    """

    def __init__(self, native: _native.Client) -> None:
        self._native = native
        self._watched: dict[int, Lease] = {}
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._mutex = threading.Lock()

    def watch(self, lease: Lease) -> None:
        """Tells the lease when it is lost."""
        if lease._native.is_released:
            return
        with self._mutex:
            self._watched[lease._native.id] = lease
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="leasehold-events", daemon=True)
                self._thread.start()

    def unwatch(self, lease: Lease) -> None:
        self._watched.pop(lease._native.id, None)

    def drop_unheard(self) -> None:
        """Drops what nobody listens to, so that it does not pile up."""
        with self._mutex:
            if self._thread is None and not self._watched:
                self._native.drain()

    def deliver(self) -> None:
        """Passes on what has happened, in the calling thread."""
        _, lost = self._native.drain()
        for number, _ in lost:
            lease = self._watched.pop(number, None)
            if lease is not None:
                lease._on_lost()

    def stop(self) -> None:
        """Ends the thread. It is waited for a moment only, as it may run a callback."""
        self._stopped = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._native.ring()
            thread.join(0.1)

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._native.fd, select.POLLIN)
        while not self._stopped:
            poller.poll()
            self.deliver()
