"""What a lease of threads and one of tasks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from steadlock import _native
from steadlock._connection import ConnectionT
from steadlock._context import Owner
from steadlock._copying import HOW_WITH_LEASES, Uncopied
from steadlock._endings import LostReason
from steadlock._reports import is_ctrl_c
from steadlock._shown import shown


class _Event(Protocol):
    def set(self) -> None: ...


OwnerT = TypeVar("OwnerT", bound=Owner | None)
EventT = TypeVar("EventT", bound=_Event)


class LeaseBase(ABC, Uncopied, Generic[ConnectionT, OwnerT, EventT]):
    """One grant of a lock, or one re-entry."""

    __slots__ = ("__weakref__", "_callbacks", "_connection", "_events", "_key", "_native", "_owner")
    _instead = HOW_WITH_LEASES
    _kind: ClassVar[str]
    """The class, as programs name it."""

    def __init__(self, connection: ConnectionT, native: _native.Lease, owner: OwnerT, key: str) -> None:
        self._connection = connection
        self._key = key
        self._native = native
        self._owner = owner
        # Each change is one step of a list: signal handlers and finalizers come back here, and other threads.
        self._events: list[EventT] = []
        self._callbacks: list[Callable[[Any], object]] = []

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

        `None` if none was drawn, and for readers, semaphores, several locks as one and degraded leases.
        """
        return self._native.token

    @property
    def degraded(self) -> bool:
        """Whether it excludes others of this client alone, and nobody else: its server was unavailable when it was
        granted, and `on_unavailable` is `"local"`. Of several locks as one, whether any of them does.

        It stays so until its release, also when the server is back.
        """
        return self._native.degraded

    def remaining(self) -> float:
        """For how many seconds the lease may be relied on if nothing renews it; 0 if it may not."""
        return self._native.remaining()

    def is_valid(self) -> bool:
        """Whether the lease may be relied on now. Reads the clock, never the server."""
        return self._native.is_valid()

    @property
    def lost_reason(self) -> LostReason | None:
        """Why the lease was lost; `None` if it was not."""
        return self._native.lost_reason

    @property
    def context(self) -> int | None:
        """The number of the thread or task that took it; `None` if it was taken in an event
        loop outside of a task."""
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

    def _call_when_lost(self, callback: Callable[[Self], object]) -> None:
        self._callbacks.append(callback)
        self._watch()

    @abstractmethod
    def _watch(self) -> None:
        """Sees to it that `_on_lost` is called once the lease is lost."""

    def _event(self, make: Callable[[], EventT]) -> EventT:
        """The one event of the loss; the first that was made."""
        if not self._events:
            self._events.append(make())
        return self._events[0]

    def _on_lost(self) -> None:
        for event in self._events:
            event.set()
        struck: BaseException | None = None
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                break  # Another thread was faster.
            try:
                callback(self)
            except BaseException as error:
                if is_ctrl_c(error):
                    struck = error
                else:
                    self._report(error)
        if struck is not None:
            raise struck

    @abstractmethod
    def _report(self, error: BaseException) -> None:
        """A callback raised it, and nobody called that could catch it. Never raises."""

    def _tell_released(self, outcome: str, lost: LostReason | None) -> None:
        """Has the telemetry told what the release came to."""
        if self._connection.telemetry is not None:
            # It may have been lost before, and nobody heard of that yet.
            reason = self._native.lost_reason
            self._connection.tell_ended(self._native.id, outcome if reason is None else "lost", reason or lost)

    def _leave_if_lost(self) -> LostReason | None:
        """At the end of a scope: gives a lost lease back in the background, and says why it was
        lost. The server has nothing of ours: the program need not wait for it."""
        reason = self._native.lost_reason
        if reason is not None:
            self._connection.forget(self)
            self._connection.native.release_later(self._native.id)
            self._connection.tell_ended(self._native.id, "lost", reason)
        return reason
