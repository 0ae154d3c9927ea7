"""Tests unusual records and names, and an operator's forced release."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
import redis.asyncio

import steadlock
import steadlock.aio
from pairs import HASH, LOCKS, MUTEXES, REDISSON, ours
from peers import Library, Peer
from server import Server

BYTES = bytes(range(256))


@pytest.fixture
def client(server: Server) -> Iterator[steadlock.Client]:
    with steadlock.connect(server.url) as client:
        yield client


@pytest.mark.parametrize("owner", [b"", b"0", BYTES, b"long" * 5000], ids=["empty", "short", "any bytes", "long"])
def test_every_record_of_another_library_counts_as_a_holder(
    server: Server, client: steadlock.Client, owner: bytes
) -> None:
    key = server.new_name()
    with redis.Redis.from_url(server.url) as store:
        theirs = store.lock(key, timeout=30)
        assert theirs.acquire(token=owner)
        with pytest.raises(steadlock.LockTimeoutError) as refused, client.mutex(key, wait=0):
            pass
        assert refused.value.holder is not None
        assert client.mutex(key).locked()
        assert store.get(key) == owner
        theirs.release()
        assert client.mutex(key).try_acquire()


def test_an_operator_removes_a_record_without_ttl(server: Server, client: steadlock.Client) -> None:
    key = server.new_name()
    server.store.lock(key).acquire()
    assert server.store.pttl(key) == -1
    assert client.force_release(client.mutex(key))
    assert client.mutex(key).try_acquire()


@pytest.mark.parametrize("library", MUTEXES + LOCKS, ids=str)
def test_an_operator_can_force_release_a_lock_of_any_library(
    server: Server, client: steadlock.Client, start: Callable[[Library], Peer], library: Library
) -> None:
    theirs, name = start(library), server.new_name()
    key = library.prefix + name
    lock = client.lock(key) if library in LOCKS else client.mutex(key)
    assert theirs.call("try", name, 30_000) == "held"
    assert client.force_release(lock)
    assert not client.force_release(lock)
    lease = lock.try_acquire()
    assert lease
    answer = theirs.call("unlock", name)
    assert answer.startswith("gone") or not library.reports_lost_release
    assert lease.release() == "released"


@pytest.mark.parametrize("kinds", [("lock", "mutex"), ("mutex", "lock")], ids=" beside ".join)
def test_a_lock_and_a_mutex_of_one_name_exclude_each_other(
    server: Server, client: steadlock.Client, kinds: tuple[str, str]
) -> None:
    key = server.new_name()
    held, other = (getattr(client, kind)(key) for kind in kinds)
    lease = held.try_acquire()
    with pytest.raises(steadlock.MisconfiguredError):
        other.try_acquire()
    assert lease.release() == "released"


@pytest.mark.parametrize(("prefix", "name"), [("", "order:{7}:item"), ("", "{all}"), ("shop:", "order")])
def test_redisson_is_woken_for_any_name(
    server: Server, start: Callable[[Library], Peer], prefix: str, name: str
) -> None:
    """Redisson has its own rule for the keys and channels of names with braces."""
    redisson = start(REDISSON)
    whole = prefix + name
    with steadlock.connect(server.url, key_prefix=prefix or None) as client:
        lease = client.lock(name).try_acquire()
        assert lease
        server.begin_wait(lambda: redisson.send("lock", whole, 30_000))
        channel = f"redisson_lock__channel:{whole if '{' in whole else f'{{{whole}}}'}"
        server.until(lambda: server.subscribers(channel) == 1, "Redisson has not subscribed")
        lease.release()
        assert redisson.answer(within=10) == "held"
        assert client.lock(name).try_acquire() is None
        assert redisson.call("unlock", whole) == "released"


@pytest.mark.parametrize("library", [REDISSON, HASH], ids=str)
def test_a_counted_hold_of_another_library_is_one_holder(
    server: Server, start: Callable[[Library], Peer], library: Library
) -> None:
    theirs, own, name = start(library), start(ours("lock", "python")), server.new_name()
    assert theirs.call("try", name, 30_000) == "held"
    assert theirs.call("try", name, 30_000) == "held"
    assert theirs.call("unlock", name) == "released"
    assert own.call("try", name, 30_000).startswith("refused")
    assert theirs.call("unlock", name) == "released"
    assert own.call("try", name, 30_000) == "held"
    assert own.call("unlock", name) == "released"


def test_redis_py_s_asyncio_lock_and_ours_exclude_each_other(server: Server) -> None:
    key = server.new_name()

    async def program() -> None:
        async with redis.asyncio.Redis.from_url(server.url) as store, steadlock.aio.connect(server.url) as client:
            async with store.lock(key, timeout=30):
                assert await client.mutex(key).try_acquire() is None
            async with client.mutex(key):
                assert not await store.lock(key, timeout=30).acquire(blocking=False)
            assert await store.lock(key, timeout=30).acquire(blocking=False)

    asyncio.run(program())
