"""The locks of threads."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from steadlock import _native
from steadlock._context import current_caller
from steadlock._lock import NamedLock, ReadWriteLockBase
from steadlock._not_copyable import LOCK_COPY_ADVICE, NotCopyable
from steadlock._outcomes import ReleaseOutcome
from steadlock._settings import INHERIT, Duration, Inherited, LockSettings
from steadlock._shown import shown
from steadlock._threads.connection import Connection
from steadlock._threads.lease import Lease, acquire, held_by
from steadlock.errors import Holder, SteadlockError, holder_of, is_not_granted


class Scope:
    """The base class with the end of a `with`."""

    __slots__ = ()

    if TYPE_CHECKING:
        # The protocols of context managers require a method, so type checkers see one.
        def __exit__(
            self,
            kind: type[BaseException] | None,
            raised: BaseException | None,
            traceback: TracebackType | None,
        ) -> None: ...
    else:
        __exit__ = _native.ScopeEnd()


L = TypeVar("L", bound=Lease)


def innermost_of_caller(entered: list[L]) -> L | None:
    """Returns the lease of the scope that ends: the caller's innermost one. If the caller entered none, returns the
    lease of the last scope that another caller entered, because some frameworks begin a scope in one thread and end it
    in another.
    """
    number = current_caller().number
    entered = entered.copy()
    for lease in reversed(entered):
        if lease._owner.number == number:
            return lease
    return entered[-1] if entered else None


class BaseLock(NamedLock[Connection[Lease], Lease], Scope):
    """The common base of locks and semaphores."""

    __slots__ = ("_entered",)

    def __init__(self, connection: Connection[Lease], settings: LockSettings) -> None:
        super().__init__(connection, settings)
        self._entered: list[Lease] = []

    def release(self) -> ReleaseOutcome:
        """Releases the last lease of this name that the caller acquired. The caller is the calling thread, or the task
        or greenlet that runs in it. Other tasks of the same thread can release a lease that an ended task left held.

        Returns `released`, or `unknown` if the server does not answer within the command timeout; the release is then
        retried in the background.

        Raises `LockLostError` if the lock was lost, also if the release is the first to find that; `NotOwnerError` if
        the caller holds no lease of this name, also because a fixed lease has expired. See `Lease.release`.
        """
        caller = current_caller()
        connection, settings = self._connection, self._settings
        is_forgotten = False
        lease = held_by(connection, settings.key, caller)
        if lease is not None and not connection.is_closed:
            _, outcome, lost = lease._release()
            is_forgotten = lease._native.is_forgotten
        else:
            # The core also finds a lease of the other kind: a `lock(name)` releases what `fair_lock(name)` acquired.
            native = connection.native
            number, outcome, lost = connection.call(
                native.release_innermost, native.submit_release_innermost, settings.lock, caller.number
            )
            connection.forget_by_id(number, outcome, lost)
        if lost is not None:
            raise _native.lost_error(settings.name, lost, is_forgotten)
        return outcome

    @property
    def lease(self) -> Lease | None:
        """The lease of this lock that `release` releases; `None` if there is none, or only a lost fixed lease."""
        return held_by(self._connection, self._settings.key, current_caller())

    def __enter__(self) -> Lease:
        return acquire(self._connection, self._settings, current_caller(), self._entered, Lease)

    def _innermost_scope(self) -> Lease | None:
        return innermost_of_caller(self._entered)

    def _not_entered(self) -> Exception:
        return self._not_owner("no scope of it is entered; enter one first")

    def _try_acquire(self, settings: LockSettings) -> Lease | None:
        """Acquires the lock; returns `None` if another owner holds it, or it is skipped."""
        try:
            return acquire(self._connection, settings, current_caller(), [], Lease)
        except SteadlockError as error:
            if not is_not_granted(error):
                raise
            return None

    def __repr__(self) -> str:
        state = "locked" if self._is_held() else "unlocked"
        return f"<{state} steadlock.{type(self).__name__} object {shown(self.name)!r} at {id(self):#x}>"


class Lock(BaseLock):
    """A lock with a name. Made by a `Client`; cheap to make, and any number of threads can share it.

    The thread that holds the lock can acquire it again, unless the lock is a mutex, a RedLock, or permits of a
    semaphore; the re-entry makes a server call only if the new lease lasts longer. Other threads of the client wait in
    order of arrival. In an event loop the owner is the running task, with gevent the running greenlet. A task that
    would wait for another task of its loop gets `InvalidArgumentError` at once: such programs use `steadlock.aio`. Use
    the lock as a context manager, which returns the `Lease`, or like a `threading.RLock`:

        with client.lock("report") as lease:
            write_report(fencing_token=lease.token)
    """

    __slots__ = ()

    def acquire(self, blocking: bool = True, timeout: Duration = -1) -> bool:
        """Acquires the lock. Returns whether it was granted; the property `lease` has the lease.

        `timeout` bounds the wait; -1 means the lock's own `wait`. With `blocking=False` makes one attempt. A wait
        without a bound ends with `UnavailableError` when the server has not answered for the length of the client's
        lease. In the main thread, Ctrl-C ends every wait within 100 ms; the call is undone in the background.

        If the lock is skipped in an outage (`on_unavailable="skip"`), returns `False` if the wait has a bound. Without
        a bound raises `UnavailableError` with `skipped`, because callers then rely on the lock and do not check the
        result.

        Raises `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError`, `LockLostError` (this thread has lost
        an auto-renewed lease of the lock and has not released it yet), `ClosedError`.
        """
        settings = self._settings.with_blocking(blocking, timeout)
        try:
            acquire(self._connection, settings, current_caller(), [], Lease)
        except SteadlockError as error:
            if settings.wait is None or not is_not_granted(error):
                raise
            return False
        return True

    def try_acquire(
        self,
        wait: Duration | None = 0,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Lease | None:
        """Acquires the lock within `wait`, and returns the lease; `None` if another owner holds the lock, or it is
        skipped in an outage.

        `wait=None` waits as long as the server answers. Raises what `acquire` raises.
        """
        return self._try_acquire(self._settings.with_changes(wait, lease, max_hold, renew))

    def hold(
        self,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> Hold:
        """Returns a context manager like the lock itself, with other settings: `with lock.hold(wait=5) as lease:`. It
        raises `LockTimeoutError` after `wait`, and `UnavailableError` with `skipped` if the lock is skipped in an
        outage; the body does not run then.
        """
        return Hold(self._connection, self._settings.with_changes(wait, lease, max_hold, renew))

    def owned(self) -> bool:
        """Whether the caller holds the lock now with a valid lease. Makes no server call."""
        return self._is_held()

    def locked(self) -> bool:
        """Asks the server whether the lock is held."""
        return self.holder() is not None

    def holder(self) -> Holder | None:
        """Asks the server for the holder of the lock, and for how long it holds the lock if nothing renews it; `None`
        if the lock is free.

        If there are several readers or holders of permits, returns the one whose record ends last. Raises
        `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError` (a bad name, or a `multi_lock`: ask its
        members), `ClosedError`.
        """
        connection = self._connection
        native = connection.native
        holder, *_ = connection.call(native.inspect, native.submit_inspect, self._settings.lock)
        return holder_of(holder)


class ReadWriteLock(ReadWriteLockBase[Lock]):
    """A lock with two sides: many owners can hold `read`, or one owner `write`. Made by a `Client`.

    A waiting writer keeps new readers out for two seconds at a time, so neither side starves if reads take less than
    two seconds. The thread that holds the write side can acquire the read side too, and keeps it when it releases the
    write side. The reverse is refused with `InvalidArgumentError`, because the thread would wait for itself.

        catalogue = client.read_write_lock("catalogue")
        with catalogue.read:
            look_up()
    """

    __slots__ = ()


class Hold(Scope, NotCopyable):
    """One `with` of a lock or semaphore. Made by `hold`; can be used once."""

    __slots__ = ("_connection", "_entered", "_is_entered", "_settings")
    _copy_advice = LOCK_COPY_ADVICE

    def __init__(self, connection: Connection[Lease], settings: LockSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._entered: list[Lease] = []
        self._is_entered = False

    def __enter__(self) -> Lease:
        if self._is_entered:
            raise RuntimeError("a hold can be entered only once; call lock.hold() for each `with`")
        lease = acquire(self._connection, self._settings, current_caller(), self._entered, Lease)
        self._is_entered = True
        return lease

    def _innermost_scope(self) -> Lease | None:
        return self._entered[0] if self._entered else None

    def _not_entered(self) -> None:
        """Returns no error, because a second end does no harm."""
