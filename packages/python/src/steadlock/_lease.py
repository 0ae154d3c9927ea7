"""The common part of the leases of threads and of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from steadlock import _native
from steadlock._connection import ConnectionT
from steadlock._context import Owner
from steadlock._error_reports import is_ctrl_c
from steadlock._not_copyable import LEASE_COPY_ADVICE, NotCopyable
from steadlock._outcomes import LostReason, Released
from steadlock._reentrant_queue import append_result
from steadlock._shown import shown
from steadlock.errors import UnavailableError


class _Event(Protocol):
    def set(self) -> None: ...


OwnerT = TypeVar("OwnerT", bound=Owner | None)
EventT = TypeVar("EventT", bound=_Event)


class LeaseBase(ABC, NotCopyable, Generic[ConnectionT, OwnerT, EventT]):
    """One grant of a lock, or one re-entry."""

    __slots__ = ("__weakref__", "_callbacks", "_connection", "_events", "_key", "_native", "_owner")
    _copy_advice = LEASE_COPY_ADVICE
    _kind: ClassVar[str]
    """The name of the class in messages."""

    def __init__(self, connection: ConnectionT, native: _native.Lease, owner: OwnerT, key: _native.LockRef) -> None:
        self._connection = connection
        self._key = key
        self._native = native
        self._owner = owner
        # Each change is one atomic step of a list, because signal handlers, finalizers and other threads use these
        # lists at the same time.
        self._events: list[EventT] = []
        self._callbacks: list[Callable[[Any], object]] = []

    @property
    def id(self) -> int:
        """The number of this grant. No other grant of the same client has it."""
        return self._native.id

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._native.name

    @property
    def token(self) -> int | None:
        """The fencing token, which is higher than the tokens of all earlier grants of this name. A re-entry has the
        token of the first grant.

        `None` if none was drawn (`fencing=False`), and for readers, semaphores, composite locks, RedLocks and degraded
        leases.
        """
        return self._native.token

    @property
    def degraded(self) -> bool:
        """Whether the lease excludes only other callers of this client, because the client granted it while its server
        was unavailable (`on_unavailable` is `"local"`). For a composite lock, whether this is so for any member.

        The lease stays degraded until its release, even if the server is available again.
        """
        return self._native.degraded

    def remaining(self) -> float:
        """Returns for how many seconds the holder can rely on the lease if nothing renews it; 0 if it is not valid."""
        return self._native.remaining()

    def is_valid(self) -> bool:
        """Whether the holder can rely on the lease now. Reads the clock and makes no server call."""
        return self._native.is_valid()

    @property
    def lost_reason(self) -> LostReason | None:
        """The reason for the loss of the lease; `None` if it was not lost."""
        return self._native.lost_reason

    @property
    def context(self) -> int | None:
        """The number of the owner that acquired the lease; `None` if a callback of an event loop acquired it by
        `steadlock.aio`.
        """
        return None if self._owner is None else self._owner.number

    def __repr__(self) -> str:
        native = self._native
        if native.lost_reason is not None:
            state = f"lost: {native.lost_reason}"
        elif native.is_released:
            state = "released"
        else:
            state = f"{native.remaining():.3f} s left" + (", degraded" if native.degraded else "")
        return f"<{self._kind} of {shown(self.name)!r}, {state}>"

    def _add_callback(self, callback: Callable[[Self], object]) -> None:
        self._callbacks.append(callback)
        try:
            self._watch()
        except UnavailableError:
            # The caller gets the error, and the callback is not called. If another thread has called it already, there
            # is no error.
            try:
                self._callbacks.remove(callback)
            except ValueError:
                return
            raise

    @abstractmethod
    def _watch(self) -> None:
        """Makes sure that `_on_lost` is called when the lease is lost."""

    def _lost_event(self, make: Callable[[], EventT]) -> EventT:
        """Returns the event of the loss. There is one event per lease: the first that was made."""
        if not self._events:
            self._events.append(make())
        return self._events[0]

    def _on_lost(self) -> None:
        for event in self._events:
            event.set()
        interrupt: BaseException | None = None
        taken: list[Callable[[Any], object]] = []
        try:
            while self._callbacks:
                append_result(taken, self._callbacks.pop, 0)
                try:
                    taken[0](self)
                except BaseException as error:
                    if is_ctrl_c(error):
                        interrupt = error
                    else:
                        self._report_error(error)
                taken.clear()
        except IndexError:
            pass  # Another thread has removed the last one.
        except BaseException:
            self._callbacks[:0] = taken
            raise
        if interrupt is not None:
            raise interrupt

    @abstractmethod
    def _report_error(self, error: BaseException) -> None:
        """Reports an error of a callback, because no caller could catch it. Never raises."""

    def _ending(self) -> tuple[Callable[..., Released], Callable[..., int], tuple[Any, ...]]:
        """Returns the calls that release the lease, the blocking one and the submitted one, and their arguments."""
        native = self._connection.native
        return native.release, native.submit_release, (self._native.id,)

    def _body_raised(self) -> None:
        """Called when the body of a scope raised, before the lease is released. Can be called again."""

    def _report_release(self, outcome: str, lost: LostReason | None) -> None:
        """Reports the outcome of the release to the telemetry."""
        if self._connection.telemetry is not None:
            # The lease may have been lost before, without a report of that loss yet.
            reason = self._native.lost_reason
            self._connection.report_end(self._native.id, outcome if reason is None else "lost", reason or lost)

    def _release_if_lost(self) -> LostReason | None:
        """Called at the end of a scope. Releases a lost lease in the background, and returns the reason for its loss.
        The program need not wait for that release, because it can no longer rely on the lease.
        """
        reason = self._native.lost_reason
        if reason is not None:
            self._connection.forget(self)
            self._connection.native.release_later(self._native.id)
            self._connection.report_end(self._native.id, "lost", reason)
        return reason
