"""Leasehold for asyncio: the same names as in `leasehold`, awaited.

    async with leasehold.aio.connect("redis://localhost") as client:
        async with client.lock("stock") as lease:
            await sell(fencing_token=lease.token)

A lock is owned by the task that calls `acquire()`: a child task is another owner. If a
lease is lost inside of `async with`, the task is cancelled there, and the cancellation
leaves the block as `LockLostError`. A client belongs to one event loop at a time.
"""

from leasehold.aio._client import Client, Connecting, connect, redlock
from leasehold.aio._lease import Lease
from leasehold.aio._lock import Hold, Lock, ReadWriteLock
from leasehold.aio._semaphore import Semaphore

__all__ = ["Client", "Connecting", "Hold", "Lease", "Lock", "ReadWriteLock", "Semaphore", "connect", "redlock"]
