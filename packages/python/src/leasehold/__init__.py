"""A distributed lock on Redis or Valkey, shared with Node, Kotlin, Java and Rust.

    import leasehold

    with leasehold.connect("redis://localhost") as client:
        with client.lock("stock") as lease:
            sell(fencing_token=lease.token)

Besides `lock`, a client has `mutex`, `fair_lock`, `read_write_lock`, `semaphore` and
`multi_lock`. `redlock` gives one whose locks a majority of several servers holds.
`leasehold.aio` has the same for asyncio. Durations are seconds or `timedelta`.
"""

import importlib
from typing import TYPE_CHECKING

from leasehold import _loading as _loading
from leasehold._endings import LostReason, ReleaseOutcome
from leasehold._native import __version__ as __version__
from leasehold._settings import INHERIT, Duration, OnUnavailable
from leasehold._threads.client import Client, connect, redlock
from leasehold._threads.lease import Lease
from leasehold._threads.lock import Hold, Lock, ReadWriteLock
from leasehold._threads.semaphore import Semaphore
from leasehold.errors import (
    ClientInfo,
    ClosedError,
    ForkedError,
    Holder,
    InvalidArgumentError,
    LeaseholdError,
    LockLostError,
    LockTimeoutError,
    MisconfiguredError,
    NotOwnerError,
    UnavailableError,
)

if TYPE_CHECKING:
    from types import ModuleType

    from leasehold import aio as aio

__all__ = [
    "INHERIT",
    "Client",
    "ClientInfo",
    "ClosedError",
    "Duration",
    "ForkedError",
    "Hold",
    "Holder",
    "InvalidArgumentError",
    "Lease",
    "LeaseholdError",
    "Lock",
    "LockLostError",
    "LockTimeoutError",
    "LostReason",
    "MisconfiguredError",
    "NotOwnerError",
    "OnUnavailable",
    "ReadWriteLock",
    "ReleaseOutcome",
    "Semaphore",
    "UnavailableError",
    "aio",
    "connect",
    "redlock",
]


def __getattr__(name: str) -> "ModuleType":
    """Loads `leasehold.aio` when a program first asks for it: asyncio takes longer than all else."""
    if name == "aio":
        return importlib.import_module("leasehold.aio")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
