"""The common part of the clients for threads and for asyncio: the methods that make locks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from steadlock import _native
from steadlock._connection import ConnectionT
from steadlock._job import OnFailure, run_terms
from steadlock._lock import NamedLock
from steadlock._not_copyable import CLIENT_COPY_ADVICE, NotCopyable
from steadlock._settings import (
    Duration,
    LockSettings,
    OnUnavailable,
    checked_name,
    optional_milliseconds,
    permits_of,
)
from steadlock._shown import shown, type_of
from steadlock.errors import InvalidArgumentError

LockT = TypeVar("LockT", bound=NamedLock[Any, Any])
ReadWriteT = TypeVar("ReadWriteT")
SemaphoreT = TypeVar("SemaphoreT")
MemberT = TypeVar("MemberT", bound=NamedLock[Any, Any])
"""A possible member of a `multi_lock`: a lock or a semaphore."""
JobT = TypeVar("JobT", bound=NamedLock[Any, Any])
LeaderT = TypeVar("LeaderT", bound=NamedLock[Any, Any])


class ClientBase(ABC, NotCopyable, Generic[ConnectionT, LockT, ReadWriteT, SemaphoreT, MemberT, JobT, LeaderT]):
    """The part of a client that makes locks."""

    _copy_advice = CLIENT_COPY_ADVICE

    def __init__(self, connection: ConnectionT) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        native = self._connection.native
        # A lazy client is not connected before its first use.
        state = "closed" if self.closed else "open" if native.is_started() else "not connected yet"
        package = type(self).__module__.partition("._")[0]
        return f"<{package}.{type(self).__name__} of {native.server()}, {state}>"

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._connection.is_closed

    def metrics(self) -> str:
        """Returns the counts of this client in this process, in Prometheus' text format. Serve them with the content
        type `text/plain; version=0.0.4`. Makes no server call, and works for a closed client too. See docs/metrics.md
        for the list.

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
        """Returns the lock of this name: 1 to 512 bytes of UTF-8, with at most one `{tag}`.

        `wait` bounds every wait for the lock (default: no bound, as long as the server answers). `lease` is the length
        of a fixed lease, 100 ms to 24 h, which is not renewed (default: the client's lease, renewed until the release).
        With `renew`, a lease of this length, 300 ms to 24 h, is renewed until the release; without `lease`, `renew`
        changes nothing. `max_hold` is the longest hold, renewed or not. With `fencing=False` no fencing token is drawn.
        `hold` and `try_acquire` can override these for one call, except `fencing`; so can `acquire` of a semaphore,
        while `acquire` of a lock can override only `wait`. A call that sets `lease` gets a fixed lease unless it sets
        `renew` too.

        `on_unavailable` is how an acquisition ends while the circuit breaker of its server is open: `"fail"`, `"local"`
        or `"skip"`, as for `connect` (default: the client's setting). The client must have a circuit breaker, or an
        acquisition raises `InvalidArgumentError`.

        Makes no server call and checks no range: an acquisition checks the ranges, and raises `InvalidArgumentError`. A
        value of a wrong type raises `TypeError` at once, and an unknown word for `on_unavailable` raises
        `InvalidArgumentError`.
        """
        return self._make_lock(
            LockSettings.for_kind("lock", name, wait, lease, renew, max_hold, fencing, on_unavailable)
        )

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
        """Returns the mutex of this name, which has the record layout of most other lock libraries.

        A mutex excludes the locks of these libraries with the same key, so a team can migrate one service at a time. It
        is not reentrant: if a thread or task that holds it acquires it again without a bound, `InvalidArgumentError` is
        raised; with a bound, the wait times out unless the first lease ends meanwhile. Use a name either for a lock or
        for a mutex: acquiring one while the other is held raises `MisconfiguredError`. The arguments are those of
        `lock`.
        """
        return self._make_lock(
            LockSettings.for_kind("mutex", name, wait, lease, renew, max_hold, fencing, on_unavailable)
        )

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
        """Returns the fair lock of this name: a reentrant lock that serves waiters in order of arrival, across all
        processes.

        A fair lock excludes `lock(name)`, whose waiters can overtake those of the fair lock. The holder of either can
        acquire the other too. The arguments are those of `lock`.
        """
        return self._make_lock(
            LockSettings.for_kind("fair_lock", name, wait, lease, renew, max_hold, fencing, on_unavailable)
        )

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
        """Returns the read-write lock of this name: many owners can hold its `read` side, or one owner its `write`
        side. Only leases of the write side have a token. The arguments are those of `lock`, for both sides. The client
        never grants a side locally: in an outage, an acquisition with `on_unavailable="local"` fails.
        """
        sides = ("read_lock", "write_lock")
        settings = (
            LockSettings.for_kind(side, name, wait, lease, renew, max_hold, fencing, on_unavailable) for side in sides
        )
        read, write = map(self._make_lock, settings)
        return self._make_read_write_lock(read, write)

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
        """Returns the semaphore of this name with `limit` permits: 1 to 1,000,000.

        While any permit is held, the server keeps the limit; a call with another limit then raises
        `MisconfiguredError`. `set_limit` changes the limit. The other arguments are those of `lock`. The client never
        grants permits locally: in an outage, an acquisition with `on_unavailable="local"` fails.
        """
        permit = self._permit_of(name, limit)
        return self._make_semaphore(
            LockSettings.for_lock(permit, name, wait, lease, renew, max_hold, on_unavailable, limit=limit)
        )

    def once(
        self,
        name: str,
        *,
        at_least: Duration | None = None,
        key: str | None = None,
        keep: Duration | None = None,
        on_failure: OnFailure | None = None,
        lease: Duration | None = None,
        renew: bool = True,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: OnUnavailable | None = None,
    ) -> JobT:
        """Returns the job of this name, of which at most one run is under way at a time in the whole fleet.

        `at_least` is for how long after its start a run that ended well keeps others out, at most 24 h: a little more
        than the clocks of the instances can differ, and less than the time between two runs. The server's clock counts
        (default: no time). `key` names the run, such as the planned time or the number of an order: 1 to 512 bytes. A
        run of this key that ended well is not repeated while the server remembers it, for `keep`: 1 ms to 30 days
        (default: 24 h). `on_failure` is the effect of a failed run: with `"retry"` the job may run again at once, with
        `"keep"` the run counts as done (default: `"retry"`).

        `lease` is the length of the lease, 300 ms to 24 h, which is renewed while the job runs: after a crash the job
        is free when the lease ends (default: the client's lease). With `renew=False` a lease of this length, 100 ms to
        24 h, is not renewed, and a job that takes longer may be run by another process at the same time. `max_hold`,
        `fencing` and `on_unavailable` are those of `lock`; a job never runs without the server, so `"local"` fails like
        `"fail"`.

        Makes no server call and checks no range, as `lock`.
        """
        settings = LockSettings.for_kind("once", name, None, lease, renew, max_hold, fencing, on_unavailable)
        run = run_terms(optional_milliseconds(at_least), key, optional_milliseconds(keep), on_failure)
        return self._make_job(settings._replace(run=run))

    def leader(
        self,
        name: str,
        *,
        term: Duration | None = None,
        wait: Duration | None = None,
    ) -> LeaderT:
        """Returns the leader of the group of processes with this name.

        `term` is the length of a term, 300 ms to 24 h, which is renewed while its leader lives: after a crash of the
        leader, nobody leads for at most that long (default: 10 s). `wait` bounds every campaign (default: no bound, as
        long as the server answers). Makes no server call and checks no range, as `lock`.
        """
        return self._make_leader(LockSettings.for_kind("leader", name, wait, term, True, None, True, None))

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
        """Returns a composite lock of several locks of this client: a grant is for all of them. A semaphore stands for
        one of its permits; `Semaphore.permits` gives more.

        Members are acquired in the order of their keys, so two composite locks cannot deadlock. Kinds can be mixed.
        When one member is lost, all are. The lease has no token. The members' own `wait`, `lease`, `renew`, `max_hold`
        and `on_unavailable` are ignored. In an outage, an acquisition with `on_unavailable="local"` fails if a member
        is of a kind that is never granted locally; otherwise the lease is `degraded` if any member is. The `locked()`
        and `holder()` of this lock raise `InvalidArgumentError`: ask its members.

        Raises `InvalidArgumentError` for a lock of another client. `acquire` raises it for a composite lock without
        members, with a member twice, with both sides of a read-write lock, or with a composite lock as a member.
        """
        members = [self._own_settings(lock, "acquire") for lock in locks]
        composite: _native.LockRef = ("multi_lock", tuple(member.lock for member in members))
        name = ", ".join(member.name for member in members)
        return self._make_lock(LockSettings.for_lock(composite, name, wait, lease, renew, max_hold, on_unavailable))

    @staticmethod
    def _permit_of(name: str, limit: int) -> _native.LockRef:
        """Returns one permit of the semaphore of this name."""
        return permits_of(checked_name(name), 1, limit)

    def _own_settings(self, lock: NamedLock[Any, Any], operation: str) -> LockSettings:
        """Returns the settings of a lock. Refuses a lock of another client."""
        settings = getattr(lock, "_settings", None)
        if not isinstance(settings, LockSettings):
            raise TypeError(f"{operation}: expected a lock of this client, not a {type_of(lock)}")
        if lock._connection is not self._connection:
            raise InvalidArgumentError(
                f"{operation} of lock {shown(settings.name)!r}: another client made it; make it by this one",
                lock_name=settings.name,
                operation=operation,
            )
        return settings

    @abstractmethod
    def _make_lock(self, settings: LockSettings) -> LockT: ...
    @abstractmethod
    def _make_read_write_lock(self, read: LockT, write: LockT) -> ReadWriteT: ...
    @abstractmethod
    def _make_semaphore(self, settings: LockSettings) -> SemaphoreT: ...
    @abstractmethod
    def _make_job(self, settings: LockSettings) -> JobT: ...
    @abstractmethod
    def _make_leader(self, settings: LockSettings) -> LeaderT: ...
