"""The interface by which a client reports to telemetry, if the program asks for telemetry.

This module uses no telemetry library. `steadlock.opentelemetry` implements the interface.
"""

from __future__ import annotations

from typing import Protocol

from steadlock import _native
from steadlock._outcomes import LostReason
from steadlock._settings import LockSettings


class Wait(Protocol):
    """One acquisition, from the start of the call."""

    def granted(self, lease: _native.Lease) -> None:
        """Called when the caller gets the lease."""
        ...

    def failed(self, error: BaseException) -> None:
        """Called when the acquisition raises. If that happens after `granted`, the lease is released."""
        ...


class Telemetry(Protocol):
    """The telemetry of one client. No method raises an `Exception`."""

    def wait(self, settings: LockSettings) -> Wait:
        """Called when a caller requests a lock, in the caller's `contextvars` context, which has the current span."""
        ...

    def ended(self, number: int, outcome: str, reason: LostReason | None) -> None:
        """Called when the lease of this number was released or lost. Only the first call counts.

        Only stores the report, so that it can be called under a lock or during a garbage collection. `catch_up` does
        the rest.
        """
        ...

    def dropped(self, number: int) -> None:
        """Called when a lease is released because nothing refers to it any more. Makes sure that `catch_up` is called
        soon.
        """
        ...

    def is_behind(self) -> bool:
        """Whether `catch_up` has work to do."""
        ...

    def catch_up(self) -> None:
        """Processes the stored reports. Runs code of the program."""
        ...

    def closed(self) -> None:
        """Called when the client was closed: all its leases are lost."""
        ...

    def after_fork(self) -> None:
        """Called in the child of a fork, which holds no lease and counts from zero."""
        ...
