"""The connection that a client shares with its locks and leases, for threads and for asyncio."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from steadlock import _native, _process
from steadlock._holds import Held, make_holds
from steadlock._outcomes import LostReason
from steadlock._telemetry import Telemetry
from steadlock._watchlist import Watchlist

L = TypeVar("L", bound=Held)


class ConnectionBase(ABC, Generic[L]):
    """The core's client, and the leases that it holds.

    The `Client` of the package, its locks and its leases refer to the connection, and keep it alive.
    """

    def __init__(self, native: _native.Client) -> None:
        self.native = native
        self.is_closed = False
        self.telemetry: Telemetry | None = None
        """The telemetry that measures this client, if there is one."""
        self._reset_state()
        _process.register(self)

    def _reset_state(self) -> None:
        """Starts with no held lease: for a new client, and in the child of a fork."""
        self.watched: Watchlist[L] = Watchlist(self.telemetry)
        self.holds: _native.Holds[L] = make_holds(self.native, self.watched)

    def set_telemetry(self, telemetry: Telemetry | None) -> None:
        """Sets the receiver of telemetry; `None` for no receiver."""
        self.telemetry = self.watched.telemetry = telemetry

    def forget(self, lease: L) -> None:
        """Removes a lease whose release has begun."""
        self.holds.discard(lease._native.id, lease._key, lease.context)
        self.watched.discard(lease._native.id)

    def forget_by_id(self, number: int, outcome: str, lost: LostReason | None) -> None:
        """Removes the lease of this number. The core has chosen the lease, and has released it with this outcome."""
        for lease in self.holds.all():
            if lease.id == number:
                self.forget(lease)
        self.report_end(number, outcome, lost)

    def report_end(self, number: int, outcome: str, lost: LostReason | None) -> None:
        """Reports the end of a lease to the telemetry."""
        telemetry = self.telemetry
        if telemetry is not None:
            telemetry.ended(number, outcome, lost)
            telemetry.catch_up()

    # `sys.is_finalizing` is a default argument, because the names of this module can be gone when the interpreter ends.
    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing() or getattr(self, "is_closed", True):
            return
        self._stop_listening()
        # A thread that has not ended yet would keep the telemetry alive, and the telemetry would still count this
        # client.
        self.set_telemetry(None)
        held = [lease.id for lease in self.holds.all() if lease._native.is_valid()]
        if held:
            _process.release_at_exit(self.native, held)
            warnings.warn(
                f"a Steadlock client was dropped while it held {len(held)} lock(s), "
                "which stay held; release them, or close the client",
                ResourceWarning,
                stacklevel=2,
            )

    @abstractmethod
    def _stop_listening(self) -> None:
        """Stops listening to the core, because the program has dropped the client."""

    # The methods for `_process`.

    def after_fork(self) -> None:
        if self.telemetry is not None:
            self.telemetry.after_fork()
        self._reset_state()

    @abstractmethod
    def stop(self) -> None: ...

    def owners_have_ended(self, numbers: list[int | None]) -> None:
        self.holds.owners_have_ended(numbers)

    def leases_without_owner(self) -> tuple[_native.Client, list[int]]:
        return self.native, [
            lease.id
            for lease in self.holds.all()
            if lease._native.is_valid() and not (lease._owner and lease._owner.can_run_at_exit())
        ]


ConnectionT = TypeVar("ConnectionT", bound=ConnectionBase[Any])
