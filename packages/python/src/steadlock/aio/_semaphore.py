"""The semaphore of tasks."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from steadlock._context import current_owner
from steadlock._lock import free_permits
from steadlock._settings import INHERIT, Duration, Inherited
from steadlock.aio._lease import Lease, acquire
from steadlock.aio._lock import BaseLock, Hold, Lock


class Semaphore(BaseLock):
    """A number of permits with a name. Made by `Client.semaphore`; cheap to make, and any number of tasks can share it.

    A lease holds one or several permits. Not reentrant: every call acquires further permits, even in a task that holds
    some. The permits of a process that died become free when their lease ends. Leases have no token.
    `async with semaphore as lease:` acquires one permit.

        printers = client.semaphore("printers", 3)
        async with printers.hold(permits=2):
            await print_on_two()
    """

    __slots__ = ()

    @property
    def limit(self) -> int:
        """The number of permits with which this object was made."""
        return self._settings.limit

    def acquire(
        self,
        permits: int = 1,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Coroutine[Any, Any, Lease]:
        """Acquires `permits` permits (1 to 1,000, at most the limit), all or none, and returns their lease.

        The default of `wait` is the semaphore's; `None` waits as long as the server answers. A cancelled call is undone
        in the background.

        Raises `LockTimeoutError` after `wait`, `MisconfiguredError` while permits are held under another limit,
        `InvalidArgumentError`, `UnavailableError` (with `skipped` if the semaphore is skipped in an outage),
        `ClosedError`.
        """
        settings = self._settings.with_changes(wait, lease, max_hold, renew).with_permits(permits)
        return acquire(self._connection, settings, current_owner(), Lease)

    def try_acquire(
        self,
        permits: int = 1,
        wait: Duration | None = 0,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Coroutine[Any, Any, Lease | None]:
        """Acquires `permits` permits within `wait`, and returns their lease; `None` if too few are free, or the
        semaphore is skipped in an outage.

        Raises what `acquire` raises otherwise.
        """
        return self._try_acquire(
            self._settings.with_changes(wait, lease, max_hold, renew).with_permits(permits), current_owner()
        )

    def hold(
        self,
        permits: int = 1,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Hold:
        """Returns a context manager: `async with semaphore.hold(permits=2, wait=5) as lease:`. It raises what `acquire`
        raises.
        """
        return Hold(self._connection, self._settings.with_changes(wait, lease, max_hold, renew).with_permits(permits))

    def permits(self, permits: int) -> Lock:
        """Returns `permits` permits (1 to 1,000, at most the limit) as a lock, for `multi_lock`. The number is checked
        when the lock is used. The lock has the semaphore's settings, is not reentrant, and is `locked()` while any
        permit of the semaphore is held.
        """
        return Lock(self._connection, self._settings.with_permits(permits))

    async def available(self) -> int:
        """Asks the server how many permits are free now."""
        connection = self._connection
        submit = connection.native.submit_inspect
        return free_permits(await connection.mailbox.call("inspect", submit, self._settings.lock), self.limit)
