"""Tests of locks that an ended thread or task held: they are released when the program does not refer to the lease any
more.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from servers import eventually

import steadlock
from steadlock import aio

# ruff: noqa: PT031 (the warning comes some time after the owner has ended)

ENDED_THREAD = "still held by a thread that has ended"
ENDED_TASK = "still held by a task that has ended"
IN_ITSELF: contextvars.ContextVar[object] = contextvars.ContextVar("in itself")


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_lock_held_by_an_ended_thread_is_released_with_a_warning(client: steadlock.Client) -> None:
    lock = client.lock("door")
    with pytest.warns(RuntimeWarning, match=ENDED_THREAD):
        in_thread(lambda: [lock.acquire(), lock.acquire()])
    assert lock.acquire(timeout=10)
    assert lock.release() == "released"
    assert not lock.locked()


def test_a_referenced_lease_outlives_its_thread(client: steadlock.Client) -> None:
    lock = client.lock("door")
    kept: list[steadlock.Lease | None] = []
    in_thread(lambda: kept.append(lock.try_acquire()))
    gc.collect()
    assert lock.locked()
    lease = kept[0]
    assert lease is not None
    assert lease.is_valid()
    assert lease.release() == "released"
    assert not lock.locked()
    in_thread(lambda: kept.append(lock.try_acquire()))
    with pytest.warns(RuntimeWarning, match=ENDED_THREAD):
        kept.clear()
    assert lock.acquire(timeout=10)


def test_an_entered_scope_outlives_its_thread(client: steadlock.Client) -> None:
    lock = client.lock("door")
    in_thread(lock.__enter__)
    gc.collect()
    assert lock.locked()
    lock.__exit__(None, None, None)
    assert not lock.locked()


def test_a_listener_does_not_keep_a_lease_alive(client: steadlock.Client) -> None:
    lock = client.lock("door")

    def listen() -> None:
        lease = lock.try_acquire()
        assert lease is not None
        lease.on_lost(lambda lease: None)
        assert not lease.lost.is_set()

    with pytest.warns(RuntimeWarning, match=ENDED_THREAD):
        in_thread(listen)
    assert lock.acquire(timeout=10)
    assert not client._connection.watched


def test_a_lock_of_a_job_is_released_if_its_context_is_in_a_reference_cycle(
    client: steadlock.Client,
) -> None:
    lock = client.lock("door")

    def acquire() -> None:
        lock.acquire()
        # The context is younger than the objects to which it refers, so that a collection clears it last.
        context = contextvars.copy_context()
        context.run(IN_ITSELF.set, context)

    # An automatic collection must not clear the context before the warning is expected.
    gc.disable()
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(contextvars.Context().run, acquire).result()
            # The thread refers to the context until its next job.
            pool.submit(time.monotonic).result()
            with pytest.warns(RuntimeWarning, match="still held by a job of a thread pool"):
                gc.collect()
    finally:
        gc.enable()
    assert lock.acquire(timeout=10)


def test_an_expired_lease_of_an_ended_thread_causes_no_warning(client: steadlock.Client) -> None:
    lock = client.lock("door")

    def let_lease_expire() -> None:
        lease = lock.try_acquire(wait=20, lease=0.1)
        while lease is not None and lease.is_valid():
            time.sleep(0.01)

    # A warning would be an error in these tests.
    in_thread(let_lease_expire)
    assert lock.acquire(timeout=10)


def test_garbage_collection_alone_releases_no_lock(client: steadlock.Client) -> None:
    lock = client.lock("door")
    assert lock.acquire()
    gc.collect()
    assert lock.owned()
    assert lock.release() == "released"


@pytest.mark.filterwarnings("ignore:lock .* was still held:RuntimeWarning")
def test_threads_end_while_others_acquire(client: steadlock.Client) -> None:
    # The report of an ended thread can interrupt other code at any point. No call may hang, and no lock may stay held.
    def leave(number: int) -> None:
        for turn in range(20):
            client.lock(f"door:{number}:{turn}").acquire()
            with client.lock(f"desk:{number}"):
                gc.collect(0)

    threads = [threading.Thread(target=leave, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    for number in range(16):
        for turn in range(20):
            assert client.lock(f"door:{number}:{turn}").acquire(timeout=10)
            client.lock(f"door:{number}:{turn}").release()
    assert client._connection.holds.all() == []


def test_a_forked_child_releases_no_lock_of_its_parent(client: steadlock.Client) -> None:
    lock = client.lock("door")
    leave = threading.Event()

    def hold() -> None:
        lock.acquire()
        held.set()
        leave.wait()
        lock.release()

    held = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    # The thread does not exist in the child.
    child = os.fork()
    if child == 0:
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lock.locked()
    leave.set()
    thread.join()
    assert not lock.locked()


async def test_a_lock_held_by_an_ended_task_is_released_with_a_warning(aclient: aio.Client) -> None:
    lock = aclient.lock("door")

    async def leave() -> None:
        lease = await lock.try_acquire()
        assert lease is not None
        lease.on_lost(lambda lease: None)

    async def leave_and_acquire() -> None:
        await asyncio.create_task(leave())
        async with lock.hold(wait=10):
            pass

    with pytest.warns(RuntimeWarning, match=ENDED_TASK):
        await leave_and_acquire()
    assert await lock.acquire()
    assert await lock.release() == "released"


@pytest.mark.parametrize("helper", ["create_task", "gather", "wait_for"])
async def test_the_log_reports_a_helper_task_that_acquires_for_its_caller(
    aclient: aio.Client, caplog: pytest.LogCaptureFixture, helper: str
) -> None:
    lock = aclient.lock("door")

    async def prepare() -> None:
        assert await lock.acquire()
        await asyncio.sleep(0)

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "create_task": lambda: asyncio.create_task(prepare()),
        "gather": lambda: asyncio.gather(prepare()),
        # Since Python 3.12, `wait_for` runs a coroutine in the caller's own task.
        "wait_for": lambda: asyncio.wait_for(asyncio.create_task(prepare()), 10),
    }
    with pytest.warns(RuntimeWarning, match=ENDED_TASK):
        await calls[helper]()
        assert await lock.acquire(timeout=10)
    await lock.release()
    await asyncio.to_thread(eventually, 10, lambda: ENDED_TASK in caplog.text)
    (record,) = [record for record in caplog.records if ENDED_TASK in record.message]
    fields: dict[str, object] = vars(record)
    assert (record.name, record.levelname, fields["event"], fields["lock"]) == (
        "steadlock",
        "WARNING",
        "owner_ended",
        "door",
    )


def test_the_log_reports_an_ended_thread_even_if_warnings_are_ignored(
    client: steadlock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    lock = client.lock("door")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_thread(lock.acquire)
    eventually(10, lambda: ENDED_THREAD in caplog.text)
    assert lock.acquire(timeout=10)


def test_an_ended_thread_that_held_two_levels_is_reported_once(
    client: steadlock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    lock = client.lock("door")

    def acquire_twice() -> None:
        assert lock.acquire()
        assert lock.acquire()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        in_thread(acquire_twice)
        assert lock.acquire(timeout=10)
    assert len([warning for warning in caught if ENDED_THREAD in str(warning.message)]) == 1
    eventually(10, lambda: ENDED_THREAD in caplog.text)
    assert caplog.text.count(ENDED_THREAD) == 1


async def test_an_ended_task_that_held_two_levels_is_reported_once(aclient: aio.Client) -> None:
    lock = aclient.lock("door")

    async def acquire_twice() -> None:
        assert await lock.acquire()
        assert await lock.acquire()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await asyncio.create_task(acquire_twice())
        assert await lock.acquire(timeout=10)
        await lock.release()
    assert len([warning for warning in caught if ENDED_TASK in str(warning.message)]) == 1


async def test_a_referenced_lease_outlives_its_task(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    lease = await asyncio.create_task(lock.try_acquire())
    # This task owns the first lease, because it made the call. The task of `give` owns the second one, and ends.

    async def give() -> aio.Lease | None:
        return await lock.try_acquire(wait=10)

    assert lease is not None
    assert await lease.release() == "released"
    lease = await asyncio.create_task(give())
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert lease is not None
    assert lease.is_valid()
    assert await lock.locked()
    assert await lease.release() == "released"
    assert not await lock.locked()


async def test_a_grant_to_an_ended_task_is_released_with_a_warning(aclient: aio.Client) -> None:
    lock = aclient.lock("door")

    async def begin() -> Coroutine[Any, Any, bool]:
        async with aclient.lock("desk"):
            return lock.acquire()

    acquire = await asyncio.create_task(begin())
    with pytest.warns(RuntimeWarning, match=ENDED_TASK):
        assert await acquire
    assert await lock.acquire(timeout=10)
    assert await lock.release() == "released"


async def test_a_lock_acquired_through_wait_for_belongs_to_the_calling_task(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    assert await asyncio.wait_for(lock.acquire(), 10)
    for _ in range(3):
        await asyncio.sleep(0)
    # This task made the call, even if `wait_for` awaited it in another task.
    assert lock.owned()
    assert await lock.release() == "released"


@pytest.mark.parametrize("ending", ["cancelled", "stopped"])
def test_a_release_in_the_last_turn_of_a_loop_is_not_lost(url: str, ending: str) -> None:
    locks: list[aio.Lock] = []
    releases: list[Coroutine[Any, Any, str]] = []

    async def connect() -> aio.Client:
        return await aio.connect(url)

    def release() -> None:
        releases.extend(lease.release() for lease in leases if lease is not None)
        loop.stop()

    leases: list[aio.Lease | None] = []
    loop = asyncio.new_event_loop()
    client = loop.run_until_complete(connect())
    locks.extend(client.lock(name) for name in ("a", "b", "c"))

    async def acquire() -> None:
        for lock in locks:
            leases.append(await lock.try_acquire())

    loop.run_until_complete(acquire())
    loop.call_soon(release)
    loop.run_forever()
    if ending == "cancelled":
        # Cancels the tasks before they have begun, as `asyncio.run` does.
        tasks = [loop.create_task(release) for release in releases]
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    else:
        for release_coroutine in releases:
            release_coroutine.close()
    loop.close()

    async def look() -> None:
        # The client moves to this loop.
        for lock in locks:
            assert await lock.acquire(timeout=5)
            await lock.release()
        await client.close()

    asyncio.run(look())
