"""Tests of clients that connect at their first use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import concurrent_callers
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


@pytest.mark.parametrize(
    "ask", [concurrent_callers.check_one_thread_is_granted, concurrent_callers.check_all_threads_are_granted]
)
def test_threads_share_the_first_use_of_a_lazy_client(
    server: RedisServer, ask: Callable[[steadlock.Lock], None]
) -> None:
    for _ in range(5):
        with steadlock.connect(server.url, lazy=True) as client:
            ask(client.lock("door"))


@pytest.mark.parametrize(
    "ask", [concurrent_callers.check_one_task_is_granted, concurrent_callers.check_all_tasks_are_granted]
)
async def test_tasks_share_the_first_use_of_a_lazy_client(
    server: RedisServer, ask: Callable[[aio.Lock], Coroutine[Any, Any, None]]
) -> None:
    for _ in range(5):
        async with aio.connect(server.url, lazy=True) as client:
            await ask(client.lock("door"))


def test_a_permanent_error_is_raised_at_the_first_use() -> None:
    with RedisServer("--requirepass", "right") as server:
        client = steadlock.connect(f"redis://:wrong@127.0.0.1:{server.port}", lazy=True)
        for _ in range(2):
            with pytest.raises(steadlock.MisconfiguredError, match="password"):
                client.lock("door").acquire()
        client.close()


def test_an_unused_lazy_client_does_not_connect() -> None:
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
def test_lazy_must_be_a_bool(lazy: object) -> None:
    with pytest.raises(TypeError, match="lazy is True or False"):
        steadlock.connect("memory://", lazy=lazy)  # type: ignore[arg-type]


client_of_module = aio.connect("memory://of-the-module", lazy=True)


@client_of_module.synchronized("user:{user_id}", wait=0)
async def pay(user_id: int) -> bool:
    return client_of_module.lock(f"user:{user_id}").owned()


def test_a_lazy_aio_client_can_decorate_before_any_loop_runs() -> None:
    async def main() -> None:
        assert await pay(7)
        async with client_of_module.lock("door") as lease:
            assert lease.is_valid()

    # Several loops use the client, one after the other.
    for _ in range(3):
        asyncio.run(main())


async def test_awaiting_a_lazy_client_returns_the_same_client(url: str) -> None:
    lazy = aio.connect(url, lazy=True)
    client: aio.Client = await lazy
    assert client is lazy
    assert await lazy is client
    async with lazy as entered:
        assert entered is lazy
        async with entered.lock("door"):
            pass
    assert client.closed


async def test_a_lazy_redlock_client_works_without_being_awaited() -> None:
    urls = [f"memory://{name}" for name in ("lazy-a", "lazy-b", "lazy-c")]
    client = aio.redlock(urls, lazy=True)
    async with client.lock("door"):
        pass
    await client.close()


def test_argument_errors_are_raised_by_the_call() -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        aio.connect("no-url", lazy=True)
    with pytest.raises(TypeError, match="lazy is True or False"):
        aio.connect("memory://", lazy=1)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["lock", "synchronized", "close", "metrics"])
def test_using_a_connecting_client_names_the_missing_await(name: str) -> None:
    with pytest.raises(AttributeError, match=f"has no '{name}': await it"):
        getattr(aio.connect("memory://"), name)
    assert not hasattr(aio.connect("memory://"), name)


def test_an_unknown_attribute_is_an_ordinary_attribute_error() -> None:
    for name in ("lok", "__fspath__"):
        with pytest.raises(AttributeError, match=f"'Connecting' object has no attribute '{name}'"):
            getattr(aio.connect("memory://"), name)
