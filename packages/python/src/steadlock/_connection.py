"""What a client, its locks and its leases work with, for threads and for asyncio."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from steadlock import _native, _process
from steadlock._endings import LostReason
from steadlock._holds import Held, holds_of
from steadlock._telemetry import Telemetry
from steadlock._watchlist import Watchlist

L = TypeVar("L", bound=Held)


class ConnectionBase(ABC, Generic[L]):
    """The core's client, and the leases that are held by it.

    It lives as long as the client, or a lock or a lease of it.
    """

    def __init__(self, native: _native.Client) -> None:
        self.native = native
        self.is_closed = False
        self.telemetry: Telemetry | None = None
        """What measures the client from outside, if anything does."""
        self._begin()
        _process.register(self)

    def _begin(self) -> None:
        """With nothing held: at first, and in the child of a fork."""
        self.watched: Watchlist[L] = Watchlist(self.telemetry)
        self.holds: _native.Holds[L] = holds_of(self.native, self.watched)

    def measure_by(self, telemetry: Telemetry | None) -> None:
        """From now on that is told what the client does; nothing is, if it is `None`."""
        self.telemetry = self.watched.telemetry = telemetry

    def forget(self, lease: L) -> None:
        """The lease is being released."""
        self.holds.discard(lease._native.id, lease._key, lease.context)
        self.watched.discard(lease._native.id)

    def forget_number(self, number: int, outcome: str, lost: LostReason | None) -> None:
        """The lease of this number, which the core chose, was released, and this is how it ended."""
        for lease in self.holds.all():
            if lease.id == number:
                self.forget(lease)
        self.tell_ended(number, outcome, lost)

    def tell_ended(self, number: int, outcome: str, lost: LostReason | None) -> None:
        """Has the telemetry told how a lease ended."""
        telemetry = self.telemetry
        if telemetry is not None:
            telemetry.ended(number, outcome, lost)
            telemetry.catch_up()

    # At the end of the interpreter this module's own names may be gone.
    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing() or getattr(self, "is_closed", True):
            return
        self._leave()
        # What measures it may still be known to a thread that is about to end, and counts no longer.
        self.measure_by(None)
        held = [lease.id for lease in self.holds.all() if lease._native.is_valid()]
        if held:
            _process.keep_until_exit(self.native, held)
            warnings.warn(
                f"a Steadlock client was dropped while it held {len(held)} lock(s), "
                "which stay held; release them, or close the client",
                ResourceWarning,
                stacklevel=2,
            )

    @abstractmethod
    def _leave(self) -> None:
        """Listens to the core no longer, as nobody uses it any more."""

    # What `_process` asks for.

    def after_fork(self) -> None:
        if self.telemetry is not None:
            self.telemetry.after_fork()
        self._begin()

    @abstractmethod
    def stop(self) -> None: ...

    def owners_have_ended(self, numbers: list[int | None]) -> None:
        self.holds.owners_have_ended(numbers)

    def stranded(self) -> tuple[_native.Client, list[int]]:
        return self.native, [
            lease.id
            for lease in self.holds.all()
            if lease._native.is_valid() and not (lease._owner and lease._owner.can_run_at_exit())
        ]


ConnectionT = TypeVar("ConnectionT", bound=ConnectionBase[Any])
