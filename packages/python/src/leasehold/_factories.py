"""The methods of a client that make locks: the same for threads and for asyncio."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from leasehold._settings import Duration, LockSettings

LockT = TypeVar("LockT")


class Factories(ABC, Generic[LockT]):
    """Makes the locks of one client."""

    def lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        max_hold: Duration | None = None,
        token: bool = True,
    ) -> LockT:
        """The lock of that name: 1 to 512 bytes of UTF-8, at most one `{tag}`.

        `wait` bounds every wait for it (default: none, as long as the server answers).
        `lease` is a fixed length of 100 ms to 24 h that nothing renews (default: the
        client's, renewed until release). `max_hold` ends every hold, renewed or not.
        Without `token` no fencing token is drawn. Each call may have its own.

        Nothing is sent, and nothing is checked yet: that is `acquire`'s business.
        """
        return self._lock_of(LockSettings.of("lock", name, wait, lease, max_hold, token))

    def mutex(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        max_hold: Duration | None = None,
        token: bool = True,
    ) -> LockT:
        """The simple lock of that name, in the layout of most other lock libraries.

        It excludes their locks of the same key, so that a team can move one service at a
        time. Not reentrant: its holder waits for itself. A name is a lock's or a mutex's:
        each finds the other's record to be `MisconfiguredError`. Arguments as for `lock`.
        """
        return self._lock_of(LockSettings.of("mutex", name, wait, lease, max_hold, token))

    def fair_lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        max_hold: Duration | None = None,
        token: bool = True,
    ) -> LockT:
        """The reentrant lock of that name whose waiters are served in order of arrival,
        whatever their process.

        It excludes `lock(name)`, whose waiters may overtake. One who holds either may
        take the other too. Arguments as for `lock`.
        """
        return self._lock_of(LockSettings.of("fair_lock", name, wait, lease, max_hold, token))

    @abstractmethod
    def _lock_of(self, settings: LockSettings) -> LockT: ...
