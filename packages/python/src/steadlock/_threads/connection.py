"""The calls of threads and greenlets to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from steadlock import _log
from steadlock._connection import ConnectionBase
from steadlock._context import running_hub, thread_local
from steadlock._holds import Held
from steadlock._threads.events import Events

L = TypeVar("L", bound=Held)
R = TypeVar("R")


class Connection(ConnectionBase[L]):
    """The connection of a blocking client."""

    def _reset_state(self) -> None:
        super()._reset_state()
        self.events: Events[L] = Events(self.native, self.watched)
        self.had_fibers = False
        """Whether a task or a greenlet ever held a lock."""

    def call(self, blocking_call: Callable[..., R], submit: Callable[..., int], *args: Any) -> R:
        """Makes a call to the engine, and returns the result. `blocking_call` blocks the thread. In a thread with a hub
        of gevent, `submit` is called instead, so that the other greenlets can run.
        """
        hub = running_hub()
        if hub is None:
            self.events.ensure_delivery()
            return blocking_call(*args, thread_local.thread.interruptible)
        results: list[R] = []
        self.events.waits.wait(hub, results, submit, *args)
        return results[0]

    def close(self) -> None:
        self.is_closed = True
        hub = running_hub()
        try:
            if hub is None:
                self.native.close(thread_local.thread.interruptible)
            else:
                self.events.waits.wait(hub, [], self.native.submit_close)
            self.events.deliver()
        finally:
            self.events.stop()
            if self.telemetry is not None:
                self.telemetry.closed()
        _log.flush()

    def _stop_listening(self) -> None:
        self.events.stop()

    def after_fork(self) -> None:
        self.events.after_fork()
        super().after_fork()

    def stop(self) -> None:
        self.events.stop()
        self.events.waits.end()

    def owners_have_ended(self, numbers: list[int | None]) -> None:
        super().owners_have_ended(numbers)
        self.events.waits.owners_have_ended(numbers)
