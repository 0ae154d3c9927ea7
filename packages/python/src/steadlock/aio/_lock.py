"""The locks of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from steadlock import _native
from steadlock._context import current_owner
from steadlock._lock import NamedLock, ReadWriteLockBase
from steadlock._not_copyable import LOCK_COPY_ADVICE, NotCopyable
from steadlock._outcomes import LostReason, Released, ReleaseOutcome
from steadlock._reentrant_queue import append_result, remove_item
from steadlock._settings import INHERIT, Duration, Inherited, LockSettings
from steadlock._shown import shown
from steadlock.aio._connection import Connection
from steadlock.aio._lease import Lease, Owner, acquire
from steadlock.aio._mailbox import Request
from steadlock.errors import Holder, InvalidArgumentError, SteadlockError, holder_of, is_not_granted


class Scope:
    """The methods for `async with`. They are plain functions that return a coroutine, because an `async` function would
    cost a second one.

    In the client's loop the release begins with the call of `__aexit__`, so no interrupt of the task can prevent it.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        # The protocols of context managers require `async` methods, so type checkers see these.
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


class EnteredLock(NamedLock[Connection[Lease], Lease], Scope):
    """The common base of all that an `async with` can enter."""

    __slots__ = ("_entered",)
    _makes: ClassVar[type[Lease]] = Lease
    """The class of the leases."""

    def __init__(self, connection: Connection[Lease], settings: LockSettings) -> None:
        super().__init__(connection, settings)
        self._entered: Entered = {}

    @property
    def lease(self) -> Lease | None:
        """The lease that the caller acquired last and has not released; `None` if there is none, or only a lost fixed
        lease.
        """
        owner = current_owner()
        return None if owner is None else self._connection.holds.innermost(self._settings.key, owner.number)

    def _begin(self) -> Coroutine[Any, Any, Lease]:
        return Hold(self._connection, self._settings)._enter(self)

    def _innermost_scope(self) -> Hold | None:
        """Returns the scope that ends."""
        is_in_loop = asyncio._get_running_loop() is not None
        entered = self._entered.get(asyncio.current_task() if is_in_loop else None)
        if entered is None and len(self._entered) == 1:
            # A framework can end a scope in one task that it began in another, as a fixture of pytest does.
            (entered,) = self._entered.values()
        return entered[-1] if entered else None

    def _take_out(self, hold: Hold) -> None:
        """Removes a scope that ends. Idempotent."""
        scopes = self._entered.get(hold._task)
        if scopes is None:
            return
        remove_item(scopes, hold)
        if not scopes:
            self._entered.pop(hold._task, None)

    def __repr__(self) -> str:
        return f"<steadlock.aio.{type(self).__name__} {shown(self.name)!r}>"

    async def _not_entered(self, body_raised: bool) -> None:
        if not body_raised:
            raise self._not_owner("other tasks entered its scopes; leave each where it was entered, or use hold()")


class BaseLock(EnteredLock):
    """The common base of locks and semaphores."""

    __slots__ = ()

    def release(self) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Releases the last lease of this name that the calling task acquired; outside of an event loop, the last one
        of the calling thread. Returns `released`, or `unknown` if the server does not answer within the command
        timeout; the release is then retried in the background.

        Raises `LockLostError` if the lock was lost, also if the release is the first to find that; `NotOwnerError` if
        the task holds no lease of this name, also because a fixed lease has expired. See `Lease.release`.
        """
        owner = current_owner()
        lease = None if owner is None else self._connection.holds.innermost(self._settings.key, owner.number)
        if lease is None or self._connection.is_closed:
            return self._release_unknown(owner)
        return self._await_release(lease, lease._begin_release())

    async def _await_release(self, lease: Lease, request: Request | None) -> ReleaseOutcome:
        released = await lease._await_release(request or lease._post_release())
        return self._outcome_or_raise(released, lease._native.is_forgotten)

    async def _release_unknown(self, owner: Owner) -> ReleaseOutcome:
        """Lets the core find the lease to release, because it can be of the other kind: `lock(name)` and
        `fair_lock(name)` share their owners. Raises the core's error if the owner holds none, or if the client is
        closed.
        """
        if owner is None:
            raise self._not_owner("it was called in a callback, which owns nothing; use lease.release()")
        connection = self._connection
        submit = connection.native.submit_release_innermost
        released: Released = await connection.mailbox.call("release", submit, self._settings.lock, owner.number)
        connection.forget_by_id(*released)
        return self._outcome_or_raise(released, False)

    def _outcome_or_raise(self, released: Released, is_forgotten: bool) -> ReleaseOutcome:
        _, outcome, lost = released
        if lost is not None:
            raise _native.lost_error(self.name, lost, is_forgotten)
        return outcome

    async def _try_acquire(self, settings: LockSettings, owner: Owner) -> Lease | None:
        """Acquires the lock; returns `None` if another owner holds it, or it is skipped."""
        try:
            return await acquire(self._connection, settings, owner, Lease)
        except SteadlockError as error:
            if not is_not_granted(error):
                raise
            return None


class Lock(BaseLock):
    """A lock with a name. Made by a `Client`; cheap to make, and any number of tasks can share it.

    The task that holds the lock can acquire it again, unless the lock is a mutex, a RedLock, or permits of a semaphore;
    the re-entry makes a server call only if the new lease lasts longer. Other tasks of the client wait in order of
    arrival. The owner is the task that *calls* a method, not the task that awaits it, so
    `asyncio.wait_for(lock.acquire(), 5)` works. If a helper task calls `acquire` (a task of `create_task`, `gather` or
    `wait_for` around your own coroutine), the helper task is the owner, and not its caller; when the helper task ends,
    the lock is released with a `RuntimeWarning`, unless the program still refers to the lease. Outside of an event loop
    the owner is the calling thread, as in `loop.run_until_complete(lock.acquire())` and
    `asyncio.run_coroutine_threadsafe(lock.acquire(), loop)`. Use the lock as a context manager, which returns the
    `Lease`:

        async with client.lock("report") as lease:
            await write_report(fencing_token=lease.token)
    """

    __slots__ = ()

    def acquire(self, blocking: bool = True, timeout: Duration = -1) -> Coroutine[Any, Any, bool]:
        """Acquires the lock. Returns whether it was granted; the property `lease` has the lease.

        `timeout` bounds the wait; -1 means the lock's own `wait`. With `blocking=False` makes one attempt. A wait
        without a bound ends with `UnavailableError` when the server has not answered for the length of the client's
        lease. A cancelled call is undone in the background.

        If the lock is skipped in an outage (`on_unavailable="skip"`), returns `False` if the wait has a bound. Without
        a bound raises `UnavailableError` with `skipped`, because callers then rely on the lock and do not check the
        result.

        Raises `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError` (also in a callback of the loop, which
        could not release the lock), `LockLostError` (this task has lost an auto-renewed lease of the lock and has not
        released it yet), `ClosedError`.
        """
        owner = current_owner()
        if owner is None:
            raise InvalidArgumentError(
                f"acquire of lock {shown(self.name)!r}: it was called in a callback of the event loop, which ends "
                "before it could release the lock; acquire it in a task, best by `async with`, or keep the lease that "
                "`try_acquire` returns",
                lock_name=self.name,
                operation="acquire",
            )
        return self._acquire(self._settings.with_blocking(blocking, timeout), owner)

    def try_acquire(
        self,
        wait: Duration | None = 0,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Coroutine[Any, Any, Lease | None]:
        """Acquires the lock within `wait`, and returns the lease; `None` if another owner holds the lock, or it is
        skipped in an outage.

        `wait=None` waits as long as the server answers. If the call comes from a callback of the loop, the lease has no
        owner, and is released with a `RuntimeWarning` when the program does not refer to it any more. Otherwise raises
        what `acquire` raises.
        """
        return self._try_acquire(self._settings.with_changes(wait, lease, max_hold, renew), current_owner())

    def hold(
        self,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Hold:
        """Returns a context manager like the lock itself, with other settings:
        `async with lock.hold(wait=5) as lease:`. It raises `LockTimeoutError` after `wait`, and `UnavailableError` with
        `skipped` if the lock is skipped in an outage; the body does not run then.
        """
        return Hold(self._connection, self._settings.with_changes(wait, lease, max_hold, renew))

    def owned(self) -> bool:
        """Whether the calling task, or outside of an event loop the calling thread, holds the lock now with a valid
        lease. Makes no server call.
        """
        return self._is_held()

    async def locked(self) -> bool:
        """Asks the server whether the lock is held."""
        return await self.holder() is not None

    async def holder(self) -> Holder | None:
        """Asks the server for the holder of the lock, and for how long it holds the lock if nothing renews it; `None`
        if the lock is free.

        If there are several readers or holders of permits, returns the one whose record ends last. Raises
        `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError` (a bad name, or a `multi_lock`: ask its
        members), `ClosedError`.
        """
        connection = self._connection
        submit = connection.native.submit_inspect
        holder, *_ = await connection.mailbox.call("inspect", submit, self._settings.lock)
        return holder_of(holder)

    async def _acquire(self, settings: LockSettings, owner: Owner) -> bool:
        try:
            await acquire(self._connection, settings, owner, Lease)
        except SteadlockError as error:
            if settings.wait is None or not is_not_granted(error):
                raise
            return False
        return True


class ReadWriteLock(ReadWriteLockBase[Lock]):
    """A lock with two sides: many owners can hold `read`, or one owner `write`. Made by a `Client`.

    A waiting writer keeps new readers out for two seconds at a time, so neither side starves if reads take less than
    two seconds. The task that holds the write side can acquire the read side too, and keeps it when it releases the
    write side. The reverse is refused with `InvalidArgumentError`, because the task would wait for itself.

        catalogue = client.read_write_lock("catalogue")
        async with catalogue.read:
            await look_up()
    """

    __slots__ = ()


class Hold(Scope, NotCopyable):
    """One `async with` of a lock or semaphore. Made by `hold`; can be used once."""

    __slots__ = ("_cancelled", "_cancelling", "_connection", "_lease", "_settings", "_task", "_uncancelled")
    _copy_advice = LOCK_COPY_ADVICE

    def __init__(self, connection: Connection[Lease], settings: LockSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._lease: Lease | None = None
        # The task inside the scope, and its number of cancellations when the scope began.
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        # The results of `Task.cancel` and `Task.uncancel`, after this scope has called them.
        self._cancelled: list[bool] = []
        self._uncancelled: list[int] = []

    def _begin(self) -> Coroutine[Any, Any, Lease]:
        return self._enter(None)

    async def _enter(self, lock: EnteredLock | None) -> Lease:
        """Acquires the lock, and adds this scope to the scopes of `lock` that the task has entered. `lock` is `None`
        for `hold()`, which needs no list.
        """
        if self._lease is not None:
            raise RuntimeError("a hold can be entered only once; call lock.hold() for each `async with`")
        try:
            make = Lease if lock is None else lock._makes
            self._lease = lease = await acquire(self._connection, self._settings, current_owner(), make)
            self._task = task = asyncio.current_task()
            if task is not None:
                self._cancelling = task.cancelling()
                lease._enter(self._cancel)
            if lock is not None:
                lock._entered.setdefault(task, []).append(self)
        except BaseException:
            # An exception of a signal handler can also come after the grant.
            _native.uninterrupted(self._undo, lock)
            raise
        return lease

    def _undo(self, lock: EnteredLock | None) -> None:
        """Undoes a failed entry. Idempotent."""
        if self._lease is not None:
            self._lease._abandon()
        if lock is not None:
            lock._take_out(self)
        self._lease = self._task = None

    def _innermost_scope(self) -> Hold | None:
        return None if self._lease is None else self

    def _take_out(self, hold: Hold) -> None: ...

    async def _not_entered(self, body_raised: bool) -> None:
        """Does nothing, because a second end does no harm."""

    def _abandon(self) -> None:
        """Releases the lease in the background. Idempotent."""
        if self._lease is not None:
            self._lease._abandon()
        self._undo_cancellation()
        self._task = None

    def _begin_to_leave(
        self, kind: type[BaseException] | None, raised: BaseException | None
    ) -> Coroutine[Any, Any, None]:
        """Begins the release, and returns the coroutine that waits for it. Outside of the client's loop, the coroutine
        begins the release too.
        """
        if self._connection.mailbox.can_post_here():
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
        if kind is not None:
            lease._body_raised()
        self._undo_cancellation()
        # The same rule as in `asyncio.timeout`: if other code has cancelled the task too, that cancellation stays in
        # effect.
        is_only_ours = bool(self._uncancelled) and self._uncancelled[0] <= self._cancelling
        is_ours = is_only_ours and task is asyncio.current_task()
        our_cancellation = kind is asyncio.CancelledError and is_ours
        self._task = None
        return self._finish(lease, lease._begin_to_leave(), raised, kind is None or our_cancellation)

    async def _finish(
        self, lease: Lease, begun: Request | LostReason, raised: BaseException | None, may_raise: bool
    ) -> None:
        """Waits for the release. Raises `LockLostError` for a lost lease, unless the body raised: then the body's
        exception gets a note.
        """
        error = await lease._await_scope_end(begun)
        try:
            if error is not None and may_raise:
                raise error from raised
            if error is not None and raised is not None:
                _add_note(raised, error)
        finally:
            # Breaks a reference cycle: the traceback of the error refers to this frame.
            error = None

    def _undo_cancellation(self) -> None:
        """Undoes the cancellation of the task by this scope, if there was one. Idempotent."""
        task = self._task
        if task is not None and any(self._cancelled) and not self._uncancelled:
            append_result(self._uncancelled, type(task).uncancel, task)

    def _cancel(self) -> None:
        """Cancels the task in the scope, because the lease is lost. Idempotent, because the scope undoes only one
        cancellation.
        """
        if self._task is None or self._lease is None or self._task.get_loop().is_closed():
            return
        message = f"{self._lease!r}"
        if not self._cancelled:
            append_result(self._cancelled, self._task.cancel, message)


def _add_note(raised: BaseException, error: Exception) -> None:
    """Adds a note about `error` to the exception of the body, because `error` is not raised. Adds it once, even for
    several levels of one lock.
    """
    text = str(error)
    with suppress(Exception):
        if raised is not error and text not in getattr(raised, "__notes__", ()):
            raised.add_note(text)


Entered: TypeAlias = dict[asyncio.Task[Any] | None, list[Hold]]
"""The entered scopes of one lock by task, innermost last."""
