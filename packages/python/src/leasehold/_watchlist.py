"""Which leases are told when they are lost."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from leasehold._endings import LostReason


class Watched(Protocol):
    """A lease whose loss somebody wants to hear of."""

    @property
    def id(self) -> int: ...
    def _on_lost(self) -> None: ...


L = TypeVar("L", bound=Watched)


class Watchlist(Generic[L]):
    """The leases that are told when they are lost, by their numbers."""

    def __init__(self) -> None:
        self._leases: dict[int, Callable[[], L | None]] = {}

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
        known = [self._leases.pop(number, None) for number, _ in lost]
        return [lease for find in known if find is not None and (lease := find()) is not None]
