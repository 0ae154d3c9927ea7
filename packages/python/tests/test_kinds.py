"""Tests of all kinds but `lock`, with threads. test_behaviour.py tests the common behaviour of all languages."""

from __future__ import annotations

from typing import Any

import pytest
from servers import RedisServer, Store
from test_threads import in_another_thread

import steadlock
from steadlock import _native, aio

FACTORIES = {
    "lock": "lock",
    "mutex": "mutex",
    "fair_lock": "fair_lock",
    "read_lock": "read_write_lock",
    "write_lock": "read_write_lock",
    "semaphore": "semaphore",
    "once": "once",
    "leader": "leader",
}
"""Every kind of the core, with the client's method that makes locks of that kind."""


def test_each_lock_kind_has_a_factory(client: steadlock.Client) -> None:
    assert [*FACTORIES] == _native.LOCK_KINDS
    made: dict[str, Any] = {
        "lock": client.lock("door"),
        "mutex": client.mutex("door"),
        "fair_lock": client.fair_lock("door"),
        "read_lock": client.read_write_lock("door").read,
        "write_lock": client.read_write_lock("door").write,
        "semaphore": client.semaphore("door", 3),
        "once": client.once("door"),
        "leader": client.leader("door"),
    }
    assert made.keys() == FACTORIES.keys()
    for kind, lock in made.items():
        assert lock._settings.lock[0] == kind
        assert callable(getattr(steadlock.Client, FACTORIES[kind]))
        assert callable(getattr(aio.Client, FACTORIES[kind]))
        assert lock.name == "door"


def test_the_length_of_a_member_is_counted_in_bytes(client: steadlock.Client) -> None:
    both = client.multi_lock([client.lock("tür"), client.lock("fenêtre")])
    with both as lease:
        assert both.name == lease.name == "tür, fenêtre"
        assert client.lock("tür").locked()
        assert client.lock("fenêtre").locked()


@pytest.mark.parametrize("kind", ["mutex", "fair_lock"])
def test_mutex_and_fair_lock_are_used_like_a_lock(client: steadlock.Client, kind: str) -> None:
    lock: steadlock.Lock = getattr(client, kind)("door", wait=0)
    with lock as lease:
        assert lock.lease is lease
        assert lock.owned()
        assert lock.locked()
        assert lease.token is not None
        assert in_another_thread(lock.try_acquire) is None
        with pytest.raises(steadlock.LockTimeoutError):
            in_another_thread(lock.__enter__)
    assert not lock.locked()
    with lock.hold(lease=5) as lease:
        assert lease.remaining() <= 5
    assert lock.acquire()
    assert lock.release() == "released"
    without: steadlock.Lock = getattr(client, kind)("door", fencing=False)
    with without as lease:
        assert lease.token is None


def test_a_mutex_is_not_reentrant(client: steadlock.Client) -> None:
    mutex = client.mutex("door")
    with mutex:
        assert mutex.try_acquire() is None
        assert mutex.acquire(timeout=0.25) is False
        with pytest.raises(steadlock.InvalidArgumentError, match="not reentrant"):
            mutex.acquire()
        with (
            pytest.raises(steadlock.LockTimeoutError, match="the calling thread or task itself"),
            client.mutex("door", wait=0.25),
        ):
            pass


def test_locks_of_one_name_and_different_kinds_are_separate(client: steadlock.Client) -> None:
    with client.read_write_lock("door").write as writing, client.semaphore("door", 2) as permit:
        assert client.read_write_lock("door").write.lease is writing
        assert client.semaphore("door", 2).lease is permit
        assert client.lock("door").lease is None
        with client.lock("door") as lease:
            assert client.lock("door").lease is lease
            assert client.mutex("door").lease is None


def test_a_fair_lock_reenters_a_plain_lock_and_can_release_it(client: steadlock.Client) -> None:
    plain, fair = client.lock("door"), client.fair_lock("door")
    with plain, fair as inner:
        assert fair.lease is inner
    assert not plain.locked()
    assert plain.acquire()
    assert fair.release() == "released"
    assert not plain.locked()
    assert plain.lease is None
    for lock in (plain, fair):
        with pytest.raises(steadlock.NotOwnerError):
            lock.release()


def test_readers_share_and_a_writer_is_exclusive(client: steadlock.Client) -> None:
    door = client.read_write_lock("door", wait=0)
    assert door.name == door.read.name == door.write.name == "door"
    with door.read as lease:
        assert lease.token is None
        other = in_another_thread(door.read.try_acquire)
        assert other is not None
        assert in_another_thread(door.write.acquire) is False
        other.release()
    with door.write as lease:
        assert lease.token is not None
        assert in_another_thread(door.read.try_acquire) is None


def test_a_writer_keeps_its_read_side_after_releasing_the_write_side(client: steadlock.Client) -> None:
    door = client.read_write_lock("door")
    assert door.write.acquire()
    with door.read as reading:
        assert door.write.release() == "released"
        assert reading.is_valid()
        assert not door.write.owned()
        assert in_another_thread(door.write.try_acquire) is None
        with pytest.raises(steadlock.InvalidArgumentError):
            door.write.acquire()
    assert in_another_thread(lambda: door.write.acquire() and door.write.release()) == "released"


def test_a_semaphore_counts_permits(client: steadlock.Client) -> None:
    seats = client.semaphore("seats", 3, wait=0.25)
    assert (seats.name, seats.limit, seats.available()) == ("seats", 3, 3)
    two = seats.acquire(2)
    assert two.token is None
    assert two.name == "seats"
    assert seats.available() == 1
    assert seats.try_acquire(2) is None
    with pytest.raises(steadlock.LockTimeoutError) as caught:
        seats.acquire(2)
    assert caught.value.lock_name == "seats"
    with seats as one:
        assert one is not two
        assert seats.lease is one
        assert seats.available() == 0
    assert seats.available() == 1
    assert two.release() == "released"
    with seats.hold(permits=3, lease=5) as all_of_them:
        assert all_of_them.remaining() <= 5
        assert seats.available() == 0
    assert seats.available() == 3


def test_a_semaphore_releases_the_last_lease_of_the_thread(client: steadlock.Client) -> None:
    seats = client.semaphore("seats", 5)
    first, second = seats.acquire(2), seats.acquire(3)
    assert seats.lease is second
    with pytest.raises(steadlock.NotOwnerError):
        in_another_thread(seats.release)
    assert seats.release() == "released"
    assert (first.is_valid(), second.is_valid()) == (True, False)
    assert seats.release() == "released"
    with pytest.raises(steadlock.NotOwnerError):
        seats.release()
    assert seats.available() == 5


def test_permits_can_be_used_as_a_lock(client: steadlock.Client) -> None:
    seats = client.semaphore("seats", 3, wait=0)
    two = seats.permits(2)
    assert isinstance(two, steadlock.Lock)
    assert two.name == "seats"
    assert not two.locked()
    with two as lease:
        assert seats.available() == 1
        assert two.locked()
        assert two.lease is seats.lease is lease
        assert two.acquire() is False
        assert seats.permits(1).try_acquire() is not None
        assert seats.release() == "released"
    assert seats.available() == 3
    for wrong in (0, 4):
        with pytest.raises(steadlock.InvalidArgumentError):
            seats.permits(wrong).acquire()


@pytest.mark.parametrize("permits", [0, -1, 4, 10**20, 1.5])
def test_invalid_counts_of_permits_are_refused(client: steadlock.Client, permits: Any) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        client.semaphore("seats", 3).acquire(permits)


@pytest.mark.parametrize("limit", [0, -1, 1_000_001, 1.5])
def test_invalid_limits_are_refused(client: steadlock.Client, limit: Any) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        client.semaphore("seats", limit).acquire()


@pytest.mark.parametrize("name", ["", "a\0b", "steadlock:x", "a\ud800b"], ids=ascii)
def test_invalid_names_are_refused_for_each_kind(client: steadlock.Client, name: str) -> None:
    for work in (
        lambda: client.mutex(name).acquire(),
        lambda: client.fair_lock(name).acquire(),
        lambda: client.read_write_lock(name).read.acquire(),
        lambda: client.read_write_lock(name).write.acquire(),
        lambda: client.semaphore(name, 1).acquire(),
        lambda: client.multi_lock([client.lock(name)]).acquire(),
    ):
        with pytest.raises(steadlock.InvalidArgumentError):
            work()


def test_a_composite_lock_holds_all_members(client: steadlock.Client) -> None:
    members = [client.lock("b"), client.mutex("a"), client.semaphore("c", 2)]
    all_of_them = client.multi_lock(members, wait=0.25)
    assert all_of_them.name == "b, a, c"
    with all_of_them as lease:
        assert lease.token is None
        assert all_of_them.lease is lease
        assert all_of_them.owned()
        assert client.semaphore("c", 2).available() == 1
        assert in_another_thread(client.lock("b").try_acquire) is None
        assert in_another_thread(all_of_them.acquire) is False
        lease.extend(40)
        assert lease.remaining() > 35
    with client.mutex("a"):
        assert in_another_thread(all_of_them.try_acquire) is None
        assert not client.lock("b").locked()
    with client.multi_lock(members, lease=5, max_hold=2) as lease:
        assert lease.remaining() <= 2


def test_permits_can_be_a_member_of_a_composite_lock(client: steadlock.Client) -> None:
    seats = client.semaphore("seats", 3)
    with client.multi_lock([client.lock("door"), seats.permits(2)]):
        assert seats.available() == 1
    with client.multi_lock([client.lock("door"), seats]):
        assert seats.available() == 2
    assert seats.available() == 3


def test_a_composite_lock_is_reentered_in_any_order(client: steadlock.Client) -> None:
    one, two = client.lock("a"), client.fair_lock("b")
    with client.multi_lock([one, two]) as outer, client.multi_lock([two, one]) as inner:
        assert inner is not outer
        assert in_another_thread(one.try_acquire) is None
    assert not one.locked()
    assert client.multi_lock([one, two]).acquire()
    assert client.multi_lock([two, one]).release() == "released"
    assert client.multi_lock([one, two]).lease is None
    assert not two.locked()


def test_invalid_composite_locks_are_refused(client: steadlock.Client) -> None:
    lock = client.lock("a")
    both = client.multi_lock([lock, client.lock("b")])
    for wrong in ([], [lock, lock], [both, client.lock("c")]):
        with pytest.raises(steadlock.InvalidArgumentError):
            client.multi_lock(wrong).acquire()
    with pytest.raises(steadlock.InvalidArgumentError):
        both.locked()
    with pytest.raises(steadlock.InvalidArgumentError):
        both.holder()
    with pytest.raises(steadlock.InvalidArgumentError):
        client.force_release(both)
    assert not lock.locked()


@pytest.mark.parametrize("kind", [kind for kind in FACTORIES if kind not in ("once", "leader")])
def test_holder_names_the_holder_of_a_lock(url: str, kind: str) -> None:
    with steadlock.connect(url, lease=30) as client:
        door = client.read_write_lock("door")
        locks = {
            "lock": client.lock("door"),
            "mutex": client.mutex("door"),
            "fair_lock": client.fair_lock("door"),
            "read_lock": door.read,
            "write_lock": door.write,
            "semaphore": client.semaphore("door", 3).permits(2),
        }
        lock = locks[kind]
        assert lock.holder() is None
        with lock.hold(lease=20):
            first = lock.holder()
            assert first is not None
            assert first.remaining is not None
            assert 15 < first.remaining <= 20
        assert lock.holder() is None
        with lock:
            second = lock.holder()
            assert second is not None
            assert second.owner != first.owner, "each grant has an owner id of its own"


def test_locks_of_another_client_are_refused(client: steadlock.Client) -> None:
    with steadlock.connect("memory://") as other:
        lock = other.lock("door")
        with pytest.raises(steadlock.InvalidArgumentError) as caught:
            client.multi_lock([client.lock("a"), lock])
        assert (caught.value.lock_name, caught.value.operation) == ("door", "acquire")
        with pytest.raises(steadlock.InvalidArgumentError) as caught:
            client.force_release(lock)
        assert (caught.value.lock_name, caught.value.operation) == ("door", "release")


def test_a_forced_release_removes_the_lock_of_its_holder(url: str) -> None:
    with steadlock.connect(url, lease=3) as client:
        leases: list[steadlock.Lease] = []
        for lock in (client.lock("door"), client.semaphore("seats", 2), client.read_write_lock("book").read):
            assert client.force_release(lock) is False
            lease = in_another_thread(lock.try_acquire)
            assert lease is not None
            assert client.force_release(lock) is True
            assert client.force_release(lock) is False
            leases.append(lease)
        for lease in leases:
            assert lease.lost.wait(20), lease.name
            assert lease.lost_reason == "removed"
            assert lease.release() == "expired"


def test_an_operator_changes_the_limit_of_a_semaphore(url: str) -> None:
    with steadlock.connect(url, lease=1.5) as client:
        seats = client.semaphore("seats", 3)
        assert client.set_limit("seats", 1) is False, "nobody holds a permit"
        with seats.hold(permits=2) as lease:
            assert client.set_limit("seats", 1) is True
            assert seats.available() == 0
            with pytest.raises(steadlock.MisconfiguredError):
                seats.try_acquire()
            assert client.semaphore("seats", 1).try_acquire() is None
            assert not lease.lost.wait(1.8), "the holder's lease is renewed"
            assert client.set_limit("seats", 4) is True
            assert client.semaphore("seats", 4).available() == 2
        for limit in (0, 1_000_001, 1.5):
            with pytest.raises(steadlock.InvalidArgumentError) as caught:
                client.set_limit("seats", limit)  # type: ignore[arg-type]
            assert caught.value.operation == "set_limit"
        with pytest.raises(TypeError):
            client.set_limit(seats, 2)  # type: ignore[arg-type]


def test_a_closed_client_refuses_every_kind(url: str) -> None:
    client = steadlock.connect(url)
    lock, seats = client.fair_lock("door"), client.semaphore("seats", 2)
    both = client.multi_lock([lock, seats])
    client.close()
    for operation in (
        lock.acquire,
        seats.acquire,
        seats.available,
        both.acquire,
        lambda: client.force_release(lock),
        lambda: client.set_limit("seats", 2),
    ):
        with pytest.raises(steadlock.ClosedError):
            operation()


def test_a_mutex_has_the_record_layout_of_other_libraries(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client:
        with client.mutex("door"):
            assert store.type("door") == "string"
            assert store.lock("door", blocking=False).acquire() is False
        theirs = store.lock("door", timeout=5)
        assert theirs.acquire(blocking=False)
        assert client.mutex("door").try_acquire() is None
        theirs.release()
        assert client.mutex("door").acquire()
        assert client.mutex("door").release() == "released"


def test_reprs(client: steadlock.Client) -> None:
    assert repr(client.mutex("door")).startswith("<unlocked steadlock.Lock object 'door' at ")
    assert repr(client.semaphore("seats", 3)).startswith("<unlocked steadlock.Semaphore object 'seats' at ")
    assert "'door'" in repr(client.read_write_lock("door"))
