"""Clients that connect at their first use."""

from __future__ import annotations

import asyncio
import threading

import pytest
from servers import RedisServer, free_port

import steadlock
from steadlock import aio


def test_a_client_is_made_before_its_server_is_up(own_server: RedisServer) -> None:
    own_server.kill()
    with steadlock.connect(own_server.url, lazy=True) as client:
        lock = client.lock("door")
        with pytest.raises(steadlock.UnavailableError, match=str(own_server.port)) as caught:
            lock.try_acquire()
        assert str(own_server.port) in str(caught.value.node)
        assert caught.value.retryable
        waiter = threading.Thread(target=lambda: held.append(lock.try_acquire(wait=30)))
        held: list[steadlock.Lease | None] = []
        waiter.start()
        own_server.start()
        waiter.join(30)
        assert held[0] is not None
        assert held[0].release() == "released"


async def test_a_client_for_tasks_is_made_before_its_server_is_up(own_server: RedisServer) -> None:
    own_server.kill()
    async with aio.connect(own_server.url, lazy=True) as client:
        lock = client.lock("door")
        with pytest.raises(steadlock.UnavailableError, match=str(own_server.port)) as caught:
            await lock.try_acquire()
        assert str(own_server.port) in str(caught.value.node)
        assert caught.value.retryable
        waiter = asyncio.create_task(lock.try_acquire(wait=30))
        own_server.start()
        lease = await waiter
        assert lease is not None
        assert await lease.release() == "released"


def test_what_is_wrong_for_good_is_told_at_the_first_use() -> None:
    with RedisServer("--requirepass", "right") as server:
        client = steadlock.connect(f"redis://:wrong@127.0.0.1:{server.port}", lazy=True)
        for _ in range(2):
            with pytest.raises(steadlock.MisconfiguredError, match="password"):
                client.lock("door").acquire()
        client.close()


def test_one_that_is_never_used_connects_to_nothing() -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}"
    with steadlock.connect(nowhere, lazy=True):
        pass
    asyncio.run(unused(nowhere))
    majority = [f"redis://127.0.0.1:{free_port()}" for _ in range(3)]
    with steadlock.redlock(majority, lazy=True):
        pass


async def unused(url: str) -> None:
    async with aio.connect(url, lazy=True):
        pass


@pytest.mark.parametrize("lazy", [1, None, "yes"])
def test_lazy_is_true_or_false(lazy: object) -> None:
    with pytest.raises(TypeError, match="lazy is True or False"):
        steadlock.connect("memory://", lazy=lazy)  # type: ignore[arg-type]
