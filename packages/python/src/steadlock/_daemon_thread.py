"""The daemon threads of the package."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

START_TIMEOUT = 1
"""For how many seconds `start` waits for the thread to start. At the end of the process a thread may never run."""


class DaemonThread:
    """Work in a daemon thread. The thread is started when it is needed, and again after it has ended.

    Signals can interrupt the start at any moment, and two threads can start the work at once. If two threads then run,
    the one that was started first must end: see `is_latest`.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread unless it runs. Raises `RuntimeError` if the system has no more threads, and at the end of
        the process.
        """
        if self.is_running():
            return
        # A plain lock, because an interrupt could leave the internal lock of an event locked for ever.
        started = threading.Lock()
        started.acquire()
        thread = self._thread = threading.Thread(target=self._run, args=(started,), name=self._name, daemon=True)
        refused: list[RuntimeError] = []

        def on_refusal(error: RuntimeError) -> None:
            refused.append(error)
            started.release()

        start_uninterrupted(thread, on_refusal)
        # Waits until the thread runs, so that further calls before that do not start more threads.
        started.acquire(timeout=START_TIMEOUT)
        if refused:
            raise refused[0]

    def is_running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.ident is not None

    def is_current(self) -> bool:
        """Whether the calling thread is this thread."""
        return self._thread is threading.current_thread()

    def is_latest(self) -> bool:
        """Whether no thread runs that was started after the calling one. The work calls this, and must end if it
        returns false.
        """
        return self.is_current() or not self.is_running()

    def join(self, limit: float) -> None:
        """Waits for the end of the thread, at most `limit` seconds. Does not wait in the thread itself."""
        thread = self._thread
        if thread is not None and thread.ident is not None and not self.is_current():
            thread.join(limit)

    def _run(self, started: threading.Lock) -> None:
        try:
            started.release()
            self._work()
        finally:
            # If an interrupt ended the thread, the next `start` starts another.
            if self.is_current():
                self._thread = None


def start_uninterrupted(thread: threading.Thread, on_refusal: Callable[[RuntimeError], object] | None = None) -> None:
    """Starts a thread in one step, by a helper thread. Raises `RuntimeError` if the system has no thread for the
    helper.

    If a signal handler raised inside `Thread.start`, that method would undo its registration of the new thread, and the
    new thread would fail. Here `Thread.start` runs in the helper: signal handlers run only in the main thread, and no
    other thread knows the helper, so none can raise an exception in it.

    If the system has a thread for the helper but none for the new thread, the helper calls `on_refusal` with the error.
    """

    def start() -> None:
        try:
            thread.start()
        except RuntimeError as error:
            if on_refusal is None:
                raise
            on_refusal(error)

    _thread.start_new_thread(start, ())
