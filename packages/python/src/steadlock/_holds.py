"""The leases that one client holds, for `lock.lease` and for the end of the process."""

from __future__ import annotations

import warnings
from typing import Protocol, TypeVar

from steadlock import _log, _native
from steadlock._context import Owner
from steadlock._shown import shown
from steadlock._watchlist import Watched, Watchlist


class Held(Watched, Protocol):
    """The parts of a lease that `Holds` uses."""

    @property
    def context(self) -> int | None: ...
    @property
    def _key(self) -> _native.LockRef: ...
    @property
    def _native(self) -> _native.Lease: ...
    @property
    def _owner(self) -> Owner | None: ...


L = TypeVar("L", bound=Held)


def make_holds(native: _native.Client, watched: Watchlist[L]) -> _native.Holds[L]:
    """Makes the collection of leases that were not released yet. The collection is native code, because a signal
    handler or a finalizer can use it in the middle of another use.
    """

    def on_dropped(number: int, name: str, owner_kind: str, must_warn: bool) -> None:
        watched.dropped(number)
        if must_warn:
            who = _OWNERS.get(owner_kind, owner_kind)
            text = f"lock {shown(name)!r} was still held by a {who} that has ended, and is released now; "
            text += _ADVICE.get(owner_kind, "use `with`, or release it before the end")
            # The log gets the text too, because the program's filter can drop the warning or turn it into an error.
            _log.defer(("warn", text, {"event": "owner_ended", "lock": name}))
            native.ring()
            warnings.warn(text, RuntimeWarning, stacklevel=1)

    return _native.Holds(native, watched.weaken, on_dropped)


_OWNERS = {"job": "job of a thread pool", "callback": "callback of an event loop"}
_ADVICE = {
    "job": (
        "each call of `asyncio.to_thread` and the like is an owner of its own: acquire and release it in one, as "
        "`with` does, or keep the lease that `try_acquire` returns, and release that"
    ),
    "task": (
        "the owner is the task that calls `acquire`: use `async with`, release it before the task ends, or keep the "
        "lease that `try_acquire` returns, and release that"
    ),
    "callback": "acquire it in a task, or keep its lease until you release that",
}
