"""What a client tells those who measure it from outside. Nobody does unless the program asks for it.

It names no library of theirs: `steadlock.opentelemetry` is one who measures.
"""

from __future__ import annotations

from typing import Protocol

from steadlock import _native
from steadlock._endings import LostReason
from steadlock._settings import LockSettings


class Wait(Protocol):
    """One acquisition, from the call on."""

    def granted(self, lease: _native.Lease) -> None:
        """The caller gets the lease, and holds it from now on."""
        ...

    def failed(self, error: BaseException) -> None:
        """The caller gets this instead. If it struck after `granted`, the lease is released."""
        ...


class Telemetry(Protocol):
    """What measures one client. No method raises an `Exception`."""

    def wait(self, settings: LockSettings) -> Wait:
        """A caller asks for a lock, in the context in which this is called."""
        ...

    def ended(self, number: int, outcome: str, reason: LostReason | None) -> None:
        """The lease of this number was released, or is lost; the first word of it counts.

        This only takes a note, so that it may be called under a lock, or in the midst of a collection
        of garbage: `catch_up` does the rest.
        """
        ...

    def dropped(self, number: int) -> None:
        """The same of a lease that is released since nobody refers to it. Has `catch_up` called soon."""
        ...

    def is_behind(self) -> bool:
        """Whether there is anything for `catch_up` to do."""
        ...

    def catch_up(self) -> None:
        """Ends what is noted. Runs code of the program."""
        ...

    def closed(self) -> None:
        """The client was closed: all leases that it still has are lost."""
        ...

    def after_fork(self) -> None:
        """In the child of a fork, which holds nothing and counts from zero."""
        ...
