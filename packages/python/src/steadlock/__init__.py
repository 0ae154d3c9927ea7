"""A distributed lock on Redis or Valkey, shared with Node, Kotlin, Java and Rust.

    import steadlock

    with steadlock.connect("redis://localhost") as client:
        with client.lock("stock") as lease:
            sell(fencing_token=lease.token)

Besides `lock`, a client has `mutex`, `fair_lock`, `read_write_lock`, `semaphore` and `multi_lock`. `redlock` makes a
client whose locks are held by a majority of several servers. `steadlock.aio` has the same API for asyncio. Durations
are seconds or `timedelta`.
"""

import importlib
from typing import TYPE_CHECKING

from steadlock import _loading as _loading
from steadlock._native import __version__ as __version__
from steadlock._outcomes import LostReason, ReleaseOutcome, SkipReason
from steadlock._settings import INHERIT, Duration, OnBusy, OnUnavailable
from steadlock._threads.client import Client, connect, redlock
from steadlock._threads.lease import Lease
from steadlock._threads.lock import Hold, Lock, ReadWriteLock
from steadlock._threads.semaphore import Semaphore
from steadlock.errors import (
    ClientInfo,
    ClosedError,
    ForkedError,
    Holder,
    InvalidArgumentError,
    LockLostError,
    LockTimeoutError,
    MisconfiguredError,
    NotOwnerError,
    SkippedError,
    SteadlockError,
    UnavailableError,
)

if TYPE_CHECKING:
    from types import ModuleType

    from steadlock import aio as aio

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
    "Lock",
    "LockLostError",
    "LockTimeoutError",
    "LostReason",
    "MisconfiguredError",
    "NotOwnerError",
    "OnBusy",
    "OnUnavailable",
    "ReadWriteLock",
    "ReleaseOutcome",
    "Semaphore",
    "SkipReason",
    "SkippedError",
    "SteadlockError",
    "UnavailableError",
    "aio",
    "connect",
    "redlock",
]


def __getattr__(name: str) -> "ModuleType":
    """Loads `steadlock.aio` at its first use, because asyncio takes longer to load than all the rest."""
    if name == "aio":
        return importlib.import_module("steadlock.aio")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
