"""Tests of fixed leases that have expired: they leave no memory behind, and a newer lease of the lock stays valid."""

# ruff: noqa: PT012 (the scope that raises is the thing under test)

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from servers import eventually

import steadlock
from steadlock import aio

BATCH, BATCHES = 1_000, 4

# A sweep runs when the leases that were added since the last sweep outnumber by 64 those that it left.
MAX_HOLDS = 2 * BATCH + 64


def are_lost(leases: list[steadlock.Lease | None]) -> bool:
    return all(lease is not None and lease.lost_reason for lease in leases)


@pytest.mark.parametrize("observes", [False, True], ids=["unobserved", "observed"])
def test_expired_leases_do_not_accumulate(observes: bool) -> None:
    with steadlock.connect("memory://") as client:
        for batch in range(BATCHES):
            locks = [client.lock(f"door-{batch}-{number}", lease=0.1) for number in range(BATCH)]
            leases = [lock.try_acquire(wait=20) for lock in locks]
            for lease in leases:
                assert lease is not None
                if observes:
                    assert lease.lost.wait(5)
                    # A second listener, after the loss was reported, leaves nothing behind either.
                    lease.on_lost(lambda _: None)
            eventually(5, partial(are_lost, leases))
            assert len(client._connection.holds.all()) <= MAX_HOLDS
        for _ in range(MAX_HOLDS):
            with client.lock("window"):
                pass
        assert client._connection.holds.all() == []
        assert len(client._connection.watched) == 0
        assert client._connection.native.drain() == ([], [], [])


async def test_expired_leases_do_not_accumulate_in_asyncio() -> None:
    async with aio.connect("memory://") as client:
        for batch in range(BATCHES):
            locks = [client.lock(f"door-{batch}-{number}", lease=0.1) for number in range(BATCH)]
            leases = [await lock.try_acquire(wait=20) for lock in locks]
            for lease in leases:
                assert lease is not None
                await asyncio.wait_for(lease.lost.wait(), 5)
            assert len(client._connection.holds.all()) <= MAX_HOLDS
        for _ in range(MAX_HOLDS):
            async with client.lock("window"):
                pass
        assert client._connection.holds.all() == []
        assert len(client._connection.watched) == 0
        assert client._connection.mailbox._requests == {}


def test_a_scope_with_an_expired_lease_keeps_a_newer_lease_of_its_thread(client: steadlock.Client) -> None:
    lock = client.lock("door")
    for scope in (client.lock("door", lease=0.2), lock.hold(lease=0.2)):
        with pytest.raises(steadlock.LockLostError) as caught, scope as lease:
            assert lease.lost.wait(5)
            assert lock.acquire()
        assert caught.value.reason == "expired"
        assert lock.owned()
        assert lock.locked()
        assert lock.release() == "released"


async def test_a_scope_with_an_expired_lease_keeps_a_newer_lease_of_its_task(url: str) -> None:
    async with aio.connect(url) as client:
        lock = client.lock("door")
        for scope in (client.lock("door", lease=0.2), lock.hold(lease=0.2)):
            with pytest.raises(steadlock.LockLostError) as caught:
                async with scope:
                    # The loss cancels the body of the scope; this body ignores the cancellation.
                    with pytest.raises(asyncio.CancelledError):
                        await asyncio.sleep(5)
                    assert await lock.acquire()
            assert caught.value.reason == "expired"
            assert lock.owned()
            assert await lock.locked()
            assert await lock.release() == "released"


def test_inner_levels_end_with_an_expired_lease(client: steadlock.Client) -> None:
    lock = client.lock("door", lease=0.2)
    outer, inner = lock.try_acquire(wait=20), lock.try_acquire()
    assert outer is not None
    assert inner is not None
    assert outer.lost.wait(5)
    assert inner.lost.wait(5)
    assert lock.lease is None
    newer = lock.try_acquire(wait=5, lease=20)
    assert newer is not None
    assert inner.release() == "expired"
    assert outer.release() == "expired"
    assert newer.is_valid()
    assert lock.lease is newer
    assert lock.release() == "released"


def test_leases_of_a_closed_client_are_lost_as_closed(client: steadlock.Client) -> None:
    lock = client.lock("door")
    lease = lock.try_acquire()
    assert lease is not None
    client.close()
    assert lease.lost_reason == "closed"
    with pytest.raises(steadlock.ClosedError):
        lock.release()
