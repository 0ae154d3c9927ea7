"""Which leases are told when they are lost, and the telemetry, which is told of every loss."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Generic, Protocol, TypeVar

from steadlock._endings import LostReason
from steadlock._handing_on import first, take_out
from steadlock._reports import is_ctrl_c, report
from steadlock._telemetry import Telemetry


class Watched(Protocol):
    """A lease whose loss somebody wants to be told."""

    @property
    def id(self) -> int: ...
    def _on_lost(self) -> None: ...


L = TypeVar("L", bound=Watched)


TRIES = 1_000
"""How often a lease is told while interrupts strike."""


class Watchlist(Generic[L]):
    """The leases that are told when they are lost, by their numbers. Each change is one step of a dictionary."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._leases: dict[int, Callable[[], L | None]] = {}
        self.telemetry = telemetry
        """What measures the client from outside, if anything does."""

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, lease: L) -> None:
        self._leases[lease.id] = lambda: lease

    def weaken(self, lease: L) -> None:
        """From now on keeps the lease only while somebody refers to it, if it is here."""
        number = lease.id
        if number in self._leases:
            # It is called with the reference, which is the default then. No code of Python: nothing strikes in it.
            self._leases[number] = weakref.ref(lease, partial(self._leases.pop, number))

    def discard(self, number: int) -> None:
        self._leases.pop(number, None)

    def tell(self, lost: list[tuple[int, LostReason]], tell: Callable[[L], object]) -> None:
        """Has those of the lost leases told that are here, and takes all out of the list. A lease may be told twice.
        An interrupt comes through after the last."""
        struck: BaseException | None = None
        while (one := first(lost)) is not None:
            number, reason = one
            telemetry = self.telemetry
            if telemetry is not None:
                with _reported():
                    telemetry.ended(number, "lost", reason)
            find = self._leases.get(number)
            lease = None if find is None else find()
            if lease is not None:
                struck = _tell(lease, tell) or struck
            self.discard(number)
            take_out(lost, one)
        if struck is not None:
            raise struck

    def dropped(self, number: int) -> None:
        """The lease is released since nobody refers to it. It may be called in the midst of anything."""
        telemetry = self.telemetry
        if telemetry is not None:
            telemetry.dropped(number)

    def catch_up(self) -> None:
        """The telemetry does what it was told of meanwhile."""
        telemetry = self.telemetry
        if telemetry is not None:
            with _reported():
                telemetry.catch_up()


def _tell(lease: L, tell: Callable[[L], object]) -> BaseException | None:
    """Tells it, and again if an interrupt strikes meanwhile; gives the last one."""
    struck: BaseException | None = None
    for _ in range(TRIES):
        try:
            tell(lease)
            break
        except BaseException as error:
            struck = error
    return struck


@contextmanager
def _reported() -> Generator[None]:
    """What telemetry raises keeps nobody from being told of a loss."""
    try:
        yield
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        report(error)
