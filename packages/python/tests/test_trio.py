"""Tests of the blocking client in tasks of trio, each of which is a separate caller."""

from __future__ import annotations

import subprocess
import sys

TASKS = """
import sys, trio
import steadlock

client = steadlock.connect(sys.argv[1])

def refused(call):
    try:
        call()
    except steadlock.InvalidArgumentError:
        return
    raise AssertionError("the call would have waited for another task of its loop")

async def two_tasks():
    # An earlier acquisition must not make the tasks that inherit its context one owner.
    with client.lock("config"):
        pass
    lock = client.lock("job")
    is_in, leave = trio.Event(), trio.Event()

    async def first():
        with lock, lock:
            is_in.set()
            await leave.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await is_in.wait()
        assert not lock.owned() and lock.try_acquire() is None
        refused(lock.acquire)
        refused(client.multi_lock([lock]).acquire)
        in_a_thread = await trio.to_thread.run_sync(lock.try_acquire)
        assert in_a_thread is None
        leave.set()
    with lock:
        assert lock.owned()

async def what_is_left():
    lock = client.lock("left")

    async def leaves():
        assert lock.acquire()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leaves)
    refused(lock.acquire)
    assert lock.release() == "released"
    assert lock.locked() is False

async def in_worker_threads():
    lock, inside = client.lock("counter"), []

    def works():
        with lock:
            inside.append(1)
            assert len(inside) == 1
            inside.pop()

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(trio.to_thread.run_sync, works)

for test in (two_tasks, what_is_left, in_worker_threads):
    trio.run(test)
lock = client.lock("thread")
with lock, lock:
    assert lock.owned()
client.close()
"""


def test_trio_tasks_exclude_each_other(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", TASKS, url], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


AIO = """
import sys, trio
import steadlock

async def main():
    try:
        async with steadlock.aio.connect(sys.argv[1]):
            pass
    except steadlock.MisconfiguredError as error:
        assert "trio.to_thread.run_sync" in str(error) and error.operation == "connect", error
        return
    raise AssertionError("no error")

trio.run(main)
"""


def test_an_aio_client_names_the_alternative_for_trio(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", AIO, url], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
