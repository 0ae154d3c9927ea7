"""Who holds a lock of a blocking client: a thread, a task or greenlet in it, a job that it runs."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import pytest

import steadlock

T = TypeVar("T")
AT_ONCE = 5


async def test_two_tasks_are_not_in_one_lock_together(client: steadlock.Client) -> None:
    lock = client.lock("door")
    left = asyncio.Event()

    async def first() -> None:
        with lock:
            await left.wait()

    holds = asyncio.create_task(first())
    await asyncio.sleep(0)
    assert not lock.owned()
    assert lock.try_acquire() is None
    # It would stop the task that must release it. Nothing waits, so this test ends.
    for wait in (None, 3600):
        with pytest.raises(steadlock.InvalidArgumentError, match=r"steadlock\.aio"):
            lock.try_acquire(wait=wait)
    with pytest.raises(steadlock.InvalidArgumentError, match=r"steadlock\.aio"), client.multi_lock([lock]):
        pass
    with pytest.raises(steadlock.NotOwnerError):
        lock.release()
    left.set()
    await holds
    with lock, lock:
        assert lock.owned()


def test_a_task_does_not_enter_what_the_thread_around_its_loop_holds(client: steadlock.Client) -> None:
    lock = client.lock("door")

    async def main() -> None:
        with pytest.raises(steadlock.InvalidArgumentError, match=r"steadlock\.aio"):
            lock.acquire()

    with lock:
        asyncio.run(main())
        assert lock.owned()


async def test_what_an_ended_task_left_held_is_released_by_another(client: steadlock.Client) -> None:
    # A notebook runs each cell in a task of its own.
    lock = client.lock("door")

    async def cell() -> None:
        assert lock.acquire()

    await asyncio.create_task(cell())
    assert lock.owned()
    # But not entered, also not by two.
    with pytest.raises(steadlock.InvalidArgumentError):
        lock.acquire()
    assert await asyncio.to_thread(lock.owned) is False
    assert lock.release() == "released"
    assert not lock.locked()


async def test_other_threads_of_a_loops_locks_wait_for_it(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with lock:
        waiter = asyncio.create_task(asyncio.to_thread(lock.try_acquire, 30))
        await asyncio.sleep(0.05)
        assert not waiter.done()
    lease = await waiter
    assert lease is not None
    assert lease.release() == "released"


def in_job(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """As `asyncio.to_thread` and the worker threads of anyio run a function."""
    return pool.submit(contextvars.copy_context().run, work).result(30)


@pytest.mark.parametrize("kind", ["lock", "mutex", "fair_lock"])
def test_a_scope_that_one_thread_entered_ends_in_another(client: steadlock.Client, kind: str) -> None:
    lock: steadlock.Lock = getattr(client, kind)("door")

    @contextmanager
    def dependency() -> Iterator[None]:
        with lock:
            yield

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for _ in range(3):
            scope = dependency()
            in_job(one, scope.__enter__)
            assert lock.locked()
            in_job(other, partial(scope.__exit__, None, None, None))
            assert not lock.locked()


def test_jobs_of_one_thread_do_not_enter_each_others_locks(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with ThreadPoolExecutor(1) as pool:
        in_job(pool, lock.__enter__)
        # The thread is the same, the job is not.
        assert in_job(pool, lock.try_acquire) is None
        in_job(pool, lambda: lock.__exit__(None, None, None))
        assert in_job(pool, lambda: (lock.acquire(), lock.acquire(), lock.release(), lock.release()))
    assert not lock.locked()


def test_a_scope_of_nobody_is_not_left(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with pytest.raises(steadlock.NotOwnerError):
        lock.__exit__(None, None, None)


def test_threads_that_draw_no_contexts_own_by_thread(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lock.acquire).result(AT_ONCE)
        assert pool.submit(lock.acquire).result(AT_ONCE)
        assert pool.submit(lock.release).result(AT_ONCE) == "released"
        assert pool.submit(lock.release).result(AT_ONCE) == "released"
    assert threading.active_count() >= 1
    assert not lock.locked()
