"""Which leases are told when they are lost, and the telemetry, which is told of every loss."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from steadlock._endings import LostReason
from steadlock._reports import is_ctrl_c, report
from steadlock._telemetry import Telemetry


class Watched(Protocol):
    """A lease whose loss somebody wants to be told."""

    @property
    def id(self) -> int: ...
    def _on_lost(self) -> None: ...


L = TypeVar("L", bound=Watched)


def tell_lost(leases: Iterable[Watched]) -> None:
    """Tells each of them. Ctrl-C, which may strike in the callback of any, comes through after the last."""
    struck: BaseException | None = None
    for lease in leases:
        try:
            lease._on_lost()
        except BaseException as error:
            struck = error
    if struck is not None:
        raise struck


class Watchlist(Generic[L]):
    """The leases that are told when they are lost, by their numbers."""

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
            self._leases[number] = weakref.ref(lease, lambda _: self._leases.pop(number, None))

    def discard(self, number: int) -> None:
        self._leases.pop(number, None)

    def take(self, lost: list[tuple[int, LostReason]]) -> list[L]:
        """Those of the lost leases that are here; they are here no longer."""
        telemetry = self.telemetry
        if telemetry is not None:
            for number, reason in lost:
                with _reported():
                    telemetry.ended(number, "lost", reason)
        known = [self._leases.pop(number, None) for number, _ in lost]
        return [lease for find in known if find is not None and (lease := find()) is not None]

    def dropped(self, number: int) -> None:
        """The lease is released since nobody refers to it. It may be called in the midst of anything."""
        if self.telemetry is not None:
            self.telemetry.dropped(number)

    def catch_up(self) -> None:
        """The telemetry does what it was told of meanwhile."""
        if self.telemetry is not None:
            with _reported():
                self.telemetry.catch_up()


@contextmanager
def _reported() -> Iterator[None]:
    """What telemetry raises keeps nobody from being told of a loss."""
    try:
        yield
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        report(error)
