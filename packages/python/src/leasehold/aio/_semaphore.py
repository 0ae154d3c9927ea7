"""The semaphore of tasks."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from leasehold._context import this_task
from leasehold._semaphore import free
from leasehold._settings import INHERIT, Duration, Inherited, LockSettings
from leasehold.aio._lease import Lease
from leasehold.aio._lock import BaseLock, Hold, Lock

if TYPE_CHECKING:
    from leasehold.aio._client import Client


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

    __slots__ = ("_limit",)

    def __init__(self, client: Client, settings: LockSettings, limit: int) -> None:
        super().__init__(client, settings)
        self._limit = limit

    @property
    def limit(self) -> int:
        """How many permits there are."""
        return self._limit

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
        held that agreed on another limit, `InvalidArgumentError`, `UnavailableError`,
        `ClosedError`.
        """
        return self._client._enter(self._asking(permits, wait, lease, max_hold, renew), this_task())

    def try_acquire(
        self,
        permits: int = 1,
        wait: Duration | None = 0,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Coroutine[Any, Any, Lease | None]:
        """Takes `permits` permits within `wait` and gives their lease; `None` if too few are free.

        Raises what `acquire` raises, but no `LockTimeoutError`.
        """
        return self._client._take(self._asking(permits, wait, lease, max_hold, renew), this_task())

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
        return Hold(self._client, self._asking(permits, wait, lease, max_hold, renew))

    def permits(self, permits: int) -> Lock:
        """`permits` permits as a lock, as `multi_lock` takes it: 1 to 1,000, and no more than
        the limit, checked when it is used. It has the semaphore's settings, is not
        reentrant, and is `locked()` if anybody holds any permit.
        """
        return Lock(self._client, self._settings.asking(permits, self._limit))

    async def available(self) -> int:
        """How many permits are free now. Asks the server."""
        client = self._client
        _, permits = await client._mailbox.outcome("inspect", client._native.submit_inspect, self._settings.address)
        return free(permits, self._limit)

    def _asking(
        self,
        permits: int,
        wait: Duration | Inherited | None,
        lease: Duration | Inherited | None,
        max_hold: Duration | Inherited | None,
        renew: bool | Inherited,
    ) -> LockSettings:
        return self._settings.but(wait, lease, max_hold, renew).asking(permits, self._limit)
