"""Tests of the lock with threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from servers import RedisServer, Store, script_calls

import steadlock

T = TypeVar("T")


def in_another_thread(work: Callable[[], T]) -> T:
    """Runs `work` in another thread, and returns its result or raises its error."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "the other thread hangs"
    if errors:
        raise errors[0]
    return results[0]


def test_a_lock_is_held_inside_of_with(client: steadlock.Client) -> None:
    lock = client.lock("door")
    assert not lock.locked()
    with lock as lease:
        assert lock.locked()
        assert lock.owned()
        assert lock.lease is lease
        assert lease.is_valid()
        assert 25 < lease.remaining() <= 30
        assert lease.name == "door"
    assert not lock.locked()
    assert not lock.owned()
    assert lock.lease is None
    assert not lease.is_valid()
    assert lease.remaining() == 0


def test_a_call_with_a_lease_sets_whether_it_is_renewed(client: steadlock.Client) -> None:
    # 0.2 s are too short for an auto-renewed lease, and long enough for a fixed one.
    renewed = client.lock("door", lease=5, renew=True)
    fixed = client.lock("door", lease=0.2)
    with renewed as lease:
        assert 4 < lease.remaining() <= 5
    with renewed.hold(lease=0.2), fixed, client.lock("door", lease=0.2, renew=True).hold(renew=False):
        pass
    for too_short in (
        renewed.hold(lease=0.2, renew=True),
        fixed.hold(renew=True),
        client.lock("door", lease=0.2, renew=True),
    ):
        with pytest.raises(steadlock.InvalidArgumentError, match=r"200ms is too short to be renewed.*300ms"):
            too_short.__enter__()
    with pytest.raises(steadlock.InvalidArgumentError):
        renewed.try_acquire(lease=0.2, renew=True)
    with renewed.hold(lease=None) as lease:
        assert lease.remaining() > 25
    with pytest.raises(steadlock.InvalidArgumentError):
        client.semaphore("permits", 1, lease=5, renew=True).acquire(lease=0.2, renew=True)
    with pytest.raises(steadlock.InvalidArgumentError):
        client.synchronized("door", lease=0.2, renew=True)(lambda: None)()
    assert not renewed.locked()


def test_renew_must_be_a_bool(client: steadlock.Client) -> None:
    for wrong in ("yes", 1, None):
        with pytest.raises(TypeError, match="renew is True or False"):
            client.lock("door", lease=5, renew=wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="renew is True or False"):
            client.lock("door").try_acquire(renew=wrong)  # type: ignore[arg-type]


def test_acquire_and_release_work_as_in_threading(client: steadlock.Client) -> None:
    lock = client.lock("door")
    assert lock.acquire()
    assert in_another_thread(lambda: lock.acquire(blocking=False)) is False
    assert in_another_thread(lambda: lock.acquire(timeout=0.25)) is False
    assert lock.release() == "released"
    assert in_another_thread(lambda: (lock.acquire(), lock.release())) == (True, "released")


def test_try_acquire_returns_a_lease_or_none(client: steadlock.Client) -> None:
    lock = client.lock("door")
    lease = lock.try_acquire()
    assert lease is not None
    assert in_another_thread(lock.try_acquire) is None
    assert lease.release() == "released"
    assert lease.release() == "released"


def test_hold_raises_after_its_wait_and_names_the_lock(client: steadlock.Client) -> None:
    lock = client.lock("door")

    def enter() -> None:
        with lock.hold(wait=timedelta(milliseconds=250)):
            pytest.fail("entered a held lock")

    with lock, pytest.raises(steadlock.LockTimeoutError) as caught:
        in_another_thread(enter)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.lock_name == "door"
    assert caught.value.operation == "acquire"
    assert "door" in str(caught.value)


def test_the_holder_in_another_client_is_named(server: RedisServer, store: Store) -> None:
    store.hset("door", "00000000-0000-4000-8000-000000000002:7", 1)
    store.pexpire("door", 5000)
    with steadlock.connect(server.url) as client:
        with pytest.raises(steadlock.LockTimeoutError) as caught, client.lock("door", wait=0):
            pytest.fail("entered a held lock")
        holder = caught.value.holder
        assert holder is not None
        assert holder.owner == "00000000-0000-4000-8000-000000000002:7"
        assert holder.remaining is not None
        assert 0 < holder.remaining <= 5


def test_the_wait_of_a_lock_bounds_with_and_acquire(client: steadlock.Client) -> None:
    lock = client.lock("door", wait=0.25)
    with client.lock("door"):
        assert in_another_thread(lock.acquire) is False
        with pytest.raises(steadlock.LockTimeoutError):
            in_another_thread(lock.__enter__)


def test_a_thread_reenters_its_lock(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with lock as outer:
        with lock as inner:
            assert inner is not outer
            assert lock.lease is inner
            assert inner.token == outer.token
        assert lock.lease is outer
        assert lock.locked()
        assert in_another_thread(lock.try_acquire) is None
    assert not lock.locked()


def test_two_lock_objects_of_one_name_are_one_lock(client: steadlock.Client) -> None:
    with client.lock("door"), client.lock("door"):
        assert in_another_thread(client.lock("door").try_acquire) is None
    assert not client.lock("door").locked()


def test_later_threads_own_nothing_of_earlier_threads(client: steadlock.Client) -> None:
    # Idents of threads are reused, so the second thread can have the ident of the first.
    lock = client.lock("door")
    lease = in_another_thread(lock.try_acquire)
    for _ in range(20):
        assert in_another_thread(lambda: (lock.owned(), lock.lease, lock.try_acquire())) == (False, None, None)
    assert lease is not None
    assert lease.release() == "released"


def test_only_the_owning_thread_can_call_release(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with pytest.raises(steadlock.NotOwnerError) as caught:
        lock.release()
    assert isinstance(caught.value, RuntimeError)
    with lock:
        with pytest.raises(steadlock.NotOwnerError):
            in_another_thread(lock.release)
        assert lock.locked()


def test_any_thread_can_release_a_lease(client: steadlock.Client) -> None:
    lock = client.lock("door")
    lease = lock.try_acquire()
    assert lease is not None
    assert in_another_thread(lease.release) == "released"
    assert not lock.locked()
    assert lock.lease is None
    with pytest.raises(steadlock.NotOwnerError):
        lock.release()


def test_a_second_release_does_nothing(client: steadlock.Client) -> None:
    lock = client.lock("door")
    outer, inner = lock.try_acquire(), lock.try_acquire()
    assert outer is not None
    assert inner is not None
    assert inner.release() == "released"
    assert inner.release() == "released"
    assert lock.locked()
    assert outer.is_valid()
    assert outer.release() == "released"
    assert not lock.locked()


def test_a_scope_does_not_release_its_lease_again(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with lock as outer:
        with lock as inner:
            inner.release()
        assert outer.is_valid()
        assert lock.locked()


def test_the_exception_of_the_body_is_raised(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.locked()


def test_many_threads_exclude_each_other(client: steadlock.Client) -> None:
    lock = client.lock("door")
    inside = 0
    count = 0

    def work() -> None:
        nonlocal inside, count
        for _ in range(25):
            with lock:
                inside += 1
                assert inside == 1
                count += 1
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert count == 16 * 25


def test_a_fixed_lease_lasts_for_its_length(client: steadlock.Client) -> None:
    lock = client.lock("door", lease=5)
    with lock as lease:
        assert 4.5 < lease.remaining() <= 5
    with lock.hold(lease=timedelta(seconds=7)) as lease:
        assert 6.5 < lease.remaining() <= 7
    with lock.hold(lease=None) as lease:
        assert lease.remaining() > 25


def test_a_key_prefix_is_put_before_names(server: RedisServer, store: Store) -> None:
    with (
        steadlock.connect(server.url, key_prefix="app:") as client,
        client.lock("door") as lease,
    ):
        assert lease.name == "door"
        assert store.exists("app:door")


def test_lock_and_unlock_cost_two_script_calls_and_a_re_entry_none(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client:
        with client.lock("door"):
            pass
        before = script_calls(store)
        for _ in range(20):
            with client.lock("door"):
                pass
        assert script_calls(store) - before == 40
        with client.lock("door"):
            before = script_calls(store)
            for _ in range(20):
                with client.lock("door"):
                    pass
            assert script_calls(store) == before


def test_the_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADLOCK_URL", "memory://")
    with steadlock.connect() as client, client.lock("door"):
        pass


def test_reprs(client: steadlock.Client) -> None:
    lock = client.lock("door")
    # The form is that of CPython's own locks.
    assert repr(lock) == f"<unlocked steadlock.Lock object 'door' at {id(lock):#x}>"
    with lock as lease:
        assert repr(lock) == f"<locked steadlock.Lock object 'door' at {id(lock):#x}>"
        assert in_another_thread(lambda: repr(lock)).startswith("<unlocked ")
        assert "'door'" in repr(lease)
        assert "left" in repr(lease)
    assert "released" in repr(lease)


@pytest.mark.parametrize("timeout", [1e100, float("inf"), timedelta.max])
def test_a_too_large_timeout_is_an_overflow_error(client: steadlock.Client, timeout: float | timedelta) -> None:
    lock = client.lock("door")
    with pytest.raises(OverflowError):
        lock.acquire(timeout=timeout)
    assert not lock.locked()
    assert lock.acquire(timeout=threading.TIMEOUT_MAX)
    lock.release()
