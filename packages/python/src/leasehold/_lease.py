"""The lease of a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

from leasehold import _native
from leasehold._context import Caller
from leasehold._settings import Duration, optional_milliseconds
from leasehold._shown import shown
from leasehold.errors import LeaseholdError, LockLostError, NotOwnerError

if TYPE_CHECKING:
    from leasehold._client import Client

ReleaseOutcome: TypeAlias = Literal["released", "expired", "stolen", "unknown"]
"""How a release ended.

- `released`: the record is gone by our hand, or an outer level still holds it
- `expired`: the record was gone already
- `stolen`: the record is another owner's, and was left alone
- `unknown`: the server did not answer in time; the release is tried on
"""

LostReason: TypeAlias = Literal["expired", "removed", "stolen", "max_hold", "closed"]
"""Why a lease was lost.

- `expired`: its deadline came without a renewal that the server confirmed
- `removed`: the server has no record of it
- `stolen`: the server's record is another owner's
- `max_hold`: the longest hold that was asked for has passed
- `closed`: the client was closed
"""


class Lease:
    """One grant of a lock, or one re-entry. Given by a lock, never made by hand.

    It may be used from any thread.
    """

    __slots__ = ("__weakref__", "_callbacks", "_client", "_event", "_key", "_native", "_owner")

    def __init__(self, client: Client, native: _native.Lease, owner: Caller, key: str) -> None:
        self._client = client
        self._key = key
        self._native = native
        self._owner = owner
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[Lease], object]] = []

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
    def lost(self) -> threading.Event:
        """Set once the lease is lost, never after its release.

        The first use in a client starts a daemon thread that waits for losses.
        """
        with self._client._mutex:
            event = self._event
            if event is None:
                event = self._event = threading.Event()
        self._watch()
        return event

    def on_lost(self, callback: Callable[[Lease], object]) -> None:
        """Calls `callback(lease)` once the lease is lost: in a thread of the client,
        or at once if it is lost already. Exceptions go to `threading.excepthook`."""
        with self._client._mutex:
            self._callbacks.append(callback)
        self._watch()

    def extend(self, lease: Duration | None = None) -> None:
        """Makes the lease last `lease` from now, or its own length; never shortens it.

        Raises `LockLostError` if it is lost, `NotOwnerError` if it was released,
        `InvalidArgumentError` for a length below 100 ms or above 24 h, `UnavailableError`
        if the server does not answer.
        """
        try:
            native = self._client._native
            self._client._ask(native.extend, native.submit_extend, self._native.id, optional_milliseconds(lease))
        except NotOwnerError:
            raise_lost(self)
            raise

    def release(self) -> ReleaseOutcome:
        """Gives this grant back, from any thread. Twice is harmless.

        Says `expired` or `stolen` for a lost lease, whose record is left alone, and
        `unknown` if the server does not answer within the command timeout. After an
        interrupt the release goes on in the background. Raises `MisconfiguredError` if
        the server's user may not release it; that too is tried on in the background.
        """
        native = self._client._native
        try:
            self._client._forget(self)
            outcome = self._client._ask(native.release, native.submit_release, self._native.id)
        except LeaseholdError:
            raise
        except BaseException:
            # It may have struck before the release had begun.
            native.release_later(self._native.id)
            raise
        return outcome_of(cast(ReleaseOutcome, outcome), self.lost_reason)

    def __repr__(self) -> str:
        return f"<leasehold.Lease of {shown(self.name)!r}, {describe(self._native)}>"

    @property
    def context(self) -> int | None:
        """The number of the thread that took it."""
        return self._owner.number

    @property
    def _owner_kind(self) -> str:
        return "greenlet" if self._owner.takes_turns else "thread"

    def _leave(self, body_raised: bool) -> None:
        """The end of a `with`: releases, and raises `LockLostError` unless the body raised."""
        reason = self.lost_reason
        if reason is not None:
            # The server has nothing of ours: do not make the program wait for it.
            self._client._forget(self)
            self._client._native.release_later(self._native.id)
        else:
            try:
                reason = reason_of(self.release())
            except LeaseholdError:
                if body_raised:
                    return
                raise
        if reason is not None and not body_raised:
            raise lost_error(self.name, reason)

    def _watch(self) -> None:
        self._client._events.watch(self)
        if self._native.lost_reason is not None:
            # Word of it may have come before, and then nobody would take the lease out.
            self._client._events.unwatch(self)
            self._on_lost()

    def _on_lost(self) -> None:
        with self._client._mutex:
            callbacks, self._callbacks = self._callbacks, []
        if self._event is not None:
            self._event.set()
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:
                args = (type(error), error, error.__traceback__, threading.current_thread())
                threading.excepthook(threading.ExceptHookArgs(args))


def outcome_of(answered: ReleaseOutcome, lost: LostReason | None) -> ReleaseOutcome:
    """What a release came to that the core answered so. A fixed lease that was lost is
    forgotten there; its object knows how it was lost."""
    if answered != "released" or lost is None or lost == "closed":
        return answered
    return "stolen" if lost == "stolen" else "expired"


def raise_lost(lease: _Lost) -> None:
    """Raises `LockLostError` for a fixed lease that was lost: the core has forgotten it, and
    takes it for one that was released."""
    reason = lease.lost_reason
    if reason is not None:
        raise LockLostError(
            f"extend of lock {shown(lease.name)!r}: the lease was lost ({reason}); acquire the lock again",
            lock_name=lease.name,
            operation="extend",
            reason=reason,
        ) from None


class _Lost(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def lost_reason(self) -> LostReason | None: ...


def reason_of(outcome: ReleaseOutcome) -> LostReason | None:
    """Why a lease was lost, by a release that was the first to notice."""
    return outcome if outcome in ("expired", "stolen") else None


def refuse_lost(name: str, outcome: ReleaseOutcome, lost: LostReason | None) -> None:
    """Raises `LockLostError` for the release of a lost lock."""
    reason = reason_of(outcome)
    if reason is not None:
        raise lost_error(name, lost or reason, "before")


def lost_error(name: str, reason: LostReason, when: str = "inside of the scope") -> LockLostError:
    """What giving a lock back raises if it was lost, by default that of leaving a scope."""
    return LockLostError(
        f"release of lock {shown(name)!r}: the lease was lost {when} "
        f"({reason}); check what was done meanwhile, or let the resource refuse old tokens",
        lock_name=name,
        operation="release",
        reason=reason,
    )


def describe(native: _native.Lease) -> str:
    """A lease's state in a few words."""
    if native.lost_reason is not None:
        return f"lost: {native.lost_reason}"
    if native.is_released:
        return "released"
    return f"{native.remaining():.3f} s left"
