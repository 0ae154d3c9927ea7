"""Steadlock for asyncio: the same API as `steadlock`, with coroutines.

    async with steadlock.aio.connect("redis://localhost") as client:
        async with client.lock("stock") as lease:
            await sell(fencing_token=lease.token)

In an event loop, the owner of a lock is the task that calls `acquire()`; a child task is another owner. If a lease is
lost inside `async with`, the task is cancelled there, and the block raises `LockLostError` instead of the cancellation;
an exception that the body raises itself stays, with a note of the loss. A client belongs to one event loop at a time.
"""

from steadlock.aio._client import Client, Connecting, LazyClient, connect, redlock
from steadlock.aio._job import Job, Run
from steadlock.aio._leader import Leader, Observer, Term
from steadlock.aio._lease import Lease
from steadlock.aio._lock import Hold, Lock, ReadWriteLock
from steadlock.aio._semaphore import Semaphore

__all__ = [
    "Client",
    "Connecting",
    "Hold",
    "Job",
    "LazyClient",
    "Leader",
    "Lease",
    "Lock",
    "Observer",
    "ReadWriteLock",
    "Run",
    "Semaphore",
    "Term",
    "connect",
    "redlock",
]
