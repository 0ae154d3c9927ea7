"""The lease of a task: its acquisition and its release."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeAlias, TypeVar

from steadlock import _native
from steadlock._context import Caller, TaskOwner
from steadlock._error_reports import report
from steadlock._lease import LeaseBase
from steadlock._outcomes import LostReason, Released, ReleaseOutcome
from steadlock._settings import Duration, LockSettings, optional_milliseconds
from steadlock.aio._connection import Connection
from steadlock.aio._mailbox import Request
from steadlock.errors import SteadlockError

Owner: TypeAlias = TaskOwner | Caller | None
"""A task; a thread that called outside of an event loop; `None` for a callback, which owns nothing."""


class Lease(LeaseBase["Connection[Lease]", Owner, asyncio.Event]):
    """One grant of a lock, or one re-entry. Returned by a lock, and not made by the program.

    Any task of its loop can use it.
    """

    __slots__ = ("_scope",)
    _kind: ClassVar = "steadlock.aio.Lease"

    def __init__(
        self, connection: Connection[Lease], native: _native.Lease, owner: Owner, key: _native.LockRef
    ) -> None:
        super().__init__(connection, native, owner, key)
        self._scope: Callable[[], None] | None = None

    @property
    def lost(self) -> asyncio.Event:
        """An event that is set when the lease is lost, and never if it is released first."""
        event = self._lost_event(asyncio.Event)
        self._watch()
        return event

    def on_lost(self, callback: Callable[[Lease], object]) -> None:
        """Calls `callback(lease)` in the loop when the lease is lost, or at once if the lease is lost already. An error
        of the callback goes to the loop's exception handler, and so does `SystemExit`, which does not end the program.
        """
        self._add_callback(callback)

    async def extend(self, lease: Duration | None = None) -> None:
        """Extends the lease to `lease` from now; without `lease`, to its own length from now. Never shortens it.

        Raises `LockLostError` if the lease is lost, `NotOwnerError` if it was released, `InvalidArgumentError` for a
        length below 100 ms or above 24 h, `UnavailableError` if the server does not answer.
        """
        connection = self._connection
        submit = connection.native.submit_extend
        await connection.mailbox.call("extend", submit, self.id, optional_milliseconds(lease))

    def release(self) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Releases this grant, from any task. Idempotent.

        Returns `expired` or `stolen` for a lost lease, and does not touch the record of another owner. Returns
        `unknown` if the server does not answer within the command timeout. A cancellation of the caller does not stop
        the release. After the client was closed, which released the lease, returns the outcome of that release. Raises
        `MisconfiguredError` if the server does not permit its user to release the lock; the release is then retried in
        the background.
        """
        return self._outcome(self._begin_release())

    def _begin_release(self) -> Request | None:
        """Begins the release during the call, if the call comes in the client's loop: the coroutine of `release` can be
        cancelled before its first step, and the lease is released even then. Elsewhere returns `None`, and that
        coroutine begins the release.
        """
        return self._post_release() if self._connection.mailbox.can_post_here() else None

    def _post_release(self) -> Request:
        connection = self._connection
        _, submit, arguments = self._ending()
        request = connection.mailbox.post("release", submit, *arguments)
        connection.forget(self)
        if connection.telemetry is not None:
            request.future.add_done_callback(self._on_release_done)
        return request

    def _on_release_done(self, future: asyncio.Future[Released]) -> None:
        """Reports the end to the telemetry, even if no caller awaits the release."""
        if future.cancelled() or future.exception() is not None:
            self._report_release("unknown", None)
        else:
            _, outcome, lost = future.result()
            self._report_release(outcome, lost)

    async def _outcome(self, request: Request | None) -> ReleaseOutcome:
        _, outcome, _ = await self._await_release(request or self._post_release())
        return outcome

    async def _await_release(self, request: Request) -> Released:
        try:
            released: Released = await self._connection.mailbox.result(request)
        except SteadlockError:
            # A refused end, such as a bad `at_least` of a run, has released nothing.
            self._abandon()
            raise
        return released

    def _abandon(self) -> None:
        """Releases the lease in the background. Idempotent."""
        self._scope = None
        self._connection.native.release_later(self._native.id)
        self._connection.forget(self)
        self._report_release("unknown", None)

    def _begin_to_leave(self) -> Request | LostReason:
        """Begins the release at the end of an `async with`. Returns the request, or the reason for the loss of a lost
        lease.
        """
        self._scope = None
        return self._release_if_lost() or self._post_release()

    async def _await_scope_end(self, begun: Request | LostReason) -> Exception | None:
        """Waits for the release. Returns the exception that the `async with` must raise if its body did not raise."""
        reason: LostReason | None
        if isinstance(begun, Request):
            try:
                _, _, reason = await self._await_release(begun)
            except SteadlockError as error:
                return error
        else:
            reason = begun
        return None if reason is None else _native.lost_error(self.name, reason, self._native.is_forgotten)

    def _enter(self, cancel: Callable[[], None]) -> None:
        """Begins a scope. Calls `cancel` if the lease is lost inside it."""
        self._scope = cancel
        if self._native.lost_reason is None:
            self._connection.watched.add(self)
        else:
            self._cancel_scope()

    def _watch(self) -> None:
        if self._native.lost_reason is not None:
            self._on_lost()
        elif not self._native.is_released:
            self._connection.watched.add(self)

    def _on_lost(self) -> None:
        self._cancel_scope()
        super()._on_lost()

    def _cancel_scope(self) -> None:
        """Cancels the scope. Idempotent, because an interrupt can end the notification, which is then repeated."""
        cancel = self._scope
        if cancel is None:
            return
        loop = asyncio._get_running_loop()
        if loop is not None and asyncio.current_task(loop) is not None:
            # Not at once: a task that cancels itself would be interrupted only at its next `await`, which can come
            # after the scope.
            loop.call_soon(cancel)
        else:
            cancel()

    def _report_error(self, error: BaseException) -> None:
        loop = asyncio._get_running_loop()
        if loop is None:
            report(error)
            return
        # The program's exception handler can raise too.
        try:
            loop.call_exception_handler({"message": f"on_lost of {self!r} raised", "exception": error})
        except BaseException as raised:
            report(raised)


L = TypeVar("L", bound=Lease)


async def acquire(connection: Connection[Lease], settings: LockSettings, owner: Owner, make: type[L]) -> L:
    """Acquires a lock for the owner. Returns the lease, which is a `make`. Raises if the lock is not granted."""
    mailbox = connection.mailbox
    number = None if owner is None else owner.number
    measured = None if connection.telemetry is None else connection.telemetry.wait(settings)
    request: Request | None = None
    got: _native.Lease | SteadlockError | None = None
    try:
        request = mailbox.make("acquire", connection.native.submit_acquire, settings, number, must_submit=False)
        mailbox.send(request)
        got = answer = await request.future
        if not isinstance(answer, _native.Lease):
            raise answer
        lease = make(connection, answer, owner, settings.key)
        connection.holds.add(lease, answer, settings.key, number)
        if owner is None:
            # Without an owner, the lease lives only while the program refers to it, from the start on.
            connection.holds.owners_have_ended([None])
        else:
            owner.watch_end()
        if measured is not None:
            measured.granted(answer)
    except BaseException as error:
        # The lock was not granted; or the coroutine was cancelled, dropped with its loop, or interrupted by a signal
        # handler, perhaps after the grant.
        def undo(error: BaseException = error) -> None:
            if request is not None:
                mailbox.abandon(request)
            if isinstance(got, _native.Lease):
                connection.holds.discard(got.id, settings.key, number)
            if measured is not None:
                measured.failed(error)

        _native.uninterrupted(undo)
        raise
    return lease
