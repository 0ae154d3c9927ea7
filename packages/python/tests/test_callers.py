"""Tests of the owners of a blocking client's locks: a thread, a task or greenlet in it, or a job that it runs."""

# ruff: noqa: PT031 (the warning comes some time after the owner has ended)

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import pytest
from servers import RedisServer, until_refused

import steadlock
from steadlock import aio

T = TypeVar("T")
SHORT_WAIT = 5


async def test_two_tasks_exclude_each_other(client: steadlock.Client) -> None:
    lock = client.lock("door")
    left = asyncio.Event()

    async def first() -> None:
        with lock:
            await left.wait()

    holds = asyncio.create_task(first())
    await asyncio.sleep(0)
    assert not lock.owned()
    assert lock.try_acquire() is None
    # A wait would block the task that must release the lock, so it is refused at once.
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


def test_a_task_does_not_reenter_a_lock_of_its_thread(client: steadlock.Client) -> None:
    lock = client.lock("door")

    async def main() -> None:
        with pytest.raises(steadlock.InvalidArgumentError, match=r"steadlock\.aio"):
            lock.acquire()

    with lock:
        asyncio.run(main())
        assert lock.owned()


async def test_another_task_can_release_a_lock_that_an_ended_task_held(client: steadlock.Client) -> None:
    # A notebook runs each cell in a separate task.
    lock = client.lock("door")

    async def cell() -> None:
        assert lock.acquire()

    await asyncio.create_task(cell())
    assert lock.owned()
    # This task may release the lock, but it may not re-enter it.
    with pytest.raises(steadlock.InvalidArgumentError):
        lock.acquire()
    assert await asyncio.to_thread(lock.owned) is False
    assert lock.release() == "released"
    assert not lock.locked()


async def test_another_thread_waits_for_a_lock_of_a_task(url: str) -> None:
    with steadlock.connect(url, metrics=True) as client:
        lock = client.lock("door")
        with lock:
            waiter = asyncio.create_task(asyncio.to_thread(lock.try_acquire, 30))
            await asyncio.to_thread(until_refused, client)
            assert not waiter.done()
        lease = await waiter
        assert lease is not None
        assert lease.release() == "released"


def in_job(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Runs a function like `asyncio.to_thread` and the worker threads of anyio."""
    return pool.submit(contextvars.copy_context().run, work).result(30)


@pytest.mark.parametrize("kind", ["lock", "mutex", "fair_lock"])
def test_a_scope_can_end_in_another_thread(client: steadlock.Client, kind: str) -> None:
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


def test_jobs_of_one_thread_exclude_each_other(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with ThreadPoolExecutor(1) as pool:
        in_job(pool, lock.__enter__)
        # The thread is the same, but the job is another one.
        assert in_job(pool, lock.try_acquire) is None
        in_job(pool, lambda: lock.__exit__(None, None, None))
        assert in_job(pool, lambda: (lock.acquire(), lock.acquire(), lock.release(), lock.release()))
    assert not lock.locked()


ENDED_JOB = r"still held by a job of a thread pool that has ended.*asyncio\.to_thread"


async def test_a_lock_held_by_an_ended_job_is_released_with_a_warning(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with pytest.warns(RuntimeWarning, match=ENDED_JOB):
        assert await asyncio.to_thread(lambda: lock.acquire() and lock.acquire())
        # The thread lives on, so the renewal would continue if the lock were not released.
        assert await asyncio.to_thread(lock.try_acquire, SHORT_WAIT)
        assert await asyncio.to_thread(locked_until, lock, SHORT_WAIT) is False
    with pytest.raises(steadlock.NotOwnerError):
        await asyncio.to_thread(lock.release)


def locked_until(lock: steadlock.Lock, seconds: float) -> bool:
    """Returns whether the lock is still held after this many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not lock.locked():
            return False
        time.sleep(0.002)
    return True


async def test_a_referenced_lease_outlives_its_job(client: steadlock.Client) -> None:
    lock = client.lock("door")
    lease = await asyncio.to_thread(lock.try_acquire)
    gc.collect()
    assert lease is not None
    assert lease.is_valid()
    assert await asyncio.to_thread(lease.release) == "released"
    permits = client.semaphore("permits", 1)
    lease = await asyncio.to_thread(permits.acquire)
    gc.collect()
    assert lease.is_valid()
    assert lease.release() == "released"


async def test_a_lock_held_by_an_ended_anyio_job_is_released_with_a_warning(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with pytest.warns(RuntimeWarning, match=ENDED_JOB):
        assert await anyio.to_thread.run_sync(lock.acquire)
        # The thread can keep a job's context until the next job begins.
        assert await anyio.to_thread.run_sync(lambda: locked_until(lock, SHORT_WAIT)) is False


def test_jobs_in_one_context_are_one_caller(client: steadlock.Client) -> None:
    lock = client.lock("door")
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        for expected in (True, True, "released", "released"):
            call = lock.acquire if expected is True else lock.release
            assert pool.submit(context.run, call).result(SHORT_WAIT) == expected
    assert not lock.locked()
    for call in (lock.acquire, lock.release):
        assert context.run(call)


@pytest.mark.parametrize("between", ["nothing", "another thread"])
def test_a_context_passed_to_the_next_job_is_one_caller(client: steadlock.Client, between: str) -> None:
    # Simulates asgiref's `sync_to_async` with and without `thread_sensitive`.
    lock, other = client.lock("door"), client.lock("window")
    with ThreadPoolExecutor(1) as sensitive, ThreadPoolExecutor(1) as free:

        def request() -> None:
            assert back_and_forth(sensitive, lock.acquire)
            if between == "another thread":
                assert back_and_forth(free, other.acquire)
                assert back_and_forth(free, lock.owned) is False
            assert back_and_forth(sensitive, lock.owned)
            assert back_and_forth(sensitive, lock.release) == "released"
            if between == "another thread":
                assert back_and_forth(free, other.release) == "released"

        for _ in range(3):
            contextvars.copy_context().run(request)

        def leave() -> None:
            assert back_and_forth(sensitive, lock.acquire)

        with pytest.warns(RuntimeWarning, match=ENDED_JOB):
            contextvars.copy_context().run(leave)
            assert not locked_until(lock, SHORT_WAIT)


def back_and_forth(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Runs `work` in a copy of this context, and then copies the variables back."""
    context = contextvars.copy_context()
    try:
        return pool.submit(context.run, work).result(SHORT_WAIT)
    finally:
        for variable in context:
            variable.set(context.get(variable))


async def test_a_job_owns_locks_that_it_acquires_through_a_loop(aclient: aio.Client) -> None:
    lock, loop = aclient.lock("door"), asyncio.get_running_loop()

    def work(*calls: Callable[[], Coroutine[Any, Any, object]]) -> None:
        for call in calls:
            assert asyncio.run_coroutine_threadsafe(call(), loop).result(SHORT_WAIT)

    await asyncio.to_thread(work, lock.acquire, lock.release)
    with pytest.warns(RuntimeWarning, match=ENDED_JOB):
        await asyncio.to_thread(work, lock.acquire)
        assert await lock.acquire(timeout=SHORT_WAIT)
    await lock.release()


async def test_the_owner_in_a_loop_callback_is_the_thread(client: steadlock.Client) -> None:
    lock, loop = client.lock("door"), asyncio.get_running_loop()
    got: asyncio.Future[object] = loop.create_future()
    loop.call_soon(lambda: got.set_result(lock.acquire()))
    assert await got
    gc.collect()
    assert lock.locked()
    got = loop.create_future()
    loop.call_soon(lambda: got.set_result(lock.release()))
    assert await got == "released"


def test_a_forked_child_notices_the_end_of_its_own_jobs(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:
        lock = client.lock("door")

        def fork_in_a_job() -> int:
            assert lock.acquire()
            child = os.fork()
            if child == 0:
                threading.Timer(15, os._exit, [3]).start()
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    contextvars.Context().run(client.lock("window").acquire)
                    free = not locked_until(client.lock("window"), 5)
                os._exit(0 if free and len(caught) == 1 else 1)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert lock.owned()
            lock.release()
            return status

        assert contextvars.Context().run(fork_in_a_job) == 0


def test_ending_a_scope_that_was_not_entered_is_refused(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with pytest.raises(steadlock.NotOwnerError):
        lock.__exit__(None, None, None)


def test_the_owner_in_a_job_without_a_context_is_the_thread(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lock.acquire).result(SHORT_WAIT)
        assert pool.submit(lock.acquire).result(SHORT_WAIT)
        assert pool.submit(lock.release).result(SHORT_WAIT) == "released"
        assert pool.submit(lock.release).result(SHORT_WAIT) == "released"
    assert not lock.locked()
