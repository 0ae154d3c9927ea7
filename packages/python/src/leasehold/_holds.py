"""What one client holds, as far as Python must know: for `lock.lease`, and for the exit."""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar

from leasehold import _native
from leasehold._lease import LostReason


class _Lease(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def context(self) -> int | None: ...
    @property
    def lost_reason(self) -> LostReason | None: ...
    @property
    def _key(self) -> str: ...
    @property
    def _native(self) -> _native.Lease: ...


L = TypeVar("L", bound=_Lease)


class Holds(Generic[L]):
    """The leases that were not given back yet, by lock (`LockSettings.key`) and owner.

    The core decides who holds what; this only finds the Python object again.
    """

    def __init__(self) -> None:
        # A lease may be released by another thread than the one that holds it.
        self._mutex = threading.Lock()
        self._leases: dict[tuple[str, int | None], list[L]] = {}

    def add(self, lease: L) -> None:
        with self._mutex:
            self._leases.setdefault((lease._key, lease.context), []).append(lease)

    def remove(self, lease: L) -> None:
        """Forgets a lease. Twice is harmless."""
        self.discard(lease.id, lease._key, lease.context)

    def discard(self, number: int, key: str, context: int | None) -> None:
        """Forgets a lease by its number. Twice is harmless."""
        with self._mutex:
            leases = self._leases.get((key, context))
            if leases is None:
                return
            left = [lease for lease in leases if lease.id != number]
            if left:
                self._leases[key, context] = left
            else:
                del self._leases[key, context]

    def innermost(self, key: str, context: int) -> L | None:
        """What the owner took last of this lock."""
        with self._mutex:
            leases = self._leases.get((key, context))
            return leases[-1] if leases else None

    def lost_reason(self, key: str, context: int) -> LostReason | None:
        """Why the owner lost what it took last of this lock, if it did."""
        lease = self.innermost(key, context)
        return None if lease is None else lease.lost_reason

    def all(self) -> list[L]:
        with self._mutex:
            return [lease for leases in self._leases.values() for lease in leases]

    def released(self) -> list[L]:
        """What the core gave back by itself: it knows that `lock` and `fair_lock` of a
        name, or the same locks in another order, have the same holders."""
        return [lease for lease in self.all() if lease._native.is_released]
