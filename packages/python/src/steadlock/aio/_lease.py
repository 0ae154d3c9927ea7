"""The lease of a task: how it is acquired, and released."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeAlias

from steadlock import _native
from steadlock._context import Caller, TaskOwner
from steadlock._endings import LostReason, Released, ReleaseOutcome
from steadlock._lease import LeaseBase
from steadlock._reports import report
from steadlock._settings import Duration, LockSettings, optional_milliseconds
from steadlock.aio._connection import Connection
from steadlock.aio._mailbox import Request
from steadlock.errors import SteadlockError

Owner: TypeAlias = TaskOwner | Caller | None
"""A task; a thread that called outside of an event loop; nobody, of a callback."""


class Lease(LeaseBase["Connection[Lease]", Owner, asyncio.Event]):
    """One grant of a lock, or one re-entry. Given by a lock, never made by hand.

    It may be used by any task of its loop.
    """

    __slots__ = ("_scope",)
    _kind: ClassVar = "steadlock.aio.Lease"

    def __init__(self, connection: Connection[Lease], native: _native.Lease, owner: Owner, key: str) -> None:
        super().__init__(connection, native, owner, key)
        self._scope: Callable[[], None] | None = None

    @property
    def lost(self) -> asyncio.Event:
        """Set once the lease is lost, never after its release."""
        event = self._event(asyncio.Event)
        self._watch()
        return event

    def on_lost(self, callback: Callable[[Lease], object]) -> None:
        """Calls `callback(lease)` in the loop once the lease is lost, or at once if it is
        lost already. What it raises goes to the loop's exception handler, `SystemExit` too: it ends no
        program."""
        self._call_when_lost(callback)

    async def extend(self, lease: Duration | None = None) -> None:
        """Makes the lease last `lease` from now, or its own length; never shortens it.

        Raises `LockLostError` if it is lost, `NotOwnerError` if it was released,
        `InvalidArgumentError` for a length below 100 ms or above 24 h, `UnavailableError`
        if the server does not answer.
        """
        connection = self._connection
        submit = connection.native.submit_extend
        await connection.mailbox.outcome("extend", submit, self.id, optional_milliseconds(lease))

    def release(self) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Releases this grant, from any task. Idempotent.

        Says `expired` or `stolen` for a lost lease, whose record is left alone, and
        `unknown` if the server does not answer within the command timeout. A release
        whose caller is cancelled goes on. After the client was closed, which released it,
        it says what that came to.
        """
        return self._outcome(self._begin_release())

    def _begin_release(self) -> Request | None:
        """In the client's loop it begins with the call: a task that is cancelled before its first step has
        released too. Elsewhere it begins when that loop runs it."""
        return self._post_release() if self._connection.mailbox.is_at_home() else None

    def _post_release(self) -> Request:
        connection = self._connection
        request = connection.mailbox.post("release", connection.native.submit_release, self._native.id)
        connection.forget(self)
        if connection.telemetry is not None:
            request.future.add_done_callback(self._release_ended)
        return request

    def _release_ended(self, future: asyncio.Future[Released]) -> None:
        """For the telemetry, whether anybody awaits the release or not."""
        if future.cancelled() or future.exception() is not None:
            self._tell_released("unknown", None)
        else:
            _, outcome, lost = future.result()
            self._tell_released(outcome, lost)

    async def _outcome(self, request: Request | None) -> ReleaseOutcome:
        _, outcome, _ = await self._released(request or self._post_release())
        return outcome

    async def _released(self, request: Request) -> Released:
        released: Released = await self._connection.mailbox.result(request)
        return released

    def _abandon(self) -> None:
        """Has it released in the background. Idempotent."""
        self._scope = None
        self._connection.native.release_later(self._native.id)
        self._connection.forget(self)
        self._tell_released("unknown", None)

    def _begin_to_leave(self) -> Request | LostReason:
        """The end of an `async with`: begins the release; or says why the lease is lost."""
        self._scope = None
        return self._leave_if_lost() or self._post_release()

    async def _left(self, begun: Request | LostReason) -> Exception | None:
        """Gives the exception that the `async with` raises, unless its body raised."""
        reason: LostReason | None
        if isinstance(begun, Request):
            try:
                _, _, reason = await self._released(begun)
            except SteadlockError as error:
                return error
        else:
            reason = begun
        return None if reason is None else _native.lost_error(self.name, reason, self._native.is_forgotten)

    def _enter(self, cancel: Callable[[], None]) -> None:
        """Calls `cancel` if the lease is lost inside of the scope that begins now."""
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
        """Once only: the scope takes back one cancellation."""
        cancel, self._scope = self._scope, None
        loop = asyncio._get_running_loop()
        if cancel is None:
            return
        if loop is not None and asyncio.current_task(loop) is not None:
            # Later: a task that cancels itself would meet that after the scope.
            loop.call_soon(cancel)
        else:
            cancel()

    def _report(self, error: BaseException) -> None:
        loop = asyncio._get_running_loop()
        if loop is None:
            report(error)
            return
        # An exception handler of the program may raise, too.
        try:
            loop.call_exception_handler({"message": f"on_lost of {self!r} raised", "exception": error})
        except BaseException as raised:
            report(raised)


async def acquire(connection: Connection[Lease], settings: LockSettings, owner: Owner) -> Lease:
    """Takes a lock for its owner, or raises why it was not granted."""
    mailbox = connection.mailbox
    number = None if owner is None else owner.number
    measured = None if connection.telemetry is None else connection.telemetry.wait(settings)
    request: Request | None = None
    got: _native.Lease | SteadlockError | None = None
    try:
        request = mailbox.make("acquire", connection.native.submit_acquire, settings, number, goes_on=False)
        mailbox.send(request)
        got = answer = await request.future
        if not isinstance(answer, _native.Lease):
            raise answer
        lease = Lease(connection, answer, owner, settings.key)
        connection.holds.add(lease, answer, settings.key, number)
        if owner is None:
            # It lives while somebody refers to it, from its beginning on.
            connection.holds.owners_have_ended([None])
        else:
            owner.watch_end()
        if measured is not None:
            measured.granted(answer)
    except BaseException as error:
        # Cancelled, dropped with its loop, or struck by what a signal handler raised.
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
