"""Steadlock for asyncio: the same names as in `steadlock`, awaited.

    async with steadlock.aio.connect("redis://localhost") as client:
        async with client.lock("stock") as lease:
            await sell(fencing_token=lease.token)

A lock is owned by the task that calls `acquire()`: a child task is another owner. If a
lease is lost inside of `async with`, the task is cancelled there, and the cancellation
leaves the block as `LockLostError`. A client belongs to one event loop at a time.
"""

from steadlock.aio._client import Client, Connecting, LazyClient, connect, redlock
from steadlock.aio._lease import Lease
from steadlock.aio._lock import Hold, Lock, ReadWriteLock
from steadlock.aio._semaphore import Semaphore

__all__ = [
    "Client",
    "Connecting",
    "Hold",
    "LazyClient",
    "Lease",
    "Lock",
    "ReadWriteLock",
    "Semaphore",
    "connect",
    "redlock",
]
