"""The calls of threads and greenlets to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from steadlock import _log
from steadlock._connection import ConnectionBase
from steadlock._context import running_hub, this_thread
from steadlock._holds import Held
from steadlock._threads.events import Events

L = TypeVar("L", bound=Held)
R = TypeVar("R")


class Connection(ConnectionBase[L]):
    """The connection of a blocking client."""

    def _begin(self) -> None:
        super()._begin()
        self.events: Events[L] = Events(self.native, self.watched)
        self.had_turns = False
        """Whether a task or a greenlet ever held a lock."""

    def ask(self, call: Callable[..., R], submit: Callable[..., int], *args: Any) -> R:
        """Makes a call to the engine, and returns the result. `call` blocks the thread; `submit` is used in a hub, so
        that its other greenlets can run.
        """
        hub = running_hub()
        if hub is None:
            self.events.watch_for_log()
            return call(*args, this_thread.thread.interruptible)
        answer: list[R] = []
        self.events.waits.wait(hub, answer, submit, *args)
        return answer[0]

    def close(self) -> None:
        self.is_closed = True
        hub = running_hub()
        try:
            if hub is None:
                self.native.close(this_thread.thread.interruptible)
            else:
                self.events.waits.wait(hub, [], self.native.submit_close)
            self.events.deliver()
        finally:
            self.events.stop()
            if self.telemetry is not None:
                self.telemetry.closed()
        _log.flush()

    def _leave(self) -> None:
        self.events.stop()

    def after_fork(self) -> None:
        self.events.leave_to_parent()
        super().after_fork()

    def stop(self) -> None:
        self.events.stop()
        self.events.waits.end()

    def owners_have_ended(self, numbers: list[int | None]) -> None:
        super().owners_have_ended(numbers)
        self.events.waits.owners_have_ended(numbers)
