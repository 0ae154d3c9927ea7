"""Tests of forks: the child owns no lock, and the parent is not affected."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import concurrent_callers
import pytest
from separate_process import run_program
from servers import RedisServer, Store

import steadlock
from steadlock import aio


def in_child(work: Callable[[], None]) -> None:
    """Runs `work` in a forked child, and fails if it raises or hangs there."""
    child = os.fork()
    if child == 0:
        # A timer ends a hanging child, so that the test run does not hang.
        threading.Timer(15, os._exit, [3]).start()
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "see the child's traceback"


def test_an_inherited_client_works_in_the_child(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:
        lock = client.lock("door")
        with lock:
            pass

        def work() -> None:
            with lock as lease:
                assert lease.is_valid()
                assert lock.locked()
            assert not lock.locked()

        in_child(work)
        with lock:
            pass


def test_a_child_may_begin_without_a_majority_of_primaries() -> None:
    with (
        RedisServer() as one,
        RedisServer() as two,
        RedisServer() as three,
        steadlock.redlock([one.url, two.url, three.url]) as client,
    ):
        lock = client.lock("door")
        with lock:
            pass
        two.kill()
        three.kill()

        def work() -> None:
            with pytest.raises(steadlock.UnavailableError):
                lock.try_acquire()
            two.start()
            try:
                assert lock.try_acquire(wait=10) is not None
                lock.release()
            finally:
                two.kill()

        in_child(work)


def test_the_child_of_a_fork_owns_nothing(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:
        lock = client.lock("door")
        with lock as lease:

            def work() -> None:
                assert not lock.owned()
                assert lock.lease is None
                assert lock.locked()
                assert lock.try_acquire() is None
                with pytest.raises(steadlock.NotOwnerError):
                    lock.release()

            in_child(work)
            assert lease.is_valid()
            assert lock.locked()


def test_an_inherited_lease_is_refused_in_the_child(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:
        lock = client.lock("door")
        with lock as lease:

            def work() -> None:
                assert not lease.is_valid()
                assert lease.remaining() == 0
                with pytest.raises(steadlock.ForkedError):
                    lease.release()
                with pytest.raises(steadlock.ForkedError):
                    lease.extend()
                with pytest.raises(steadlock.ForkedError):
                    lock.__exit__(None, None, None)

            in_child(work)
            assert lease.is_valid()
            lease.extend()
        assert not lock.locked()


SAME_ID = """
import asyncio, ctypes, os, sys, threading, traceback

import steadlock
from steadlock import aio

CLONE_NEWPID = 0x20000000


async def connect():
    return await aio.connect(sys.argv[1])


async def enter(client):
    async with client.lock("tasks") as lease:
        assert lease.is_valid()


def work():
    assert os.getpid() == 1, "as in the parent"
    assert not lease.is_valid() and lease.remaining() == 0
    for call in (lease.release, lease.extend):
        try:
            call()
        except steadlock.ForkedError:
            continue
        raise AssertionError(f"{call} went through")
    with client.lock("other") as other:
        assert other.is_valid()
    assert client.lock("door").try_acquire() is None
    asyncio.run(enter(tasks))


client = steadlock.connect(sys.argv[1])
tasks = asyncio.run(connect())
lease = client.lock("door").try_acquire()
assert os.getpid() == 1
assert ctypes.CDLL(None).unshare(CLONE_NEWPID) == 0, "the next child is the first of its namespace"
child = os.fork()
if child == 0:
    threading.Timer(15, os._exit, [3]).start()
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, "see the child's traceback"
assert lease.is_valid()
lease.release()
os._exit(0)
"""


def test_a_fork_is_detected_even_with_the_process_id_of_its_parent(server: RedisServer) -> None:
    as_first = as_first_process()
    if as_first is None:
        pytest.skip("this machine does not allow new PID namespaces")
    command = [*as_first, sys.executable, "-c", SAME_ID, server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def as_first_process() -> list[str] | None:
    """Returns a command prefix that runs a command as the first process of a new PID namespace; `None` if that is not
    possible.
    """
    if shutil.which("unshare") is None:
        return None
    for own in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *own, "--pid", "--fork", "--kill-child"]
        if subprocess.run([*command, "true"], capture_output=True, timeout=20, check=False).returncode == 0:
            return command
    return None


def test_a_child_has_its_own_client_id(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client:
        with client.lock("mine"):
            (mine,) = map(str, store.hgetall("mine"))
            read, write = os.pipe()

            def work() -> None:
                with client.lock("theirs"):
                    (theirs,) = store.hgetall("theirs")
                    os.write(write, str(theirs).encode())

            in_child(work)
            theirs = os.read(read, 200).decode()
        assert theirs.partition(":")[0] != mine.partition(":")[0]
        os.close(read)
        os.close(write)


def test_a_private_memory_client_is_refused_in_the_child() -> None:
    with steadlock.connect("memory://") as client:
        with client.lock("door"):
            pass

        def work() -> None:
            with pytest.raises(steadlock.ForkedError):
                client.lock("door").acquire()

        in_child(work)
        with client.lock("door"):
            pass


def test_losses_are_reported_in_the_child_and_in_the_parent(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url, lease=1) as client:
        lease = client.lock("mine").try_acquire()
        assert lease is not None
        lost = lease.lost

        def work() -> None:
            theirs = client.lock("theirs").try_acquire()
            assert theirs is not None
            event = theirs.lost
            store.delete("theirs")
            assert event.wait(10)
            assert not lost.is_set()

        in_child(work)
        assert not lost.is_set()
        store.delete("mine")
        assert lost.wait(10)


def test_a_fork_while_other_threads_use_the_client(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:
        stop = threading.Event()

        def keep_busy(name: str) -> None:
            while not stop.is_set():
                with client.lock(name):
                    pass

        threads = [threading.Thread(target=keep_busy, args=[f"busy-{n}"]) for n in range(4)]
        for thread in threads:
            thread.start()

        def work() -> None:
            for n in range(5):
                with client.lock(f"child-{n}"):
                    pass

        try:
            for _ in range(10):
                in_child(work)
        finally:
            stop.set()
            for thread in threads:
                thread.join(10)


FIRST_USE = """
import os, sys, threading, time, traceback

import steadlock

# Python switches threads as often as possible.
sys.setswitchinterval(1e-6)
client = steadlock.connect(sys.argv[1])


def use(name):
    with client.lock(name):
        pass


thread = threading.Thread(target=use, args=["parent"])
thread.start()
time.sleep(float(sys.argv[2]))
child = os.fork()
if child == 0:
    threading.Timer(15, os._exit, [3]).start()
    try:
        use("child")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
_, status = os.waitpid(child, 0)
thread.join()
assert os.waitstatus_to_exitcode(status) == 0, "see the child's traceback"
"""


@pytest.mark.parametrize("ms", [0, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4])
def test_a_fork_during_the_first_use_in_another_thread(server: RedisServer, ms: float) -> None:
    run_program(FIRST_USE, server.url, str(ms / 1000))


@pytest.mark.parametrize(
    "ask", [concurrent_callers.check_one_thread_is_granted, concurrent_callers.check_all_threads_are_granted]
)
def test_threads_of_the_child_share_the_client_from_its_first_use_there(
    server: RedisServer, ask: Callable[[steadlock.Lock], None]
) -> None:
    with steadlock.connect(server.url) as client:
        lock = client.lock("door")
        for _ in range(5):
            with lock:
                pass
            in_child(lambda: ask(lock))


@pytest.mark.parametrize(
    "ask", [concurrent_callers.check_one_task_is_granted, concurrent_callers.check_all_tasks_are_granted]
)
def test_tasks_of_the_child_share_the_client_from_its_first_use_there(
    server: RedisServer, ask: Callable[[aio.Lock], Coroutine[Any, Any, None]]
) -> None:
    client = asyncio.run(connect(server.url))
    for _ in range(5):
        asyncio.run(enter(client))
        in_child(lambda: asyncio.run(ask(client.lock("door"))))
    asyncio.run(client.close())


def test_closing_in_the_child_does_not_affect_the_parent(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client, client.lock("door") as lease:

        def work() -> None:
            with client.lock("other"):
                pass
            client.close()

        in_child(work)
        assert client.lock("door").locked()
        assert lease.is_valid()


def test_a_client_closed_before_the_fork_is_closed_in_the_child(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:
        lock = client.lock("door")
        with lock:
            pass

    def work() -> None:
        with pytest.raises(steadlock.ClosedError):
            lock.acquire()
        client.close()

    in_child(work)


def test_a_client_works_in_a_grandchild(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:

        def grandchild() -> None:
            with client.lock("door"):
                pass

        def child() -> None:
            with client.lock("door"):
                pass
            in_child(grandchild)

        in_child(child)


def test_an_inherited_aio_client_works_in_a_new_loop_of_the_child(server: RedisServer) -> None:
    client = asyncio.run(connect(server.url))

    def work() -> None:
        asyncio.run(enter(client))

    in_child(work)
    asyncio.run(enter(client))
    asyncio.run(client.close())


def test_an_inherited_event_loop_works_in_the_child(server: RedisServer) -> None:
    loop = asyncio.new_event_loop()
    client = loop.run_until_complete(connect(server.url))
    loop.run_until_complete(enter(client))

    async def enter_for_a_while() -> None:
        # The client checks its descriptor once a second.
        for _ in range(4):
            async with asyncio.timeout(10):
                await enter(client)
            await asyncio.sleep(0.5)

    in_child(lambda: loop.run_until_complete(enter_for_a_while()))
    loop.run_until_complete(enter(client))
    loop.run_until_complete(client.close())
    loop.close()


async def connect(url: str) -> aio.Client:
    return await aio.connect(url)


async def enter(client: aio.Client) -> None:
    async with client.lock("door") as lease:
        assert lease.is_valid()
        assert await client.lock("door").locked()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_workers_exclude_each_other(server: RedisServer, store: Store, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    processes = [context.Process(target=count, args=[server.url, 40]) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(40)
        assert process.exitcode == 0
    assert store.get("count") == "160"


def count(url: str, rounds: int) -> None:
    """Adds to a number by a separate read and write, under a lock."""
    import redis

    with steadlock.connect(url) as client, redis.Redis.from_url(url) as store:
        for _ in range(rounds):
            with client.lock("door"):
                value = int(store.get("count") or 0)
                store.set("count", value + 1)


def test_a_forked_child_does_not_share_the_embedded_store() -> None:
    with steadlock.connect("memory://stays") as client, client.lock("door") as lease:

        def work() -> None:
            for call in (client.lock("door").try_acquire, client.lock("door").locked):
                with pytest.raises(steadlock.MisconfiguredError, match="is a fork of"):
                    call()
            with pytest.raises(steadlock.MisconfiguredError, match=r"memory://stays .*is a fork of"):
                steadlock.connect("memory://stays")
            with pytest.raises(steadlock.MisconfiguredError, match="is a fork of"):
                asyncio.run(connect("memory://stays"))
            with steadlock.connect("memory://first-in-the-child") as own, own.lock("door"):
                pass

        in_child(work)
        assert lease.is_valid()
