"""The lease of a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from leasehold import _native
from leasehold._context import TaskOwner
from leasehold._lease import LostReason, ReleaseOutcome, describe, raise_lost, reason_of
from leasehold._settings import Duration, optional_milliseconds
from leasehold._shown import shown
from leasehold.errors import LeaseholdError, NotOwnerError

if TYPE_CHECKING:
    from leasehold.aio._client import Client


class Lease:
    """One grant of a lock, or one re-entry. Given by a lock, never made by hand.

    It may be used by any task of its loop.
    """

    __slots__ = ("__weakref__", "_callbacks", "_client", "_event", "_key", "_native", "_owner", "_scope")

    def __init__(self, client: Client, native: _native.Lease, owner: TaskOwner | None, key: str) -> None:
        self._client = client
        self._key = key
        self._native = native
        self._owner = owner
        self._event: asyncio.Event | None = None
        self._callbacks: list[Callable[[Lease], object]] = []
        self._scope: Callable[[], None] | None = None

    @property
    def id(self) -> int:
        """The number of this grant, which no other of the process has."""
        return self._native.id

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._native.name

    @property
    def token(self) -> int | None:
        """The fencing token: each grant's is higher than all before.

        `None` if none was drawn, and for readers, semaphores and several locks as one.
        """
        return self._native.token

    def remaining(self) -> float:
        """For how many seconds the lease may be relied on if nothing renews it; 0 if it may not."""
        return self._native.remaining()

    def is_valid(self) -> bool:
        """Whether the lease may be relied on now. Reads the clock, never the server."""
        return self._native.is_valid()

    @property
    def lost_reason(self) -> LostReason | None:
        """Why the lease was lost; `None` if it was not."""
        return cast("LostReason | None", self._native.lost_reason)

    @property
    def lost(self) -> asyncio.Event:
        """Set once the lease is lost, never after its release."""
        if self._event is None:
            self._event = asyncio.Event()
            self._watch()
        return self._event

    def on_lost(self, callback: Callable[[Lease], object]) -> None:
        """Calls `callback(lease)` in the loop once the lease is lost, or at once if it is
        lost already. Exceptions go to the loop's exception handler."""
        self._callbacks.append(callback)
        self._watch()

    async def extend(self, lease: Duration | None = None) -> None:
        """Makes the lease last `lease` from now, or its own length; never shortens it.

        Raises `LockLostError` if it is lost, `NotOwnerError` if it was released,
        `InvalidArgumentError` for a length below 100 ms or above 24 h, `UnavailableError`
        if the server does not answer.
        """
        submit = self._client._native.submit_extend
        try:
            await self._client._mailbox.outcome("extend", submit, self.id, optional_milliseconds(lease))
        except NotOwnerError:
            raise_lost(self)
            raise

    def release(self) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Gives this grant back, from any task. Twice is harmless.

        Says `expired` or `stolen` for a lost lease, whose record is left alone, and
        `unknown` if the server does not answer within the command timeout. A release
        whose caller is cancelled goes on.
        """
        return self._client._release(self)

    def __repr__(self) -> str:
        return f"<leasehold.aio.Lease of {shown(self.name)!r}, {describe(self._native)}>"

    @property
    def context(self) -> int | None:
        """The number of the task that took it; `None` if it was taken outside of a task."""
        return None if self._owner is None else self._owner.number

    @property
    def _owner_kind(self) -> str:
        return "task"

    async def _leave(self, body_raised: bool) -> LostReason | None:
        """The end of an `async with`: releases, and says why the lease was lost, if it was."""
        self._scope = None
        if self.lost_reason is not None:
            # The server has nothing of ours: do not make the program wait for it.
            self._client._forget(self)
            self._client._native.release_later(self.id)
            return self.lost_reason
        try:
            return reason_of(await self._client._release(self))
        except LeaseholdError:
            if body_raised:
                return None
            raise

    def _enter(self, cancel: Callable[[], None]) -> None:
        """Calls `cancel` if the lease is lost inside of the scope that begins now."""
        self._scope = cancel
        if self._native.lost_reason is None:
            self._client._mailbox.watch(self)
        else:
            # Later: a task that cancels itself would meet that after the scope.
            asyncio.get_running_loop().call_soon(cancel)

    def _watch(self) -> None:
        if self._native.lost_reason is not None:
            self._on_lost()
        elif not self._native.is_released:
            self._client._mailbox.watch(self)

    def _on_lost(self) -> None:
        if self._scope is not None:
            self._scope()
        callbacks, self._callbacks = self._callbacks, []
        if self._event is not None:
            self._event.set()
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"on_lost of {self!r} raised", "exception": error}
                )
