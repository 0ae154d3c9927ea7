"""The leases that must be notified of their loss, and the telemetry, which gets every loss."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Generic, Protocol, TypeVar

from steadlock._error_reports import is_ctrl_c, report
from steadlock._outcomes import LostReason
from steadlock._reentrant_queue import first, remove_item
from steadlock._telemetry import Telemetry


class Watched(Protocol):
    """A lease that must be notified of its loss."""

    @property
    def id(self) -> int: ...
    def _on_lost(self) -> None: ...


L = TypeVar("L", bound=Watched)


ATTEMPTS = 1_000
"""How often the notification of a lease is made at most, if an interrupt (an exception of a signal handler or another
thread) ends it each time.
"""


class Watchlist(Generic[L]):
    """The leases that must be notified of their loss, by number. Each change is one atomic step of a dictionary."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._leases: dict[int, Callable[[], L | None]] = {}
        self.telemetry = telemetry
        """The telemetry that measures the client, if there is one."""

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, lease: L) -> None:
        self._leases[lease.id] = lambda: lease

    def weaken(self, lease: L) -> None:
        """From now on, keeps a lease of the list only while something else refers to it."""
        number = lease.id
        if number in self._leases:
            # When the lease is dropped, the weak reference calls `pop` with the number and with itself, which `pop`
            # takes as its default. This runs no Python code, so no interrupt can end it.
            self._leases[number] = weakref.ref(lease, partial(self._leases.pop, number))

    def discard(self, number: int) -> None:
        self._leases.pop(number, None)

    def notify(self, lost: list[tuple[int, LostReason]], notify_lease: Callable[[L], object]) -> None:
        """Notifies the lost leases that are in the list, and empties `lost`. A lease can be notified twice. Raises the
        last interrupt after all notifications.
        """
        interrupt: BaseException | None = None
        while (one := first(lost)) is not None:
            number, reason = one
            telemetry = self.telemetry
            if telemetry is not None:
                with _errors_reported():
                    telemetry.ended(number, "lost", reason)
            find = self._leases.get(number)
            lease = None if find is None else find()
            if lease is not None:
                interrupt = _notify(lease, notify_lease) or interrupt
            self.discard(number)
            remove_item(lost, one)
        if interrupt is not None:
            raise interrupt

    def dropped(self, number: int) -> None:
        """Called when a lease is released because nothing refers to it any more, in the middle of any other code."""
        telemetry = self.telemetry
        if telemetry is not None:
            telemetry.dropped(number)

    def catch_up(self) -> None:
        """Lets the telemetry process its stored reports."""
        telemetry = self.telemetry
        if telemetry is not None:
            with _errors_reported():
                telemetry.catch_up()


def _notify(lease: L, notify_lease: Callable[[L], object]) -> BaseException | None:
    """Notifies a lease, and repeats the notification if an interrupt has ended it. Returns the last interrupt."""
    interrupt: BaseException | None = None
    for _ in range(ATTEMPTS):
        try:
            notify_lease(lease)
            break
        except BaseException as error:
            interrupt = error
    return interrupt


@contextmanager
def _errors_reported() -> Generator[None]:
    """Reports errors of telemetry instead of raising them, so that they do not prevent notifications of losses."""
    try:
        yield
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        report(error)
