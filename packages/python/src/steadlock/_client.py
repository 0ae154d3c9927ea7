"""What a client of threads and one of asyncio have in common: the methods that make locks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from steadlock import _kinds
from steadlock._connection import ConnectionT
from steadlock._copying import HOW_WITH_CLIENTS, Uncopied
from steadlock._lock import NamedLock
from steadlock._settings import Duration, LockSettings, OnUnavailable, checked_name
from steadlock._shown import shown, type_of
from steadlock.errors import InvalidArgumentError

LockT = TypeVar("LockT", bound=NamedLock[Any, Any])
ReadWriteT = TypeVar("ReadWriteT")
SemaphoreT = TypeVar("SemaphoreT")
MemberT = TypeVar("MemberT", bound=NamedLock[Any, Any])
"""What locks and semaphores have in common."""


class ClientBase(ABC, Uncopied, Generic[ConnectionT, LockT, ReadWriteT, SemaphoreT, MemberT]):
    """Makes the locks of one client."""

    _instead = HOW_WITH_CLIENTS

    def __init__(self, connection: ConnectionT) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        native = self._connection.native
        # A lazy one is not connected before its first use.
        state = "closed" if self.closed else "open" if native.is_started() else "not connected yet"
        face = type(self).__module__.partition("._")[0]
        return f"<{face}.{type(self).__name__} of {native.server()}, {state}>"

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._connection.is_closed

    def metrics(self) -> str:
        """What this client has counted in this process, in Prometheus' text format, to be served
        with the content type `text/plain; version=0.0.4`. A local look that asks no server;
        also of a client that was closed. docs/metrics.md says what there is.

        Raises `InvalidArgumentError` if the client was made without `metrics=True`.
        """
        return self._connection.native.metrics()

    def lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: OnUnavailable | None = None,
    ) -> LockT:
        """The lock of that name: 1 to 512 bytes of UTF-8, at most one `{tag}`.

        `wait` bounds every wait for it (default: none, as long as the server answers).
        `lease` is a fixed length of 100 ms to 24 h that nothing renews (default: the
        client's, renewed until release). With `renew` that length, 300 ms to 24 h, is renewed
        until release; without `lease` it says nothing new. A call that gives a `lease` of its
        own gets a fixed one, unless it says `renew` too. `max_hold` ends every hold, renewed
        or not. Without `fencing` no fencing token is drawn. Each call may have its own.

        `on_unavailable` is what becomes of an acquisition while the circuit breaker of its server
        is open: `"fail"`, `"local"` or `"skip"`, as for `connect` (default: what the client has).
        The client must have a circuit breaker, or `acquire` raises `InvalidArgumentError`.

        Nothing is sent yet, and no range checked: that is `acquire`'s business, which raises
        `InvalidArgumentError`. What is no duration, or no bool, is a `TypeError` at once, and
        another word for `on_unavailable` an `InvalidArgumentError`.
        """
        return self._lock_of(LockSettings.of("lock", name, wait, lease, renew, max_hold, fencing, on_unavailable))

    def mutex(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: OnUnavailable | None = None,
    ) -> LockT:
        """The simple lock of that name, in the layout of most other lock libraries.

        It excludes their locks of the same key, so that a team can move one service at a
        time. Not reentrant: a thread or task that holds it and asks again without a bound
        is refused with `InvalidArgumentError`, with one it ends as a timeout. A name is a
        lock's or a mutex's: each finds the other's record to be `MisconfiguredError`.
        Arguments as for `lock`.
        """
        return self._lock_of(LockSettings.of("mutex", name, wait, lease, renew, max_hold, fencing, on_unavailable))

    def fair_lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: OnUnavailable | None = None,
    ) -> LockT:
        """The reentrant lock of that name whose waiters are served in order of arrival,
        whatever their process.

        It excludes `lock(name)`, whose waiters may overtake. One who holds either may
        take the other too. Arguments as for `lock`.
        """
        return self._lock_of(LockSettings.of("fair_lock", name, wait, lease, renew, max_hold, fencing, on_unavailable))

    def read_write_lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: OnUnavailable | None = None,
    ) -> ReadWriteT:
        """The read-write lock of that name: many may hold its `read` side, or one its
        `write` side. Only the writer's leases have a token. Arguments as for `lock`, for
        both sides; but they are never granted locally: with `on_unavailable="local"` they fail.
        """
        sides = ("read_lock", "write_lock")
        settings = (
            LockSettings.of(side, name, wait, lease, renew, max_hold, fencing, on_unavailable) for side in sides
        )
        read, write = map(self._lock_of, settings)
        return self._read_write_of(read, write)

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        on_unavailable: OnUnavailable | None = None,
    ) -> SemaphoreT:
        """The semaphore of that name, of which there are `limit` permits: 1 to 1,000,000.

        The limit is agreed on the server while any permit is held; who asks for another
        one meanwhile gets `MisconfiguredError`. `set_limit` changes it. The other arguments
        are those of `lock`; but permits are never granted locally: with `on_unavailable="local"`
        an acquisition fails.
        """
        address = self._permit_address(name, limit)
        return self._semaphore_of(
            LockSettings.at(address, name, wait, lease, renew, max_hold, on_unavailable, limit=limit)
        )

    def multi_lock(
        self,
        locks: Iterable[MemberT],
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        on_unavailable: OnUnavailable | None = None,
    ) -> LockT:
        """Several locks of this client as one, all or none. A semaphore stands for one of its
        permits; `Semaphore.permits` gives more of them.

        They are taken in the order of their keys, so that two clients never wait for
        each other; kinds may be mixed. When one is lost, all are. The lease has no
        token. The locks' own `wait`, `lease`, `renew`, `max_hold` and `on_unavailable` do
        not count, these do. With `on_unavailable="local"` it fails if a kind among them is never
        granted locally; otherwise it is `degraded` if any of its locks is.
        `locked()` and `holder()` of several are refused as `InvalidArgumentError`: ask each
        of them.

        Raises `InvalidArgumentError` for a lock of another client; `acquire` does for no
        lock at all, for one that is named twice, and for several as one among them.
        """
        members = [self._settings_of(lock, "acquire") for lock in locks]
        address = _kinds.multi_address(member.address for member in members)
        name = ", ".join(member.name for member in members)
        return self._lock_of(LockSettings.at(address, name, wait, lease, renew, max_hold, on_unavailable))

    @staticmethod
    def _permit_address(name: str, limit: int) -> str:
        """The address of one permit of the semaphore of that name."""
        return _kinds.semaphore_address(1, limit, checked_name(name))

    def _settings_of(self, lock: MemberT, operation: str) -> LockSettings:
        """What a lock of this client was made with."""
        settings = getattr(lock, "_settings", None)
        if not isinstance(settings, LockSettings):
            raise TypeError(f"{operation}: a lock of this client is wanted, not a {type_of(lock)}")
        if lock._connection is not self._connection:
            raise InvalidArgumentError(
                f"{operation} of lock {shown(settings.name)!r}: another client made it; make it by this one",
                lock_name=settings.name,
                operation=operation,
            )
        return settings

    @abstractmethod
    def _lock_of(self, settings: LockSettings) -> LockT: ...
    @abstractmethod
    def _read_write_of(self, read: LockT, write: LockT) -> ReadWriteT: ...
    @abstractmethod
    def _semaphore_of(self, settings: LockSettings) -> SemaphoreT: ...
