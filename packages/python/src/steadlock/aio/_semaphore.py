"""The semaphore of tasks."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from steadlock._context import this_owner
from steadlock._lock import free_of
from steadlock._settings import INHERIT, Duration, Inherited
from steadlock.aio._lease import Lease, acquire
from steadlock.aio._lock import BaseLock, Hold, Lock


class Semaphore(BaseLock):
    """So many permits, by name. Made by `Client.semaphore`; cheap, shared as you like.

    A lease holds one permit or several. Nobody enters again: every acquire takes new
    permits, also by a task that has some. Those of a process that died come back when
    their lease ends. Leases have no token. `async with semaphore as lease:` takes one
    permit.

        printers = client.semaphore("printers", 3)
        async with printers.hold(permits=2):
            await print_on_two()
    """

    __slots__ = ()

    @property
    def limit(self) -> int:
        """How many permits there are."""
        return self._settings.limit

    def acquire(
        self,
        permits: int = 1,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Coroutine[Any, Any, Lease]:
        """Takes `permits` permits, all or none, and gives their lease: 1 to 1,000, and no
        more than the limit.

        `wait` is the semaphore's unless given; `None` waits as long as the server
        answers. A caller that is cancelled leaves nothing behind.

        Raises `LockTimeoutError` after `wait`, `MisconfiguredError` while permits are
        held that agreed on another limit, `InvalidArgumentError`, `UnavailableError` (with
        `skipped` if the semaphore is skipped in an outage), `ClosedError`.
        """
        settings = self._settings.but(wait, lease, max_hold, renew).asking(permits)
        return acquire(self._connection, settings, this_owner())

    def try_acquire(
        self,
        permits: int = 1,
        wait: Duration | None = 0,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Coroutine[Any, Any, Lease | None]:
        """Takes `permits` permits within `wait` and gives their lease; `None` if too few are free,
        or the semaphore is skipped in an outage.

        Raises what `acquire` raises otherwise.
        """
        return self._tried(self._settings.but(wait, lease, max_hold, renew).asking(permits), this_owner())

    def hold(
        self,
        permits: int = 1,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Hold:
        """A context manager: `async with semaphore.hold(permits=2, wait=5) as lease:`.
        Raises what `acquire` raises."""
        return Hold(self._connection, self._settings.but(wait, lease, max_hold, renew).asking(permits))

    def permits(self, permits: int) -> Lock:
        """`permits` permits as a lock, as `multi_lock` takes it: 1 to 1,000, and no more than
        the limit, checked when it is used. It has the semaphore's settings, is not
        reentrant, and is `locked()` if anybody holds any permit.
        """
        return Lock(self._connection, self._settings.asking(permits))

    async def available(self) -> int:
        """How many permits are free now. Asks the server."""
        connection = self._connection
        submit = connection.native.submit_inspect
        return free_of(await connection.mailbox.outcome("inspect", submit, self._settings.address), self.limit)
