"""The lease of a thread: how it is acquired, found and released."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, TypeVar

from steadlock import _native
from steadlock._context import Caller, refuse_eventlet, running_hub
from steadlock._error_reports import report
from steadlock._lease import LeaseBase
from steadlock._outcomes import Released, ReleaseOutcome
from steadlock._settings import Duration, LockSettings, optional_milliseconds
from steadlock._threads.connection import Connection
from steadlock.errors import SteadlockError


class Lease(LeaseBase["Connection[Lease]", Caller, threading.Event]):
    """One grant of a lock, or one re-entry. Returned by a lock, and not made by the program.

    Any thread can use it.
    """

    __slots__ = ()
    _kind: ClassVar = "steadlock.Lease"

    @property
    def lost(self) -> threading.Event:
        """An event that is set when the lease is lost, and never if it is released first.

        The first use of this property starts the daemon thread that waits for losses, if it does not run yet. Raises
        `UnavailableError` if the process gets no thread.
        """
        event = self._lost_event(_new_event)
        self._watch()
        return event

    def on_lost(self, callback: Callable[[Lease], object]) -> None:
        """Calls `callback(lease)` when the lease is lost: in a thread or greenlet of the client, or in the thread that
        calls `close`; at once if the lease is lost already. An error of the callback goes to `threading.excepthook`,
        and so does `SystemExit`, which does not end the program.

        Raises `UnavailableError`, and never calls `callback`, if the process gets no thread to wait for the loss.
        """
        self._add_callback(callback)

    def extend(self, lease: Duration | None = None) -> None:
        """Extends the lease to `lease` from now; without `lease`, to its own length from now. Never shortens it.

        Raises `LockLostError` if the lease is lost, `NotOwnerError` if it was released, `InvalidArgumentError` for a
        length below 100 ms or above 24 h, `UnavailableError` if the server does not answer.
        """
        native = self._connection.native
        self._connection.call(native.extend, native.submit_extend, self._native.id, optional_milliseconds(lease))

    def release(self) -> ReleaseOutcome:
        """Releases this grant, from any thread. Idempotent.

        Returns `expired` or `stolen` for a lost lease, and does not touch the record of another owner. Returns
        `unknown` if the server does not answer within the command timeout. After an interrupt the release goes on in
        the background. After the client was closed, which released the lease, returns the outcome of that release.
        Raises `MisconfiguredError` if the client's user has no right to release the lock; the release is then retried
        in the background.
        """
        _, outcome, _ = self._release()
        return outcome

    def _release(self) -> Released:
        try:
            self._connection.forget(self)
            release, submit, arguments = self._ending()
            released = self._connection.call(release, submit, *arguments)
        except BaseException:
            # The exception can have come before the release began. It can even be a `SteadlockError`: a signal handler
            # can run here, and a lock that it uses can raise.
            self._abandon()
            raise
        _, outcome, lost = released
        self._report_release(outcome, lost)
        return released

    def _abandon(self) -> None:
        """Releases the lease in the background, unless it is released."""
        self._connection.native.release_later(self._native.id)
        self._connection.forget(self)
        self._report_release("unknown", None)

    def _leave(self) -> Exception | None:
        """Releases the lease at the end of a `with`. Returns the exception that the `with` must raise if its body did
        not raise.
        """
        reason = self._release_if_lost()
        if reason is None:
            try:
                _, _, reason = self._release()
            except SteadlockError as error:
                self._abandon()
                return error
        return None if reason is None else _native.lost_error(self.name, reason, self._native.is_forgotten)

    def _watch(self) -> None:
        watched = self._connection.watched
        if not self._native.is_released:
            watched.add(self)
        if self._native.lost_reason is not None:
            # The event of the loss can have come before this call. The lease would then stay in the list for ever.
            watched.discard(self._native.id)
            self._on_lost()
        elif not self._native.is_released:
            self._connection.events.start(self.name)

    def _report_error(self, error: BaseException) -> None:
        report(error)


L = TypeVar("L", bound=Lease)


def acquire(connection: Connection[Lease], settings: LockSettings, owner: Caller, entered: list[L], make: type[L]) -> L:
    """Acquires a lock for the caller, and appends the lease, which is a `make`, to `entered`. Raises if the lock is not
    granted.
    """
    refuse_eventlet("acquire")
    granted: list[_native.Lease] = []
    native = connection.native
    hub = running_hub()
    measured = None if connection.telemetry is None else connection.telemetry.wait(settings)
    try:
        if hub is None:
            # The owners that cannot run while this thread waits, and so cannot release the lock.
            blocked: list[int] = []
            if owner.is_fiber or connection.had_fibers:
                blocked = [lease._owner.number for lease in held_by_siblings(connection, owner)]
            connection.events.ensure_delivery()
            native.acquire(granted, settings, owner.number, blocked, owner.thread.interruptible)
        else:
            wait = connection.events.waits.wait
            wait(hub, granted, native.submit_acquire, settings, owner.number, owner=owner.number)
        lease = make(connection, granted[0], owner, settings.key)
        connection.had_fibers |= owner.is_fiber
        swept = connection.holds.add(lease, granted[0], settings.key, owner.number)
        owner.watch_end()
        entered.append(lease)
        if swept:
            connection.events.drain_unwatched()
        if measured is not None:
            measured.granted(lease._native)
    except BaseException as error:
        # Ctrl-C can occur between any two lines. A grant that the caller does not get must be released.
        for grant in granted:
            native.return_grant(grant.id)
            connection.holds.discard(grant.id, settings.key, owner.number)
            for entry in [entry for entry in entered if entry._native is grant]:
                # Another thread may have left the scope meanwhile.
                with suppress(ValueError):
                    entered.remove(entry)
        if measured is not None:
            measured.failed(error)
        raise
    return lease


def _new_event() -> threading.Event:
    """Makes an event with a reentrant internal lock, because a signal handler can use the event in a thread that is
    just setting it or waiting for it. If threads are greenlets, gevent's event has no such lock.
    """
    event = threading.Event()
    state = getattr(event, "__dict__", {})
    if "_cond" in state:
        state["_cond"] = threading.Condition(threading.RLock())
    return event


def held_by(connection: Connection[Lease], key: _native.LockRef, caller: Caller) -> Lease | None:
    """Returns the last of the caller's leases of this lock, without released and forgotten ones. If there is none,
    returns a lease that an ended task of the caller's thread left held, because in a notebook each cell is a task.
    """
    lease = connection.holds.innermost(key, caller.number)
    if lease is not None or not (caller.is_fiber or connection.had_fibers):
        return lease
    left = [
        lease for lease in held_by_siblings(connection, caller) if lease._key == key and lease._owner.fiber_has_ended()
    ]
    return connection.holds.innermost(key, left[-1]._owner.number) if left else None


def held_by_siblings(connection: Connection[Lease], caller: Caller) -> list[Lease]:
    """Returns the leases of owners that take turns with the caller in its thread and cannot run while it waits: other
    tasks of its event loop, other greenlets, or the thread that runs them.
    """
    thread = caller.thread

    def is_sibling(other: Caller) -> bool:
        are_fibers = caller.is_fiber or other.is_fiber
        return are_fibers and other is not caller and thread.runs(other)

    return [lease for lease in connection.holds.all() if is_sibling(lease._owner)]
