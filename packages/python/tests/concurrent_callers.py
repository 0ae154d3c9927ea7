"""Eight callers that ask for one lock at the same time, such as at the first use of a client."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import steadlock
from steadlock import aio

CALLERS = 8
LIMIT = 10
"""No wait may take longer than this many seconds."""


def check_one_thread_is_granted(lock: steadlock.Lock) -> None:
    """Each thread makes one attempt. The server answers all attempts and grants one, so that no thread raises."""
    together = threading.Barrier(CALLERS)

    def attempt(_: int) -> bool:
        together.wait(LIMIT)
        try:
            lease = lock.try_acquire()
        finally:
            # The holder keeps the lock until all were answered.
            together.wait(LIMIT)
        return lease is not None and lease.release() == "released"

    with ThreadPoolExecutor(CALLERS) as threads:
        assert sum(threads.map(attempt, range(CALLERS), timeout=LIMIT)) == 1


def check_all_threads_are_granted(lock: steadlock.Lock) -> None:
    """Each thread waits with a bound."""
    together = threading.Barrier(CALLERS)
    holders: list[int] = []

    def enter(number: int) -> None:
        together.wait(LIMIT)
        lease = lock.try_acquire(wait=LIMIT)
        assert lease is not None
        holders.append(number)
        assert len(holders) == 1
        holders.clear()
        assert lease.release() == "released"

    with ThreadPoolExecutor(CALLERS) as threads:
        assert len(list(threads.map(enter, range(CALLERS), timeout=2 * LIMIT))) == CALLERS


async def check_one_task_is_granted(lock: aio.Lock) -> None:
    """As `check_one_thread_is_granted`, with tasks."""
    together = asyncio.Barrier(CALLERS)

    async def attempt() -> bool:
        try:
            lease = await lock.try_acquire()
        finally:
            # The holder keeps the lock until all were answered.
            await together.wait()
        return lease is not None and await lease.release() == "released"

    async with asyncio.timeout(LIMIT):
        assert sum(await asyncio.gather(*(attempt() for _ in range(CALLERS)))) == 1


async def check_all_tasks_are_granted(lock: aio.Lock) -> None:
    """As `check_all_threads_are_granted`, with tasks."""
    holders: list[int] = []

    async def enter(number: int) -> None:
        lease = await lock.try_acquire(wait=LIMIT)
        assert lease is not None
        holders.append(number)
        await asyncio.sleep(0)
        assert holders == [number]
        holders.clear()
        assert await lease.release() == "released"

    async with asyncio.timeout(2 * LIMIT):
        await asyncio.gather(*(enter(number) for number in range(CALLERS)))
