"""What the locks and semaphores of threads and of tasks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from leasehold import _native
from leasehold._connection import ConnectionT
from leasehold._lease import LeaseBase
from leasehold._settings import INHERIT, Duration, Inherited, LockSettings
from leasehold._shown import shown
from leasehold.errors import Holder, NotOwnerError

LeaseT = TypeVar("LeaseT", bound=LeaseBase[Any, Any, Any])
HoldT = TypeVar("HoldT")
LockT = TypeVar("LockT", bound="NamedLock[Any, Any, Any]")


class NamedLock(ABC, Generic[ConnectionT, LeaseT, HoldT]):
    """A lock or a semaphore."""

    __slots__ = ("__weakref__", "_connection", "_settings")

    def __init__(self, connection: ConnectionT, settings: LockSettings) -> None:
        self._connection = connection
        self._settings = settings

    @property
    def name(self) -> str:
        """Its name; of several locks as one, all names."""
        return self._settings.name

    @property
    @abstractmethod
    def lease(self) -> LeaseT | None:
        """What the caller took last of this name; `None` if it holds nothing of it."""

    @abstractmethod
    def _hold_with(self, settings: LockSettings) -> HoldT:
        """A scope of it with these settings."""

    def _is_held(self) -> bool:
        lease = self.lease
        return lease is not None and lease._native.is_valid()

    def _not_owner(self, reason: str) -> NotOwnerError:
        return NotOwnerError(
            f"release of lock {shown(self.name)!r}: {reason}", lock_name=self.name, operation="release"
        )


class LockBase(NamedLock[ConnectionT, LeaseT, HoldT]):
    """What one owner holds at a time, or many readers."""

    __slots__ = ()

    def hold(
        self,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> HoldT:
        """A context manager like the lock itself, with other settings: see `Hold`.
        Raises `LockTimeoutError` after `wait`."""
        return self._hold_with(self._settings.but(wait, lease, max_hold, renew))

    def owned(self) -> bool:
        """Whether the caller holds the lock now, by a lease that is valid. Asks nobody."""
        return self._is_held()


class SemaphoreBase(NamedLock[ConnectionT, LeaseT, HoldT], Generic[ConnectionT, LeaseT, HoldT, LockT]):
    """Of which many hold permits."""

    __slots__ = ()

    @property
    def limit(self) -> int:
        """How many permits there are."""
        return self._settings.limit

    def hold(
        self,
        permits: int = 1,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> HoldT:
        """A context manager that takes `permits` permits: see `Hold`.
        Raises what `acquire` raises."""
        return self._hold_with(self._settings.but(wait, lease, max_hold, renew).asking(permits))

    def permits(self, permits: int) -> LockT:
        """`permits` permits as a lock, as `multi_lock` takes it: 1 to 1,000, and no more than
        the limit, checked when it is used. It has the semaphore's settings, is not
        reentrant, and is `locked()` if anybody holds any permit.
        """
        return self._lock_with(self._settings.asking(permits))

    @abstractmethod
    def _lock_with(self, settings: LockSettings) -> LockT:
        """A lock with these settings."""

    def _free(self, state: _native.State) -> int:
        """How many permits are free, as the server says how many are held of how many."""
        _, permits = state
        if permits is None:
            return self.limit
        held, agreed = permits
        return max(0, agreed - held)


@dataclass(frozen=True, slots=True)
class ReadWriteLockBase(Generic[LockT]):
    """A lock with two sides, of which many may hold `read`, or one `write`."""

    read: LockT
    """The side that many may hold. Its leases have no token."""
    write: LockT
    """The side that one holds alone."""

    @property
    def name(self) -> str:
        """The lock's name."""
        return self.write.name


def holder_of(state: _native.State) -> Holder | None:
    """Who holds a lock, as the server says."""
    holder, _ = state
    return None if holder is None else Holder(*holder)
