"""Tests of all kinds but `lock`, with asyncio tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

import steadlock
from steadlock import aio

T = TypeVar("T")


async def in_another_task(work: Callable[[], Awaitable[T]]) -> T:
    """Calls `work` in a new task, and returns its result or raises its error."""

    async def run() -> T:
        return await work()

    return await asyncio.wait_for(asyncio.create_task(run()), 20)


@pytest.mark.parametrize("kind", ["mutex", "fair_lock"])
async def test_mutex_and_fair_lock_are_used_like_a_lock(aclient: aio.Client, kind: str) -> None:
    lock: aio.Lock = getattr(aclient, kind)("door", wait=0)
    async with lock as lease:
        assert lock.lease is lease
        assert lock.owned()
        assert await lock.locked()
        assert lease.token is not None
        assert await in_another_task(lock.acquire) is False
    assert not await lock.locked()


async def test_a_mutex_is_not_reentrant(aclient: aio.Client) -> None:
    async with aclient.mutex("door"):
        assert await aclient.mutex("door").try_acquire() is None
        assert await aclient.mutex("door").acquire(timeout=0.25) is False
        async with asyncio.timeout(10):
            with pytest.raises(steadlock.InvalidArgumentError, match="not reentrant"):
                await aclient.mutex("door").acquire()


async def test_a_fair_lock_can_release_a_lease_of_a_plain_lock(aclient: aio.Client) -> None:
    plain, fair = aclient.lock("door"), aclient.fair_lock("door")
    assert await plain.acquire()
    assert await fair.release() == "released"
    assert plain.lease is None
    with pytest.raises(steadlock.NotOwnerError):
        await plain.release()


async def test_readers_share_and_a_writer_can_read(aclient: aio.Client) -> None:
    door = aclient.read_write_lock("door", wait=0.25)
    assert door.name == "door"
    async with door.read as lease:
        assert lease.token is None
        other = await in_another_task(door.read.try_acquire)
        assert other is not None
        assert await in_another_task(door.write.acquire) is False
        with pytest.raises(steadlock.InvalidArgumentError):
            await door.write.acquire()
        await other.release()
    assert await door.write.acquire()
    async with door.read as reading:
        await door.write.release()
        assert reading.is_valid()
        assert await in_another_task(door.write.try_acquire) is None


async def test_a_semaphore_counts_permits(aclient: aio.Client) -> None:
    seats = aclient.semaphore("seats", 3, wait=0.25)
    assert (seats.name, seats.limit, await seats.available()) == ("seats", 3, 3)
    two = await seats.acquire(2)
    assert await seats.available() == 1
    assert await seats.try_acquire(2) is None
    with pytest.raises(steadlock.LockTimeoutError):
        await seats.acquire(2)
    async with seats as one:
        assert seats.lease is one
        assert one.token is None
        assert await seats.available() == 0
    assert await two.release() == "released"
    async with seats.hold(permits=3):
        assert await seats.available() == 0
    assert await seats.available() == 3


async def test_a_semaphore_releases_the_last_lease_of_the_task(aclient: aio.Client) -> None:
    seats = aclient.semaphore("seats", 5)
    first, second = await seats.acquire(2), await seats.acquire(3)
    with pytest.raises(steadlock.NotOwnerError):
        await in_another_task(seats.release)
    assert await seats.release() == "released"
    assert (first.is_valid(), second.is_valid()) == (True, False)
    assert await seats.release() == "released"
    assert await seats.available() == 5


async def test_permits_are_a_lock_and_a_member_of_a_composite(aclient: aio.Client) -> None:
    seats = aclient.semaphore("seats", 3)
    two = seats.permits(2)
    assert isinstance(two, aio.Lock)
    async with two as lease:
        assert await seats.available() == 1
        assert two.lease is seats.lease is lease
    async with aclient.multi_lock([aclient.lock("door"), two]):
        assert await seats.available() == 1
    assert await seats.available() == 3


async def test_holder_names_the_holder_of_a_lock(aclient: aio.Client) -> None:
    lock = aclient.lock("door", lease=20)
    assert await lock.holder() is None
    async with lock:
        holder = await lock.holder()
        assert holder is not None
        assert holder.remaining is not None
        assert 15 < holder.remaining <= 20
        with pytest.raises(steadlock.LockTimeoutError) as caught:
            await in_another_task(lock.hold(wait=0.25).__aenter__)
        assert caught.value.holder is not None
        assert caught.value.holder.owner == holder.owner


async def test_a_cancelled_wait_for_permits_leaves_no_record(aclient: aio.Client) -> None:
    seats = aclient.semaphore("seats", 2)
    async with seats.hold(permits=2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(seats.acquire(2), 0.05)
    assert await seats.available() == 2


async def test_an_operator_changes_the_limit_of_a_semaphore(aclient: aio.Client) -> None:
    seats = aclient.semaphore("seats", 3)
    assert await aclient.set_limit("seats", 2) is False, "nobody holds a permit"
    async with seats.hold(permits=3) as lease:
        assert await aclient.set_limit("seats", 2) is True
        with pytest.raises(steadlock.MisconfiguredError):
            await in_another_task(seats.acquire)
        assert await aclient.semaphore("seats", 2).try_acquire() is None
        assert lease.is_valid()
    with pytest.raises(steadlock.InvalidArgumentError):
        await aclient.set_limit("seats", 0)


async def test_a_composite_scope_is_cancelled_when_a_member_is_lost(url: str) -> None:
    async with aio.connect(url, lease=2) as client:
        one, two = client.lock("a"), client.mutex("b")
        both = client.multi_lock([one, two])
        assert both.name == "a, b"

        async def work() -> None:
            async with both as lease:
                assert lease.token is None
                assert await client.force_release(two) is True
                await asyncio.sleep(20)

        with pytest.raises(steadlock.LockLostError) as caught:
            await in_another_task(work)
        assert caught.value.reason == "removed"
        assert await client.lock("a").try_acquire(wait=5) is not None
        with pytest.raises(steadlock.InvalidArgumentError):
            await both.locked()
        with pytest.raises(steadlock.InvalidArgumentError):
            await client.force_release(both)


async def test_locks_of_another_client_are_refused(aclient: aio.Client) -> None:
    async with aio.connect("memory://") as other:
        with pytest.raises(steadlock.InvalidArgumentError):
            aclient.multi_lock([other.lock("door")])
        with pytest.raises(steadlock.InvalidArgumentError):
            await aclient.force_release(other.lock("door"))


async def test_reprs(aclient: aio.Client) -> None:
    assert repr(aclient.fair_lock("door")) == "<steadlock.aio.Lock 'door'>"
    assert repr(aclient.semaphore("seats", 3)) == "<steadlock.aio.Semaphore 'seats'>"
