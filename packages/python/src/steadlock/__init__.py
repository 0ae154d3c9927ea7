"""A distributed lock on Redis or Valkey, shared with Node, Kotlin, Java and Rust.

    import steadlock

    with steadlock.connect("redis://localhost") as client:
        with client.lock("stock") as lease:
            sell(fencing_token=lease.token)

Besides `lock`, a client has `mutex`, `fair_lock`, `read_write_lock`, `semaphore` and `multi_lock`; `once` for jobs that
run once in a fleet, and `leader` for the leader of a group of processes. `redlock` makes a client whose locks are held
by a majority of several servers. `steadlock.aio` has the same API for asyncio. Durations are seconds or `timedelta`.
"""

import importlib
from typing import TYPE_CHECKING

from steadlock import _loading as _loading
from steadlock._job import EndedRun, LastRun, OnFailure
from steadlock._leader import Candidate, CurrentTerm, Leadership
from steadlock._native import __version__ as __version__
from steadlock._outcomes import LostReason, ReleaseOutcome, RunOutcome, RunState, SkipReason
from steadlock._settings import INHERIT, Duration, OnBusy, OnUnavailable
from steadlock._threads.client import Client, connect, redlock
from steadlock._threads.job import Job, Run
from steadlock._threads.leader import Leader, Observer, Term
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
    "Candidate",
    "Client",
    "ClientInfo",
    "ClosedError",
    "CurrentTerm",
    "Duration",
    "EndedRun",
    "ForkedError",
    "Hold",
    "Holder",
    "InvalidArgumentError",
    "Job",
    "LastRun",
    "Leader",
    "Leadership",
    "Lease",
    "Lock",
    "LockLostError",
    "LockTimeoutError",
    "LostReason",
    "MisconfiguredError",
    "NotOwnerError",
    "Observer",
    "OnBusy",
    "OnFailure",
    "OnUnavailable",
    "ReadWriteLock",
    "ReleaseOutcome",
    "Run",
    "RunOutcome",
    "RunState",
    "Semaphore",
    "SkipReason",
    "SkippedError",
    "SteadlockError",
    "Term",
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
