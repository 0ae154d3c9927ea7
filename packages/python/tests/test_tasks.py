"""Tests of the lock with asyncio tasks."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from servers import RedisServer, Store, script_calls

import steadlock
from steadlock import aio


async def test_a_lock_is_held_inside_of_async_with(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    assert not await lock.locked()
    async with lock as lease:
        assert await lock.locked()
        assert lock.owned()
        assert lock.lease is lease
        assert lease.is_valid()
        assert 25 < lease.remaining() <= 30
    assert not await lock.locked()
    assert not lock.owned()
    assert lock.lease is None
    assert not lease.is_valid()


async def test_a_call_with_a_lease_sets_whether_it_is_renewed(aclient: aio.Client) -> None:
    # 0.2 s are too short for an auto-renewed lease, and long enough for a fixed one.
    renewed = aclient.lock("door", lease=5, renew=True)
    async with renewed as lease:
        assert 4 < lease.remaining() <= 5
    async with renewed.hold(lease=0.2):
        pass
    with pytest.raises(steadlock.InvalidArgumentError, match=r"200ms is too short to be renewed.*300ms"):
        await renewed.try_acquire(lease=0.2, renew=True)
    with pytest.raises(steadlock.InvalidArgumentError):
        await aclient.lock("door", lease=0.2).try_acquire(renew=True)
    with pytest.raises(steadlock.InvalidArgumentError):
        await aclient.semaphore("permits", 1, lease=0.2, renew=True).acquire()
    assert not await renewed.locked()


async def test_acquire_and_release_work_as_in_threading(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    assert await lock.acquire()
    assert await asyncio.create_task(call(lock, blocking=False)) is False
    assert await asyncio.create_task(call(lock, timeout=0.25)) is False
    assert await lock.release() == "released"

    async def others() -> tuple[bool, str]:
        return await lock.acquire(), await lock.release()

    assert await asyncio.create_task(others()) == (True, "released")


async def call(lock: aio.Lock, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: ASYNC109
    """Calls `acquire` in the task that runs this coroutine."""
    return await lock.acquire(blocking, timeout)


async def test_try_acquire_returns_a_lease_or_none(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    lease = await lock.try_acquire()
    assert lease is not None

    async def other() -> aio.Lease | None:
        return await lock.try_acquire()

    assert await asyncio.create_task(other()) is None
    assert await lease.release() == "released"
    assert await lease.release() == "released"


async def test_hold_raises_after_its_wait(aclient: aio.Client) -> None:
    lock = aclient.lock("door")

    async def enter() -> None:
        async with lock.hold(wait=0.25):
            pytest.fail("entered a held lock")

    async with lock:
        with pytest.raises(steadlock.LockTimeoutError):
            await asyncio.create_task(enter())


async def test_a_task_reenters_its_lock(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    async with lock as outer:
        async with lock as inner:
            assert inner is not outer
            assert lock.lease is inner
        assert lock.lease is outer
        assert await lock.locked()
    assert not await lock.locked()


async def test_a_scope_can_end_in_another_task(aclient: aio.Client) -> None:
    # Some frameworks end a fixture in another task.
    lock = aclient.lock("door")
    lease = await asyncio.create_task(lock.__aenter__())
    assert lease.is_valid()
    assert await lock.locked()
    await asyncio.create_task(lock.__aexit__(None, None, None))
    assert not await lock.locked()
    # With several scopes, it is not known which one ends, so the call is refused.
    permits = aclient.semaphore("door-permits", 2)
    for _ in range(2):
        await asyncio.create_task(permits.__aenter__())
    with pytest.raises(steadlock.NotOwnerError, match="other tasks entered its scopes"):
        await permits.__aexit__(None, None, None)
    assert await permits.available() == 0


async def test_a_child_task_is_another_owner(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    async with lock:
        assert await asyncio.gather(*(call(lock, blocking=False) for _ in range(2))) == [False, False]
        with pytest.raises(steadlock.NotOwnerError):
            await asyncio.create_task(release(lock))
        assert await lock.locked()


async def release(lock: aio.Lock) -> str:
    """Calls `release` in the task that runs this coroutine."""
    return await lock.release()


async def test_the_children_of_gather_exclude_one_another(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    inside = 0

    async def work() -> None:
        nonlocal inside
        for _ in range(10):
            async with lock:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    await asyncio.gather(*(work() for _ in range(16)))


async def test_a_function_in_to_thread_is_another_owner(url: str, server: RedisServer) -> None:
    where = server.url if url != "memory://" else "memory://to-thread"
    async with aio.connect(where) as aclient:
        with steadlock.connect(where) as client:
            async with aclient.lock("door"):
                assert await asyncio.to_thread(client.lock("door").try_acquire) is None


async def test_two_threads_of_to_thread_are_two_owners(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with lock:
        assert await asyncio.to_thread(lock.try_acquire) is None


async def test_wait_for_acquires_for_the_calling_task(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    assert await asyncio.wait_for(lock.acquire(), 5)
    assert lock.owned()
    assert await asyncio.wait_for(lock.release(), 5) == "released"
    assert not lock.owned()


async def test_another_task_can_await_acquire(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    assert await asyncio.create_task(lock.acquire())
    assert lock.owned()
    assert await lock.acquire()
    await lock.release()
    await lock.release()
    assert not await lock.locked()


async def test_any_task_can_release_a_lease(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    lease = await lock.try_acquire()
    assert lease is not None
    assert await asyncio.create_task(lease.release()) == "released"
    with pytest.raises(steadlock.NotOwnerError):
        await lock.release()


async def test_a_second_release_does_nothing(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    outer, inner = await lock.try_acquire(), await lock.try_acquire()
    assert outer is not None
    assert inner is not None
    await inner.release()
    await inner.release()
    assert await lock.locked()
    assert outer.is_valid()
    await outer.release()
    assert not await lock.locked()


async def test_a_scope_does_not_release_its_lease_again(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    async with lock as outer:
        async with lock as inner:
            await inner.release()
        assert outer.is_valid()
        assert await lock.locked()


async def test_the_exception_of_the_body_is_raised(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    with pytest.raises(KeyError):
        async with lock:
            raise KeyError
    assert not await lock.locked()


async def test_lock_and_unlock_cost_two_script_calls_and_a_re_entry_none(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url) as client:
        lock = client.lock("door")
        async with lock:
            pass
        before = script_calls(store)
        for _ in range(20):
            async with lock:
                pass
        assert script_calls(store) - before == 40
        async with lock:
            before = script_calls(store)
            async with lock:
                pass
            assert script_calls(store) == before


async def test_connect_can_be_awaited_or_entered(url: str) -> None:
    client = await aio.connect(url)
    async with client, client.lock("door"):
        pass
    async with aio.connect(url) as client, client.lock("door"):
        pass


def test_a_client_can_be_used_in_a_later_loop(url: str) -> None:
    async def connect() -> aio.Client:
        return await aio.connect(url)

    async def use(client: aio.Client) -> None:
        async with client.lock("door") as lease:
            assert lease.is_valid()

    client = asyncio.run(connect())
    asyncio.run(use(client))
    asyncio.run(client.close())


async def test_a_client_refuses_a_second_running_loop(aclient: aio.Client) -> None:
    def elsewhere() -> None:
        asyncio.run(call(aclient.lock("door")))

    await aclient.lock("warm up").locked()
    with pytest.raises(steadlock.MisconfiguredError) as caught:
        await asyncio.to_thread(elsewhere)
    assert caught.value.operation == "acquire"
    async with aclient.lock("door"):
        pass


async def test_no_reader_stays_in_the_loop_after_close(url: str) -> None:
    client = await aio.connect(url)
    fd = client._connection.native.fd()[0]
    await client.close()
    await client.close()
    assert asyncio.get_running_loop().remove_reader(fd) is False


async def test_a_call_during_close_returns(url: str) -> None:
    async def ask(client: aio.Client, turns: int) -> None:
        lock = client.lock("door")
        with contextlib.suppress(steadlock.ClosedError, steadlock.LockLostError):
            while True:
                async with lock:
                    pass
        for _ in range(turns):
            await asyncio.sleep(0)
        with pytest.raises(steadlock.ClosedError):
            await lock.locked()

    for turns in range(20):
        client = await aio.connect(url)
        calling = asyncio.create_task(ask(client, turns % 4))
        await client.lock("other").locked()
        await client.close()
        await asyncio.wait_for(calling, 5)
        await client.close()
        assert asyncio.get_running_loop().remove_reader(client._connection.native.fd()[0]) is False
