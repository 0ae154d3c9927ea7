"""Tests of leases whose client is closed before their release, in a `with` and outside of one."""

# ruff: noqa: PT012 (the scope that raises is the thing under test)

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from servers import RedisServer, Store, eventually

import steadlock
from steadlock import aio

KINDS: dict[str, Callable[[Any, str], Any]] = {
    "lock": lambda client, name: client.lock(name),
    "mutex": lambda client, name: client.mutex(name),
    "fair lock": lambda client, name: client.fair_lock(name),
    "read side": lambda client, name: client.read_write_lock(name).read,
    "write side": lambda client, name: client.read_write_lock(name).write,
    "semaphore": lambda client, name: client.semaphore(name, 3),
    "several as one": lambda client, name: client.multi_lock([client.lock(name), client.mutex(f"{name}-2")]),
    "of fixed leases": lambda client, name: client.lock(name, lease=20),
}


class BodyFailedError(Exception):
    pass


def memories() -> list[str]:
    return [f"memory://{uuid.uuid4()}" for _ in range(3)]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[Any, str], Any]:
    return KINDS[request.param]


def test_a_release_after_close_returns_released(client: steadlock.Client, make: Callable[[Any, str], Any]) -> None:
    lock = make(client, "a")
    lease = lock.try_acquire()
    client.close()
    assert lease.lost_reason == "closed"
    assert [lease.release(), lease.release()] == ["released", "released"]
    with pytest.raises(steadlock.ClosedError):
        lock.release()


async def test_a_release_after_close_returns_released_in_asyncio(
    aclient: aio.Client, make: Callable[[Any, str], Any]
) -> None:
    lock = make(aclient, "a")
    lease = await lock.try_acquire()
    await aclient.close()
    assert lease.lost_reason == "closed"
    assert [await lease.release(), await lease.release()] == ["released", "released"]
    with pytest.raises(steadlock.ClosedError):
        await lock.release()


async def test_a_release_after_close_returns_released_with_redlock() -> None:
    with steadlock.redlock(memories()) as client:
        lease = client.lock("a").try_acquire()
        assert lease is not None
        client.close()
        assert lease.release() == "released"
    async with aio.redlock(memories()) as aclient:
        alease = await aclient.lock("a").try_acquire()
        assert alease is not None
        await aclient.close()
        assert await alease.release() == "released"


def test_a_lease_of_asyncio_is_released_after_its_loop_and_its_client_in_another_loop() -> None:
    async def acquire() -> aio.Lease:
        async with aio.connect("memory://") as client:
            lease = await client.lock("a").try_acquire()
            assert lease is not None
            return lease

    async def release(lease: aio.Lease) -> str:
        return await lease.release()

    assert asyncio.run(release(asyncio.run(acquire()))) == "released"


def test_a_release_after_close_returns_an_earlier_loss(client: steadlock.Client) -> None:
    removed, expired = client.lock("a").try_acquire(), client.lock("b").try_acquire(wait=20, lease=0.1)
    assert removed is not None
    assert expired is not None
    assert client.force_release(client.lock("a"))
    with pytest.raises(steadlock.LockLostError):
        removed.extend(60)
    eventually(5, lambda: expired.lost_reason == "expired")
    client.close()
    assert [removed.release(), expired.release()] == ["expired", "expired"]


def test_a_release_after_close_returns_the_outcome_of_the_close(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client:
        removed, stolen, held = (client.mutex(name).try_acquire() for name in ("a", "b", "c"))
        assert removed is not None
        assert stolen is not None
        assert held is not None
        store.delete("a")
        store.set("b", "00000000-0000-4000-8000-000000000000:9007199254740993")
        client.close()
        assert [removed.release(), stolen.release(), held.release()] == ["expired", "stolen", "released"]


def test_a_release_after_an_unanswered_close_returns_unknown(own_server: RedisServer) -> None:
    with steadlock.connect(own_server.url) as client:
        lease = client.lock("a").try_acquire()
        assert lease is not None
        own_server.kill()
        client.close()
        assert [lease.release(), lease.release()] == ["unknown", "unknown"]


def test_closing_the_client_inside_with_raises_lock_lost(
    client: steadlock.Client, make: Callable[[Any, str], Any]
) -> None:
    with pytest.raises(steadlock.LockLostError) as raised, make(client, "a"):
        client.close()
    assert raised.value.reason == "closed"


def test_closing_the_client_inside_with_keeps_the_error_of_the_body(
    client: steadlock.Client, make: Callable[[Any, str], Any]
) -> None:
    with pytest.raises(BodyFailedError) as raised, make(client, "a"):
        client.close()
        raise BodyFailedError
    assert "lost" in "".join(raised.value.__notes__)


async def test_closing_the_client_inside_async_with_raises_lock_lost(
    aclient: aio.Client, make: Callable[[Any, str], Any]
) -> None:
    with pytest.raises(steadlock.LockLostError) as raised:
        async with make(aclient, "a"):
            await aclient.close()
    assert raised.value.reason == "closed"


async def test_closing_the_client_inside_async_with_keeps_the_error_of_the_body(
    aclient: aio.Client, make: Callable[[Any, str], Any]
) -> None:
    with pytest.raises(BodyFailedError):
        async with make(aclient, "a"):
            closing = asyncio.ensure_future(aclient.close())
            try:
                await closing
            finally:
                raise BodyFailedError


@pytest.mark.parametrize("fails", [False, True])
def test_closing_the_client_in_a_signal_handler_keeps_the_error_of_the_body(
    client: steadlock.Client, make: Callable[[Any, str], Any], fails: bool
) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: client.close())
    try:
        with pytest.raises(BodyFailedError if fails else steadlock.LockLostError), make(client, "a"):
            os.kill(os.getpid(), signal.SIGUSR1)
            eventually(5, lambda: client.closed)
            if fails:
                raise BodyFailedError
    finally:
        signal.signal(signal.SIGUSR1, before)
