"""Tests that the memory of a client does not grow with its past work.

`STEADLOCK_LONG=1` uses 100,000 names and 100,000 leases that expire (`./ci/just test-long`).
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import multiprocessing
import os
import sys
from collections.abc import Sized
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from servers import RedisServer, eventually

import steadlock
from steadlock import _context, aio

COUNT = 100_000 if "STEADLOCK_LONG" in os.environ else 5_000
BATCH = 500
# Both times are in seconds.
LEASE = 0.1
TIMEOUT = 30


@dataclass
class Used:
    blocks: int
    """The number of blocks that Python has allocated."""
    kilobytes: int
    """The resident memory of the process; 0 if the system does not report it."""


# The growth that still counts as flat. The blocks are one for ten names, because asyncio's own tasks leave names in
# Python's caches. The kilobytes allow for pages that allocators keep.
FLAT = Used(blocks=500, kilobytes=4_000)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("work", ["names", "expirations", "observed_expirations"])
@pytest.mark.parametrize("caller", ["threads", "tasks"])
def test_memory_stays_flat(server: RedisServer, caller: str, work: str) -> None:
    # Runs in a separate process, because pytest keeps objects in this one.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        before, after = pool.submit(measure, caller, work, server.url).result()
    print(f"{COUNT} more: {before}, then {after}")
    assert after.blocks - before.blocks < FLAT.blocks
    assert after.kilobytes - before.kilobytes < FLAT.kilobytes


def measure(caller: str, work: str, url: str) -> list[Used]:
    """Returns the used memory after the work, and after the same amount of work again."""
    subject = Threads(url) if caller == "threads" else Tasks(url)
    batch = getattr(subject, work)
    found = []
    for begin in (0, COUNT):
        for first in range(begin, begin + COUNT, BATCH):
            batch(range(first, first + BATCH))
        # A sweep removes expired leases from the table of holds. It runs after this many further leases.
        subject.names(range(2 * BATCH + 64))
        gc.collect()
        left = {name: len(table) for name, table in subject.tables().items() if table}
        assert not left, f"left in the tables: {left}"
        found.append(used())
    subject.close()
    return found


class Threads:
    """A blocking client."""

    def __init__(self, url: str) -> None:
        self._client = steadlock.connect(url)

    def names(self, numbers: range) -> None:
        """Locks the names one after the other, each in another job, as a framework's thread runs them."""
        for number in numbers:
            contextvars.copy_context().run(self._enter, number)

    def _enter(self, number: int) -> None:
        with self._client.lock(f"name-{number}") as lease:
            assert lease.is_valid()

    def expirations(self, numbers: range) -> None:
        """Acquires leases that expire without a release."""
        leases = self._acquire_and_abandon(numbers)
        eventually(TIMEOUT, lambda: all(lease.lost_reason for lease in leases))

    def observed_expirations(self, numbers: range) -> None:
        """Acquires leases that expire without a release, and waits for their losses."""
        for lease in self._acquire_and_abandon(numbers):
            assert lease.lost.wait(TIMEOUT)

    def _acquire_and_abandon(self, numbers: range) -> list[steadlock.Lease]:
        """Acquires half of the leases through one shared object, the others through an object each."""
        seats = self._client.semaphore("seats", 2 * BATCH, lease=LEASE)
        locks = [seats if number % 2 else self._client.lock(f"expirations-{number}", lease=LEASE) for number in numbers]
        leases = [lock.try_acquire(wait=TIMEOUT) for lock in locks]
        assert None not in leases
        return [lease for lease in leases if lease]

    def tables(self) -> dict[str, Sized]:
        client = self._client
        completed, lost, _ = client._connection.native.drain()
        return {
            "holds": client._connection.holds.all(),
            "watched": client._connection.watched,
            "completed": completed,
            "lost": lost,
            "turns": _context._fiber_callers,
        }

    def close(self) -> None:
        self._client.close()


class Tasks:
    """A client of asyncio."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._connect(url))

    async def _connect(self, url: str) -> aio.Client:
        return await aio.connect(url)

    def names(self, numbers: range) -> None:
        """Locks the names, each in a task of its own."""
        self._runner.run(self._names(numbers))

    async def _names(self, numbers: range) -> None:
        await asyncio.gather(*map(self._enter, numbers))

    async def _enter(self, number: int) -> None:
        async with self._client.lock(f"name-{number}") as lease:
            assert lease.is_valid()

    def expirations(self, numbers: range) -> None:
        """Acquires leases that expire without a release."""
        self._runner.run(self._expirations(numbers))

    async def _expirations(self, numbers: range) -> None:
        leases = await self._acquire_and_abandon(numbers)
        await asyncio.to_thread(eventually, TIMEOUT, lambda: all(lease.lost_reason for lease in leases))

    def observed_expirations(self, numbers: range) -> None:
        """Acquires leases that expire without a release, and waits for their losses."""
        self._runner.run(self._observed_expirations(numbers))

    async def _observed_expirations(self, numbers: range) -> None:
        async with asyncio.timeout(TIMEOUT):
            for lease in await self._acquire_and_abandon(numbers):
                await lease.lost.wait()

    async def _acquire_and_abandon(self, numbers: range) -> list[aio.Lease]:
        """Acquires half of the leases through one shared object, the others through an object each."""
        seats = self._client.semaphore("seats", 2 * BATCH, lease=LEASE)
        locks = [seats if number % 2 else self._client.lock(f"expirations-{number}", lease=LEASE) for number in numbers]
        leases = await asyncio.gather(*(lock.try_acquire(wait=TIMEOUT) for lock in locks))
        assert None not in leases
        return [lease for lease in leases if lease]

    def tables(self) -> dict[str, Sized]:
        client, mailbox = self._client, self._client._connection.mailbox
        completed, lost, _ = client._connection.native.drain()
        return {
            "holds": client._connection.holds.all(),
            "watched": client._connection.watched,
            "futures": mailbox._requests,
            "outgoing": mailbox._outgoing,
            "completed": completed,
            "lost": lost,
            "tasks": _context._task_owners,
        }

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


def used() -> Used:
    memory = Path("/proc/self/statm")
    pages = int(memory.read_text().split()[1]) if memory.exists() else 0
    return Used(sys.getallocatedblocks(), pages * os.sysconf("SC_PAGE_SIZE") // 1_024)
