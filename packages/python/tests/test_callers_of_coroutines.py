"""Tests of the owner of a lock that a call of `steadlock.aio` outside of a task acquires."""

# ruff: noqa: PT031 (the warning comes some time after the owner has ended)

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from servers import RedisServer, eventually

import steadlock
from steadlock import aio

T = TypeVar("T")
SHORT_WAIT = 10


class Loop:
    """A loop in a thread of its own, with a client that belongs to it."""

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.client: aio.Client = self.run(self._connect(url))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(SHORT_WAIT)

    def call(self, function: Callable[[], T]) -> T:
        """Calls `function` in a callback of the loop."""
        result: list[T | BaseException] = []
        called = threading.Event()

        def call() -> None:
            try:
                result.append(function())
            except BaseException as error:
                result.append(error)
            called.set()

        self.loop.call_soon_threadsafe(call)
        assert called.wait(SHORT_WAIT)
        if isinstance(result[0], BaseException):
            raise result[0]
        return result[0]

    def close(self) -> None:
        self.run(self.client.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SHORT_WAIT)
        self.loop.close()

    async def _connect(self, url: str) -> aio.Client:
        return await aio.connect(url)


@pytest.fixture
def elsewhere(url: str) -> Iterator[Loop]:
    loop = Loop(url)
    yield loop
    loop.close()


async def locked(lock: aio.Lock) -> bool:
    return await lock.locked()


@pytest.mark.parametrize("kind", ["lock", "mutex", "fair_lock", "permits", "read", "multi_lock"])
def test_a_thread_owns_locks_that_it_acquires_through_a_loop_in_another_thread(elsewhere: Loop, kind: str) -> None:
    lock = lock_of(elsewhere.client, kind)
    assert elsewhere.run(lock.acquire())
    assert lock.owned()
    lease = lock.lease
    assert lease is not None
    if kind != "read":
        assert elsewhere.run(in_task(lambda: lock.acquire(blocking=False))) is False
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: lock.lease).result(SHORT_WAIT) is None
        with pytest.raises(steadlock.NotOwnerError):
            pool.submit(lambda: elsewhere.run(lock.release())).result(SHORT_WAIT)
    assert elsewhere.run(lock.release()) == "released"
    assert lock.lease is None


def lock_of(client: aio.Client, kind: str) -> aio.Lock:
    if kind == "permits":
        return client.semaphore("door", 1).permits(1)
    if kind == "read":
        return client.read_write_lock("door").read
    if kind == "multi_lock":
        return client.multi_lock([client.lock("door"), client.lock("window")])
    made: aio.Lock = getattr(client, kind)("door")
    return made


async def in_task(call: Callable[[], Awaitable[T]]) -> T:
    """Calls `call` in the task that runs this coroutine."""
    return await call()


def test_locks_acquired_through_a_loop_are_released_when_the_thread_ends(elsewhere: Loop) -> None:
    lock = elsewhere.client.lock("door")
    with pytest.warns(RuntimeWarning, match="still held by a thread that has ended"):
        thread = threading.Thread(target=lambda: elsewhere.run(lock.acquire()))
        thread.start()
        thread.join()
    assert elsewhere.run(lock.acquire(timeout=SHORT_WAIT))
    elsewhere.run(lock.release())


def test_a_grant_to_an_ended_thread_is_released(elsewhere: Loop) -> None:
    lock = elsewhere.client.lock("door")
    assert elsewhere.run(lock.acquire())
    waiting: list[Any] = []

    def ask() -> None:
        waiting.append(asyncio.run_coroutine_threadsafe(lock.acquire(), elsewhere.loop))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    elsewhere.run(locked(lock))
    with pytest.warns(RuntimeWarning, match="still held by a thread that has ended"):
        elsewhere.run(lock.release())
        assert waiting[0].result(SHORT_WAIT)
        eventually(SHORT_WAIT, lambda: not elsewhere.run(locked(lock)))


def test_a_loop_that_runs_intermittently_serves_its_thread(url: str) -> None:
    async def connect() -> aio.Client:
        return await aio.connect(url)

    loop = asyncio.new_event_loop()
    client = loop.run_until_complete(connect())
    lock = client.lock("door")
    assert loop.run_until_complete(lock.acquire())
    assert lock.owned()
    assert loop.run_until_complete(lock.acquire())
    permits = client.semaphore("permits", 1)
    lease = loop.run_until_complete(permits.acquire())
    gc.collect()
    assert lease.is_valid()
    assert loop.run_until_complete(permits.release()) == "released"
    assert loop.run_until_complete(lock.release()) == "released"
    assert loop.run_until_complete(lock.release()) == "released"
    with pytest.raises(steadlock.NotOwnerError):
        loop.run_until_complete(lock.release())
    loop.run_until_complete(lock.__aenter__())
    gc.collect()
    assert loop.run_until_complete(locked(lock))
    loop.run_until_complete(lock.__aexit__(None, None, None))
    assert not loop.run_until_complete(locked(lock))
    loop.run_until_complete(client.close())
    loop.close()


def test_a_thread_can_hold_a_lock_across_loops(url: str) -> None:
    async def connect() -> aio.Client:
        return await aio.connect(url)

    client = asyncio.run(connect())
    lock = client.lock("door")
    assert asyncio.run(lock.acquire())
    assert asyncio.run(locked(lock))
    assert asyncio.run(lock.release()) == "released"
    asyncio.run(client.close())


def test_acquire_in_a_callback_is_refused(elsewhere: Loop) -> None:
    lock = elsewhere.client.lock("door")
    permits = elsewhere.client.semaphore("permits", 1).permits(1)
    for acquire in (lock.acquire, lambda: lock.acquire(blocking=False), permits.acquire):
        with pytest.raises(steadlock.InvalidArgumentError, match="in a callback of the event loop") as caught:
            elsewhere.run(elsewhere.call(acquire))
        assert caught.value.operation == "acquire"
    assert elsewhere.call(lambda: lock.lease) is None
    with pytest.raises(steadlock.NotOwnerError, match=r"lease\.release"):
        elsewhere.run(elsewhere.call(lock.release))
    assert not elsewhere.run(locked(lock))


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
def test_a_lease_of_a_callback_lives_while_it_is_referenced(elsewhere: Loop, kind: str) -> None:
    client = elsewhere.client
    acquire: Callable[[], Coroutine[Any, Any, aio.Lease | None]] = (
        client.lock("door").try_acquire if kind == "lock" else client.semaphore("door", 1).acquire
    )
    lock = client.lock("door") if kind == "lock" else client.semaphore("door", 1).permits(1)
    lease = elsewhere.run(elsewhere.call(acquire))
    gc.collect()
    assert lease is not None
    assert lease.is_valid()
    assert elsewhere.run(lease.release()) == "released"
    assert not elsewhere.run(locked(lock))
    with pytest.warns(RuntimeWarning, match="still held by a callback of an event loop that has ended"):
        elsewhere.run(drop(elsewhere.call(acquire)))
        eventually(SHORT_WAIT, lambda: not elsewhere.run(locked(lock)))
    assert client._connection.holds.all() == []


async def drop(acquire: Coroutine[Any, Any, object]) -> None:
    await acquire


def test_a_scope_made_in_a_callback_belongs_to_the_task_that_enters_it(elsewhere: Loop) -> None:
    lock = elsewhere.client.lock("door")
    lease = elsewhere.run(elsewhere.call(lock.__aenter__))
    gc.collect()
    assert lease.is_valid()
    elsewhere.run(elsewhere.call(lambda: lock.__aexit__(None, None, None)))
    assert not elsewhere.run(locked(lock))


async def test_a_task_owns_a_lock_acquired_in_another_loop(server: RedisServer) -> None:
    elsewhere = await asyncio.to_thread(Loop, server.url)
    lock = elsewhere.client.lock("door")

    async def there(coroutine: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, elsewhere.loop))

    asyncio.get_running_loop().set_debug(True)
    assert await there(lock.acquire())
    assert lock.owned()
    assert await there(lock.release()) == "released"
    lease = await there(lock.try_acquire())
    assert lease is not None
    assert await there(lease.release()) == "released"

    async def leave() -> None:
        await there(lock.acquire())

    with pytest.warns(RuntimeWarning, match="still held by a task that has ended"):
        await asyncio.create_task(leave())
        assert await there(lock.acquire(timeout=SHORT_WAIT))
    assert await there(lock.release()) == "released"
    await asyncio.to_thread(elsewhere.close)
