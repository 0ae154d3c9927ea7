"""The daemon threads of the package."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

BEGIN_LIMIT = 1
"""For how many seconds a thread that begins is waited for: at the end of the process it may never run."""


class Background:
    """Work in a daemon thread that is begun when somebody wants it, and again if it has ended.

    Signals may interrupt its beginning at any moment, and two threads may begin it at once: of two of them the one
    that is not known is asked to end.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._name = name
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begins the thread unless it runs. `RuntimeError` where the system gives no more threads, and at the end of
        the process."""
        if self.has_begun():
            return
        # A plain lock, as an event that an interrupt strikes may stay locked for ever.
        begun = threading.Lock()
        begun.acquire()
        thread = self._thread = threading.Thread(target=self._run, args=(begun,), name=self._name, daemon=True)
        begin(thread)
        # Not every call until then begins another one.
        begun.acquire(timeout=BEGIN_LIMIT)

    def has_begun(self) -> bool:
        thread = self._thread
        return thread is not None and thread.ident is not None

    def is_here(self) -> bool:
        """Whether the calling thread is the one."""
        return self._thread is threading.current_thread()

    def is_known(self) -> bool:
        """Asked by the work: whether the calling thread is the one that was begun last, and so goes on."""
        return self.is_here() or not self.has_begun()

    def join(self, limit: float) -> None:
        """Waits for its end, but no longer than so many seconds, and not in itself."""
        thread = self._thread
        if thread is not None and thread.ident is not None and not self.is_here():
            thread.join(limit)

    def _run(self, begun: threading.Lock) -> None:
        try:
            begun.release()
            self._work()
        finally:
            # If an interrupt ends it, the next one who wants it begins another.
            if self.is_here():
                self._thread = None


def begin(thread: threading.Thread) -> None:
    """Starts a thread in one step.

    An error of a signal handler in the midst of `Thread.start` ends the thread that was started. No handler runs
    in a thread that is not the main one, and nothing is raised in one that nobody knows.
    """
    _thread.start_new_thread(thread.start, ())
