"""The common part of the locks and semaphores of threads and of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from steadlock import _native
from steadlock._connection import ConnectionT
from steadlock._lease import LeaseBase
from steadlock._not_copyable import LOCK_COPY_ADVICE, NotCopyable
from steadlock._settings import LockSettings
from steadlock._shown import shown
from steadlock.errors import NotOwnerError

LeaseT = TypeVar("LeaseT", bound=LeaseBase[Any, Any, Any])
LockT = TypeVar("LockT", bound="NamedLock[Any, Any]")


class NamedLock(ABC, NotCopyable, Generic[ConnectionT, LeaseT]):
    """A lock or a semaphore."""

    __slots__ = ("__weakref__", "_connection", "_settings")
    _copy_advice = LOCK_COPY_ADVICE

    def __init__(self, connection: ConnectionT, settings: LockSettings) -> None:
        self._connection = connection
        self._settings = settings

    @property
    def name(self) -> str:
        """The name; for a composite lock, the names of all members."""
        return self._settings.name

    @property
    @abstractmethod
    def lease(self) -> LeaseT | None:
        """The caller's innermost lease of this lock that it has not released; `None` if there is none. Lost fixed
        leases do not count.
        """

    def _is_held(self) -> bool:
        lease = self.lease
        return lease is not None and lease._native.is_valid()

    def _not_owner(self, reason: str) -> NotOwnerError:
        return NotOwnerError(
            f"release of lock {shown(self.name)!r}: {reason}", lock_name=self.name, operation="release"
        )


class ReadWriteLockBase(NotCopyable, Generic[LockT]):
    """A lock with two sides: many owners can hold `read`, or one owner `write`."""

    __slots__ = ("_read", "_write")
    _copy_advice = LOCK_COPY_ADVICE

    def __init__(self, read: LockT, write: LockT) -> None:
        self._read = read
        self._write = write

    @property
    def read(self) -> LockT:
        """The side that many owners can hold. Its leases have no token."""
        return self._read

    @property
    def write(self) -> LockT:
        """The side that one owner holds alone."""
        return self._write

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._write.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}(read={self._read!r}, write={self._write!r})"


def free_permits(state: _native.State, limit: int) -> int:
    """Returns how many permits are free, from the server's state: the held permits and the limit. While no permit is
    held, the server has no limit, and `limit` applies.
    """
    _, permits, *_ = state
    if permits is None:
        return limit
    held, agreed = permits
    return max(0, agreed - held)
