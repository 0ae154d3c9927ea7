"""What one client holds, as far as Python must know: for `lock.lease`, and for the exit."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from steadlock import _log, _native
from steadlock._context import Owner
from steadlock._shown import shown
from steadlock._watchlist import Watched


class Held(Watched, Protocol):
    """A lease, as far as the books on it go."""

    @property
    def context(self) -> int | None: ...
    @property
    def _key(self) -> str: ...
    @property
    def _native(self) -> _native.Lease: ...
    @property
    def _owner(self) -> Owner | None: ...


L = TypeVar("L", bound=Held)


class Holds(Generic[L]):
    """The leases that were not released yet, by owner and lock (`LockSettings.key`).

    The core decides who holds what; this only finds the Python object again. What the
    core forgets (a fixed lease that was lost) is dropped: when it is met, or by a sweep
    now and then. So there are never many more than twice as many as were held at once.

    An owner's leases live as long as the owner. After its end they live while somebody
    refers to them; one that nobody refers to nobody could release, and so it is released.
    """

    def __init__(self, native: _native.Client, on_left: Callable[[L], None], on_dropped: Callable[[int], None]) -> None:
        self._native = native
        # Hears of each lease that lives from now on only while somebody refers to it.
        self._on_left = on_left
        # Hears of each that is released since nobody does any more, by its number.
        self._on_dropped = on_dropped
        # A lease may be released by another thread than the one that holds it.
        self._mutex = threading.Lock()
        self._leases: dict[int | None, dict[str, list[L]]] = {}
        self._left: dict[int, weakref.ref[L]] = {}
        """What ended owners held that somebody refers to."""
        self._ended: deque[int | None] = deque()
        # Since the last sweep, and how many that left.
        self._added = 0
        self._remained = 0

    def add(self, lease: L) -> bool:
        """Says whether it swept: once as many were added as the last sweep left, and 64 more."""
        with self._mutex:
            sweeps = self._added >= self._remained + 64
            if sweeps:
                known = [self._known(owner, key) for owner, keys in list(self._leases.items()) for key in list(keys)]
                self._remained = sum(map(len, known))
                self._added = 0
            self._added += 1
            self._leases.setdefault(lease.context, {}).setdefault(lease._key, []).append(lease)
        if self._ended:
            self._let_go()
        return sweeps

    def discard(self, number: int, key: str, owner: int | None) -> None:
        """Forgets a lease by its number. Idempotent."""
        with self._mutex:
            self._left.pop(number, None)
            leases = self._leases.get(owner, {}).get(key)
            if leases is not None:
                self._keep(owner, key, [lease for lease in leases if lease._native.id != number])
        if self._ended:
            self._let_go()

    def innermost(self, key: str, owner: int) -> L | None:
        """What the owner took last of this lock."""
        with self._mutex:
            leases = self._known(owner, key)
        if self._ended:
            self._let_go()
        return leases[-1] if leases else None

    def all(self) -> list[L]:
        with self._mutex:
            held = [lease for keys in self._leases.values() for leases in keys.values() for lease in leases]
            left = [lease for known in list(self._left.values()) if (lease := known()) is not None]
        self._let_go()
        return held + left

    def owners_have_ended(self, numbers: Iterable[int | None]) -> None:
        """What they held lives from now on while somebody refers to it.

        It may be called in the midst of another method here, by a garbage collection.
        """
        self._ended.extend(numbers)
        self._let_go()

    def _let_go(self) -> None:
        # Who has the mutex comes here after it.
        while self._ended and self._mutex.acquire(blocking=False):
            leases: list[L] = []
            try:
                # Step by step: an interrupt may strike, and what was begun is done again later.
                if self._ended:
                    owner = self._ended[0]
                    leases = [lease for leases in self._leases.get(owner, {}).values() for lease in leases]
                    for lease in leases:
                        self._leave(lease)
                    self._leases.pop(owner, None)
                    self._ended.popleft()
            finally:
                self._mutex.release()
            for lease in leases:
                self._on_left(lease)

    def _leave(self, lease: L) -> None:
        native, owner = lease._native, lease._owner
        kind = "callback" if owner is None else owner.kind
        self._left[native.id] = weakref.ref(lease, lambda _: self._release_left(native, kind))

    def _release_left(self, lease: _native.Lease, owner_kind: str) -> None:
        """Nobody refers to a lease of an ended owner: nobody else could release it."""
        self._left.pop(lease.id, None)
        if sys.is_finalizing() or lease.is_released:
            return
        is_valid = lease.is_valid()
        self._native.release_later(lease.id)
        self._on_dropped(lease.id)
        if is_valid:
            who = _OWNERS.get(owner_kind, owner_kind)
            text = f"lock {shown(lease.name)!r} was still held by a {who} that has ended, and is released now; "
            text += _ADVICE.get(owner_kind, "use `with`, or release it before the end")
            # Whatever the filter of warnings does, as one that makes them errors.
            _log.note(("warn", text, {"event": "owner_ended", "lock": lease.name}))
            self._native.ring()
            warnings.warn(text, RuntimeWarning, stacklevel=1)

    def _known(self, owner: int | None, key: str) -> list[L]:
        """The leases of an owner and a lock that the core knows."""
        leases = self._leases.get(owner, {}).get(key, [])
        known = [lease for lease in leases if not lease._native.is_forgotten]
        if len(known) < len(leases):
            self._keep(owner, key, known)
        return known

    def _keep(self, owner: int | None, key: str, leases: list[L]) -> None:
        keys = self._leases.get(owner, {})
        if leases:
            keys[key] = leases
        elif key in keys:
            del keys[key]
            if not keys:
                del self._leases[owner]


_OWNERS = {"job": "job of a thread pool", "callback": "callback of an event loop"}
_ADVICE = {
    "job": (
        "each call of `asyncio.to_thread` and the like is an owner of its own: acquire and release it in one, as "
        "`with` does, or keep the lease that `try_acquire` gives, and release that"
    ),
    "task": (
        "the owner is the task that calls `acquire`: use `async with`, release it before the task ends, or keep the "
        "lease that `try_acquire` gives, and release that"
    ),
    "callback": "acquire it in a task, or keep its lease until you release that",
}
