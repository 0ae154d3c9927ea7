"""The locks of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from steadlock import _native
from steadlock._context import this_owner
from steadlock._copying import HOW_WITH_LOCKS, Uncopied
from steadlock._endings import LostReason, Released, ReleaseOutcome
from steadlock._handing_on import take_out
from steadlock._lock import NamedLock, ReadWriteLockBase
from steadlock._settings import INHERIT, Duration, Inherited, LockSettings
from steadlock._shown import shown
from steadlock.aio._connection import Connection
from steadlock.aio._lease import Lease, Owner, acquire
from steadlock.aio._mailbox import Request
from steadlock.errors import Holder, InvalidArgumentError, SteadlockError, holder_of, is_not_granted


class Scope:
    """What `async with` calls: functions that give a coroutine, as one that awaited it would cost another.

    The release begins with the call of `__aexit__`: what strikes a task skips none.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        # Protocols of context managers ask for `async` methods.
        async def __aenter__(self) -> Lease: ...
        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            raised: BaseException | None,
            traceback: TracebackType | None,
        ) -> None: ...
    else:

        def __aenter__(self):
            return self._begin()

        __aexit__ = _native.AsyncScopeEnd()

    def _begin(self) -> Coroutine[Any, Any, Lease]:
        raise NotImplementedError


class BaseLock(NamedLock[Connection[Lease], Lease], Scope):
    """What a lock and a semaphore have in common."""

    __slots__ = ("_entered",)

    def __init__(self, connection: Connection[Lease], settings: LockSettings) -> None:
        super().__init__(connection, settings)
        self._entered: Entered = {}

    def release(self) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Releases what the calling task acquired last of this name; outside of an event loop, what the
        calling thread did. Says `released`, or `unknown` if the server does not answer within the
        command timeout; then it goes on.

        Raises `LockLostError` if the lock was lost, also if the release itself finds that out;
        `NotOwnerError` if the task holds nothing of it, also because a fixed lease has
        expired. See `Lease.release`.
        """
        owner = this_owner()
        lease = None if owner is None else self._connection.holds.innermost(self._settings.key, owner.number)
        if lease is None or self._connection.is_closed:
            return self._release_unknown(owner)
        return self._released(lease, lease._begin_release())

    @property
    def lease(self) -> Lease | None:
        """What the calling task took last of this name; `None` if it holds nothing of it."""
        owner = this_owner()
        return None if owner is None else self._connection.holds.innermost(self._settings.key, owner.number)

    def _begin(self) -> Coroutine[Any, Any, Lease]:
        return Hold(self._connection, self._settings)._enter(self)

    def _innermost_scope(self) -> Hold | None:
        """The scope that is left."""
        is_in_loop = asyncio._get_running_loop() is not None
        entered = self._entered.get(asyncio.current_task() if is_in_loop else None)
        if entered is None and len(self._entered) == 1:
            # A framework ends in one task what it began in another: a fixture of pytest.
            (entered,) = self._entered.values()
        return entered[-1] if entered else None

    def _take_out(self, hold: Hold) -> None:
        """This scope is left. Idempotent."""
        scopes = self._entered.get(hold._task)
        if scopes is None:
            return
        take_out(scopes, hold)
        if not scopes:
            self._entered.pop(hold._task, None)

    def __repr__(self) -> str:
        return f"<steadlock.aio.{type(self).__name__} {shown(self.name)!r}>"

    async def _not_entered(self, body_raised: bool) -> None:
        if not body_raised:
            raise self._not_owner("other tasks entered its scopes; leave each where it was entered, or use hold()")

    async def _released(self, lease: Lease, request: Request | None) -> ReleaseOutcome:
        released = await lease._released(request or lease._post_release())
        return self._outcome(released, lease._native.is_forgotten)

    async def _release_unknown(self, owner: Owner) -> ReleaseOutcome:
        """Of what the core may know of, if it is held under another name of the same lock."""
        if owner is None:
            raise self._not_owner("it was called in a callback, which owns nothing; use lease.release()")
        connection = self._connection
        submit = connection.native.submit_release_innermost
        released: Released = await connection.mailbox.outcome("release", submit, self._settings.address, owner.number)
        connection.forget_number(*released)
        return self._outcome(released, False)

    def _outcome(self, released: Released, is_forgotten: bool) -> ReleaseOutcome:
        _, outcome, lost = released
        if lost is not None:
            raise _native.lost_error(self.name, lost, is_forgotten)
        return outcome

    async def _tried(self, settings: LockSettings, owner: Owner) -> Lease | None:
        """Acquires it; `None` if another owner holds it, or it is skipped."""
        try:
            return await acquire(self._connection, settings, owner)
        except SteadlockError as error:
            if not is_not_granted(error):
                raise
            return None


class Lock(BaseLock):
    """A lock by name. Made by a `Client`; cheap, and shared by tasks as they like.

    The task that acquired it may acquire it again with no server call, unless it is a
    mutex; every other task waits, first come, first served. The owner is the task that
    *calls* a method, not the one that awaits it: `asyncio.wait_for(lock.acquire(), 5)`
    works. A helper task that calls `acquire` (one of `create_task`, `gather` or `wait_for` around a
    coroutine of your own) is the owner, not its caller; when it ends, the lock is released with a
    `RuntimeWarning`. Outside of an event loop the owner is the calling thread, as in
    `loop.run_until_complete(lock.acquire())` and `asyncio.run_coroutine_threadsafe(lock.acquire(), loop)`.
    Use it as a context manager, which gives the `Lease`:

        async with client.lock("report") as lease:
            await write_report(fencing_token=lease.token)
    """

    __slots__ = ()

    def acquire(self, blocking: bool = True, timeout: Duration = -1) -> Coroutine[Any, Any, bool]:
        """Acquires the lock; says whether it did. Use `lease` for the grant.

        `timeout` bounds the wait; -1 means the lock's own `wait`. Not `blocking` tries
        once. A wait without bound ends with `UnavailableError` once the server has not
        answered for the client's lease. A caller that is cancelled leaves nothing behind.

        For a lock that is skipped in an outage (`on_unavailable="skip"`) it says `False` if the
        wait has a bound. Without one it raises `UnavailableError` with `skipped`: callers rely
        on the lock then, and do not look at the result.

        Raises `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError` (also in a callback of
        the loop, which could not release it), `LockLostError` (this task has lost a lease of it that
        was renewed, and has not left it yet), `ClosedError`.
        """
        owner = this_owner()
        if owner is None:
            raise InvalidArgumentError(
                f"acquire of lock {shown(self.name)!r}: it was called in a callback of the event loop, which ends "
                "before it could release the lock; acquire it in a task, best by `async with`, or keep the lease that "
                "`try_acquire` gives",
                lock_name=self.name,
                operation="acquire",
            )
        return self._acquired(self._settings.blocking(blocking, timeout), owner)

    def try_acquire(
        self,
        wait: Duration | None = 0,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Coroutine[Any, Any, Lease | None]:
        """Acquires the lock within `wait` and returns the lease; `None` if another owner holds it, or it
        is skipped in an outage.

        `wait=None` waits as long as the server answers. Called in a callback of the loop, the lease has no
        owner, and is released with a `RuntimeWarning` once nobody refers to it. Raises what `acquire` raises
        otherwise.
        """
        return self._tried(self._settings.but(wait, lease, max_hold, renew), this_owner())

    def hold(
        self,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Hold:
        """A context manager like the lock itself, with other settings:
        `async with lock.hold(wait=5) as lease:`. Raises `LockTimeoutError` after `wait`, and
        `UnavailableError` with `skipped` if the lock is skipped in an outage; the body does not
        run then."""
        return Hold(self._connection, self._settings.but(wait, lease, max_hold, renew))

    def owned(self) -> bool:
        """Whether the calling task holds the lock now, by a lease that is valid."""
        return self._is_held()

    async def locked(self) -> bool:
        """Whether anybody holds the lock. Asks the server."""
        return await self.holder() is not None

    async def holder(self) -> Holder | None:
        """Who holds the lock, and for how long if nothing renews it; `None` if it is free.
        Asks the server.

        Of several readers, or of holders of permits, it is the one whose record ends last.
        Raises `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError` (a bad name,
        or several locks as one: ask each of them), `ClosedError`.
        """
        connection = self._connection
        submit = connection.native.submit_inspect
        told, _ = await connection.mailbox.outcome("inspect", submit, self._settings.address)
        return holder_of(told)

    async def _acquired(self, settings: LockSettings, owner: Owner) -> bool:
        try:
            await acquire(self._connection, settings, owner)
        except SteadlockError as error:
            if settings.wait is None or not is_not_granted(error):
                raise
            return False
        return True


class ReadWriteLock(ReadWriteLockBase[Lock]):
    """A lock with two sides, of which many may hold `read`, or one `write`. Made by a `Client`.

    A waiting writer keeps new readers out, for two seconds at a time, so that neither
    side starves. The task that holds the write side may take the read side too, and
    keeps it when it releases the write side. The other way round is refused as
    `InvalidArgumentError`, since it would wait for itself.

        catalogue = client.read_write_lock("catalogue")
        async with catalogue.read:
            await look_up()
    """

    __slots__ = ()


class Hold(Scope, Uncopied):
    """One `async with` of a lock or semaphore. Made by their `hold`; used once."""

    __slots__ = ("_cancelled", "_cancelling", "_connection", "_lease", "_settings", "_task")
    _instead = HOW_WITH_LOCKS

    def __init__(self, connection: Connection[Lease], settings: LockSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._lease: Lease | None = None
        # The task inside of the scope, and what asyncio needs to tell cancellations apart.
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._cancelled = False

    def _begin(self) -> Coroutine[Any, Any, Lease]:
        return self._enter(None)

    async def _enter(self, lock: BaseLock | None) -> Lease:
        """Acquires the lock, and appends this scope to those of the lock that its task has entered."""
        if self._lease is not None:
            raise RuntimeError("a hold is entered once; call lock.hold() for each `async with`")
        try:
            self._lease = lease = await acquire(self._connection, self._settings, this_owner())
            self._task = task = asyncio.current_task()
            if task is not None:
                self._cancelling = task.cancelling()
                lease._enter(self._cancel)
            if lock is not None:
                lock._entered.setdefault(task, []).append(self)
        except BaseException:
            # What a signal handler raises may strike after the grant.
            _native.uninterrupted(self._undo, lock)
            raise
        return lease

    def _undo(self, lock: BaseLock | None) -> None:
        """It was not entered. Idempotent."""
        if self._lease is not None:
            self._lease._abandon()
        if lock is not None:
            lock._take_out(self)
        self._lease = self._task = None

    def _innermost_scope(self) -> Hold | None:
        return None if self._lease is None else self

    def _take_out(self, hold: Hold) -> None: ...

    async def _not_entered(self, body_raised: bool) -> None:
        """A second end does no harm."""

    def _abandon(self) -> None:
        """Has it released in the background. Idempotent."""
        if self._lease is not None:
            self._lease._abandon()
        self._task = None

    def _begin_to_leave(
        self, kind: type[BaseException] | None, raised: BaseException | None
    ) -> Coroutine[Any, Any, None]:
        """Begins to release, and gives what awaits that; outside of the client's loop that begins it, too."""
        if self._connection.mailbox.is_at_home():
            return self._leave(kind, raised)
        return self._leave_later(kind, raised)

    async def _leave_later(self, kind: type[BaseException] | None, raised: BaseException | None) -> None:
        try:
            leaving = self._leave(kind, raised)
        except BaseException:
            _native.uninterrupted(self._abandon)
            raise
        await leaving

    def _leave(self, kind: type[BaseException] | None, raised: BaseException | None) -> Coroutine[Any, Any, None]:
        lease, task = self._lease, self._task
        if lease is None:
            return self._not_entered(kind is not None)
        self._task = None
        our_cancellation = False
        if self._cancelled and task is not None:
            # As asyncio.timeout does: a cancellation that somebody else asked for goes on.
            asked = task.uncancel() > self._cancelling
            is_ours = task is asyncio.current_task() and not asked
            our_cancellation = kind is asyncio.CancelledError and is_ours
        return self._left(lease, lease._begin_to_leave(), raised, kind is None or our_cancellation)

    async def _left(
        self, lease: Lease, begun: Request | LostReason, raised: BaseException | None, may_raise: bool
    ) -> None:
        """Raises `LockLostError` for a lost lease, unless the body raised; what that raised says it in a note."""
        error = await lease._left(begun)
        try:
            if error is not None and may_raise:
                raise error from raised
            if error is not None and raised is not None:
                _note(raised, error)
        finally:
            # Its traceback has this frame.
            error = None

    def _cancel(self) -> None:
        """The lease is lost: what runs in the scope must not go on."""
        if self._task is not None and self._lease is not None and not self._task.get_loop().is_closed():
            self._cancelled = self._task.cancel(f"{self._lease!r}")


def _note(raised: BaseException, error: Exception) -> None:
    """Has what the body raised say what else went wrong, which is not raised. Once, for several levels of one lock."""
    text = str(error)
    with suppress(Exception):
        if raised is not error and text not in getattr(raised, "__notes__", ()):
            raised.add_note(text)


Entered: TypeAlias = dict[asyncio.Task[Any] | None, list[Hold]]
"""The scopes of one lock that tasks are in, innermost last."""
