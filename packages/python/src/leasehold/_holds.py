"""What one client holds, as far as Python must know: for `lock.lease`, and for the exit."""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar


class _Lease(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def context(self) -> int | None: ...


L = TypeVar("L", bound=_Lease)


class Holds(Generic[L]):
    """The leases that were not given back yet, by lock and owner.

    The core decides who holds what; this only finds the Python object again.
    """

    def __init__(self) -> None:
        # A lease may be released by another thread than the one that holds it.
        self._mutex = threading.Lock()
        self._leases: dict[tuple[str, int | None], list[L]] = {}

    def add(self, lease: L) -> None:
        with self._mutex:
            self._leases.setdefault((lease.name, lease.context), []).append(lease)

    def remove(self, lease: L) -> None:
        """Forgets a lease. Twice is harmless."""
        self.discard(lease.id, lease.name, lease.context)

    def discard(self, number: int, name: str, context: int | None) -> None:
        """Forgets a lease by its number. Twice is harmless."""
        with self._mutex:
            leases = self._leases.get((name, context))
            if leases is None:
                return
            left = [lease for lease in leases if lease.id != number]
            if left:
                self._leases[name, context] = left
            else:
                del self._leases[name, context]

    def innermost(self, name: str, context: int) -> L | None:
        """What the owner took last of this lock."""
        with self._mutex:
            leases = self._leases.get((name, context))
            return leases[-1] if leases else None

    def all(self) -> list[L]:
        with self._mutex:
            return [lease for leases in self._leases.values() for lease in leases]
