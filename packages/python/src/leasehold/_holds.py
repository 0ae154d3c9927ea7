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

    The core decides who holds what; this only finds the Python object again. What the
    core forgets (a fixed lease that was lost) is dropped: when it is met, or by a sweep
    now and then. So there are never many more than twice as many as were held at once.
    """

    def __init__(self) -> None:
        # A lease may be released by another thread than the one that holds it.
        self._mutex = threading.Lock()
        self._leases: dict[tuple[str, int | None], list[L]] = {}
        # Since the last sweep, and how many that left.
        self._added = 0
        self._left = 0

    def add(self, lease: L) -> bool:
        """Says whether it swept: once as many were added as the last sweep left, and 64 more."""
        with self._mutex:
            sweeps = self._added >= self._left + 64
            if sweeps:
                self._left = sum(len(self._known(key)) for key in list(self._leases))
                self._added = 0
            self._added += 1
            self._leases.setdefault((lease._key, lease.context), []).append(lease)
            return sweeps

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
            leases = self._known((key, context))
            return leases[-1] if leases else None

    def lost_reason(self, key: str, context: int) -> LostReason | None:
        """Why the owner lost what it took last of this lock, if it did."""
        lease = self.innermost(key, context)
        return None if lease is None else lease.lost_reason

    def all(self) -> list[L]:
        with self._mutex:
            return [lease for leases in self._leases.values() for lease in leases]

    def _known(self, key: tuple[str, int | None]) -> list[L]:
        """The leases of a lock and an owner that the core knows."""
        leases = self._leases.get(key, [])
        known = [lease for lease in leases if not lease._native.is_forgotten]
        if known:
            self._leases[key] = known
        else:
            self._leases.pop(key, None)
        return known

    def released(self) -> list[L]:
        """What the core gave back by itself: it knows that `lock` and `fair_lock` of a
        name, or the same locks in another order, have the same holders."""
        return [lease for lease in self.all() if lease._native.is_released]
