"""Tests of a lock that a majority of several primaries holds. test_behaviour.py tests the common behaviour of all
languages.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from servers import RedisServer, eventually, store_of
from test_forks import in_child

import steadlock
from steadlock import aio


@pytest.fixture
def primaries() -> Iterator[list[RedisServer]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RedisServer()) for _ in range(3)]


@pytest.fixture
def memories() -> list[str]:
    return [f"memory://{uuid.uuid4()}" for _ in range(3)]


def urls(primaries: list[RedisServer]) -> list[str]:
    return [server.url for server in primaries]


def records(primaries: list[RedisServer]) -> list[object]:
    """Returns the records on the servers."""
    found: list[object] = []
    for server in primaries:
        with store_of(server) as store:
            found += [key for key in store.keys("*") if not key.endswith(":client")]
    return found


def test_every_primary_has_the_record_and_none_after_the_release(primaries: list[RedisServer]) -> None:
    with steadlock.redlock(urls(primaries)) as one, steadlock.redlock(tuple(urls(primaries))) as two:
        lock = one.lock("door")
        with lock as lease:
            assert lease.token is None
            assert lock.lease is lease
            assert lock.owned()
            assert lock.locked()
            eventually(20, lambda: records(primaries) == ["door"] * 3)
            assert two.lock("door").try_acquire() is None
            assert two.mutex("door").acquire(timeout=0.25) is False
        assert lock.acquire()
        assert lock.release() == "released"
        with two.mutex("door"):
            assert lock.locked()
        eventually(20, lambda: records(primaries) == [])


def test_one_of_three_primaries_can_fail(primaries: list[RedisServer]) -> None:
    with steadlock.redlock(urls(primaries)) as client:
        lock = client.lock("door", wait=20)
        with lock as before:
            primaries[0].kill()
            assert before.is_valid()
        with lock:
            assert records(primaries[1:]) == ["door"] * 2
        with steadlock.redlock(urls(primaries)) as fresh, fresh.lock("door"):
            pass

        primaries[1].kill()
        started = time.monotonic()
        with pytest.raises(steadlock.UnavailableError):
            client.lock("door", wait=1).acquire()
        assert time.monotonic() - started < 15
        with pytest.raises(steadlock.UnavailableError):
            steadlock.redlock(urls(primaries))
        eventually(20, lambda: records(primaries[2:]) == [])


async def test_one_of_three_primaries_can_fail_in_asyncio(primaries: list[RedisServer]) -> None:
    async with aio.redlock(urls(primaries)) as client:
        lock = client.lock("door", wait=20)
        async with lock as lease:
            assert lease.token is None
            primaries[0].kill()
            assert lease.is_valid()
        async with lock:
            assert await lock.locked()

        primaries[1].kill()
        started = time.monotonic()
        with pytest.raises(steadlock.UnavailableError):
            await client.lock("door", wait=1).acquire()
        assert time.monotonic() - started < 15
        with pytest.raises(steadlock.UnavailableError):
            await aio.redlock(urls(primaries))
        eventually(20, lambda: records(primaries[2:]) == [])


def test_a_failed_attempt_leaves_no_record(primaries: list[RedisServer]) -> None:
    with steadlock.redlock(urls(primaries)) as client:
        with store_of(primaries[0]) as one, store_of(primaries[1]) as two:
            one.set("door", "another")
            two.set("door", "another")
            assert client.lock("door").try_acquire() is None
            assert one.get("door") == two.get("door") == "another"
        eventually(20, lambda: records(primaries[2:]) == [])


def test_a_redlock_is_renewed_and_its_loss_is_reported(primaries: list[RedisServer]) -> None:
    with steadlock.redlock(urls(primaries), lease=2.5) as client:
        lease = client.lock("door").try_acquire()
        assert lease is not None
        eventually(20, lambda: records(primaries) == ["door"] * 3)
        assert not lease.lost.wait(3)
        assert lease.is_valid()
        for server in primaries[:2]:
            with store_of(server) as store:
                store.delete("door")
        assert lease.lost.wait(20)
        assert lease.lost_reason == "removed"
        lease.release()
        eventually(20, lambda: records(primaries) == [])


def test_a_forked_child_acquires_its_own_locks(primaries: list[RedisServer]) -> None:
    with steadlock.redlock(urls(primaries)) as client:
        mine = client.lock("mine")
        with mine as lease:

            def work() -> None:
                assert mine.try_acquire() is None
                with client.lock("theirs", wait=5):
                    assert mine.locked()
                with pytest.raises(steadlock.ForkedError):
                    lease.release()

            in_child(work)
            assert lease.is_valid()
        eventually(20, lambda: records(primaries) == [])


def test_a_primary_that_is_listed_twice_is_misconfigured(primaries: list[RedisServer]) -> None:
    one, two, _ = primaries
    for twice in ([one.url, one.url, two.url], [one.url, two.url, f"redis://localhost:{one.port}"]):
        with pytest.raises(steadlock.MisconfiguredError):
            steadlock.redlock(twice)


async def test_a_primary_that_is_listed_twice_is_misconfigured_in_asyncio(primaries: list[RedisServer]) -> None:
    one, two, _ = primaries
    with pytest.raises(steadlock.MisconfiguredError):
        await aio.redlock([one.url, two.url, f"redis://localhost:{one.port}"])


@pytest.mark.parametrize("count", [0, 1, 2, 4, 17])
async def test_only_an_odd_number_of_primaries_has_a_majority(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setenv("STEADLOCK_URL", "memory://")
    some = [f"memory://{uuid.uuid4()}" for _ in range(count)]
    with pytest.raises(steadlock.InvalidArgumentError):
        steadlock.redlock(some)
    with pytest.raises(steadlock.InvalidArgumentError):
        await aio.redlock(some)


@pytest.mark.parametrize("wrong", [None, "memory://one", [1, 2, 3]])
async def test_a_wrong_type_of_urls_is_a_type_error(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> None:
    monkeypatch.setenv("STEADLOCK_URL", "memory://")
    with pytest.raises(TypeError):
        steadlock.redlock(wrong)
    with pytest.raises(TypeError):
        await aio.redlock(wrong)


async def test_urls_can_be_an_iterator(memories: list[str]) -> None:
    with steadlock.redlock(url for url in memories) as client, client.lock("door"):
        async with aio.redlock(url for url in memories) as other:
            assert await other.lock("door").locked()


def test_other_kinds_are_refused(memories: list[str]) -> None:
    with steadlock.redlock(memories) as client:
        door = client.read_write_lock("door")
        for lock in (client.fair_lock("door"), door.read, door.write, client.multi_lock([client.mutex("door")])):
            with pytest.raises(steadlock.InvalidArgumentError):
                lock.acquire()
        with pytest.raises(steadlock.InvalidArgumentError):
            client.semaphore("door", 1).acquire()


def test_a_redlock_is_not_reentrant(memories: list[str]) -> None:
    with steadlock.redlock(memories) as client:
        lock = client.lock("door")
        with lock:
            assert lock.try_acquire() is None
            with pytest.raises(steadlock.InvalidArgumentError, match="would wait for itself"):
                lock.acquire(timeout=0.05)


def test_an_operator_can_force_the_release_of_a_redlock(memories: list[str]) -> None:
    with steadlock.redlock(memories) as client:
        lock = client.lock("door")
        assert not client.force_release(lock)
        lease = lock.try_acquire()
        assert lease is not None
        assert client.force_release(lock)
        assert not lock.locked()
        assert lease.release() == "expired"
        assert not client.force_release(lock)


async def test_a_redlock_is_not_reentrant_in_asyncio(memories: list[str]) -> None:
    async with aio.redlock(memories) as client:
        lock = client.lock("door")
        async with lock:
            assert await lock.try_acquire() is None
            with pytest.raises(steadlock.InvalidArgumentError, match="would wait for itself"):
                await lock.acquire(timeout=0.05)


def test_redlock_has_the_options_of_connect(memories: list[str]) -> None:
    client = steadlock.redlock(memories, lease=5, key_prefix="shop:", retry_interval=(0.05, 0.1))
    with client, steadlock.redlock(memories) as other, client.lock("door") as lease:
        assert lease.name == "door"
        assert 4 < lease.remaining() <= 5
        assert other.lock("shop:door").locked()
    with pytest.raises(steadlock.InvalidArgumentError):
        steadlock.redlock(memories, lease=0.1)


def test_a_redlock_guards_synchronized_functions(memories: list[str]) -> None:
    with steadlock.redlock(memories) as client:

        @client.synchronized("user:{user_id}")
        def pay(user_id: int) -> bool:
            return client.lock(f"user:{user_id}").locked()

        assert pay(7)
        assert not client.lock("user:7").locked()
