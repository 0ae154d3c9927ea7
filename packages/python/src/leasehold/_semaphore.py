"""The semaphore of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold._lease import Lease
from leasehold._lock import BaseLock, Hold, Lock
from leasehold._settings import INHERIT, Duration, Inherited, LockSettings

if TYPE_CHECKING:
    from leasehold._client import Client


class Semaphore(BaseLock):
    """So many permits, by name. Made by `Client.semaphore`; cheap, shared as you like.

    A lease holds one permit or several. Nobody enters again: every acquire takes new
    permits, also by a thread that has some. Those of a process that died come back when
    their lease ends. Leases have no token. `with semaphore as lease:` takes one permit.

        printers = client.semaphore("printers", 3)
        with printers.hold(permits=2):
            print_on_two()
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
    ) -> Lease:
        """Takes `permits` permits, all or none, and gives their lease: 1 to 1,000, and no
        more than the limit.

        `wait` is the semaphore's unless given; `None` waits as long as the server
        answers. Ctrl-C ends every wait within 100 ms, and leaves nothing behind.

        Raises `LockTimeoutError` after `wait`, `MisconfiguredError` while permits are
        held that agreed on another limit, `InvalidArgumentError`, `UnavailableError`,
        `ClosedError`.
        """
        return self._client._enter(self._asking(permits, wait, lease, max_hold, renew), [])

    def try_acquire(
        self,
        permits: int = 1,
        wait: Duration | None = 0,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Lease | None:
        """Takes `permits` permits within `wait` and gives their lease; `None` if too few are free.

        Raises what `acquire` raises, but no `LockTimeoutError`.
        """
        return self._client._acquire(self._asking(permits, wait, lease, max_hold, renew))

    def hold(
        self,
        permits: int = 1,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Hold:
        """A context manager: `with semaphore.hold(permits=2, wait=5) as lease:`.
        Raises what `acquire` raises."""
        return Hold(self._client, self._asking(permits, wait, lease, max_hold, renew))

    def permits(self, permits: int) -> Lock:
        """`permits` permits as a lock, as `multi_lock` takes it: 1 to 1,000, and no more than
        the limit, checked when it is used. It has the semaphore's settings, is not
        reentrant, and is `locked()` if anybody holds any permit.
        """
        return Lock(self._client, self._settings.asking(permits, self._limit))

    def available(self) -> int:
        """How many permits are free now. Asks the server."""
        _, permits = self._client._inspect(self._settings)
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


def free(permits: tuple[int, int] | None, limit: int) -> int:
    """How many permits are free, as the server says how many are held of how many."""
    if permits is None:
        return limit
    held, agreed = permits
    return max(0, agreed - held)
