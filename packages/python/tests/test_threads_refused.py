"""Tests of a process that gets no more threads. A call that needs a new one raises an error, and other calls work."""

from __future__ import annotations

import sys

import pytest
import separate_process
from servers import RedisServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the threads of a user")

BEFORE = """
import asyncio, logging, os, resource, sys, threading, time, traceback
import redis, steadlock

# The id of a user who has no other process.
NOBODY = 1_000_000 + os.getpid()
_, HARD = resource.getrlimit(resource.RLIMIT_NPROC)
other = redis.Redis.from_url(sys.argv[1])
other.ping()
# By name, so that each connection needs a lookup.
url = sys.argv[1].replace("127.0.0.1", "localhost")

def threads_named(name):
    found = 0
    for task in os.listdir("/proc/self/task"):
        try:
            found += open(f"/proc/self/task/{task}/comm").read().strip() == name
        except OSError:
            continue
    return found

def wait_for_threads(name, most):
    # A thread that is about to end still counts.
    deadline = time.monotonic() + 20
    while threads_named(name) > most:
        assert time.monotonic() < deadline, name

# Loads every module before this process becomes a user that may not read them.
steadlock.connect(url).close()
wait_for_threads("steadlock-engin", 0)
wait_for_threads("steadlock-block", 0)

def refuse_threads(more=0):
    # Clients keep one thread for lookups.
    wait_for_threads("steadlock-block", 1)
    # Limits of threads do not apply to root. They count the threads of all processes of a user.
    if os.getuid() == 0:
        os.setresuid(NOBODY, NOBODY, 0)
    resource.setrlimit(resource.RLIMIT_NPROC, (threads_of_this_user() + more, HARD))

def threads_of_this_user():
    count = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = open(f"/proc/{process}/status").read()
        except OSError:
            continue
        lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if int(lines["Uid"].split()[0]) == os.getuid():
            count += int(lines["Threads"])
    return count

def check_no_thread_starts():
    try:
        threading.Thread(target=int).start()
        raise AssertionError("the limit does not hold")
    except RuntimeError:
        pass

def threads_again():
    resource.setrlimit(resource.RLIMIT_NPROC, (HARD, HARD))

def cut():
    for kind in ("normal", "pubsub"):
        other.execute_command("CLIENT", "KILL", "TYPE", kind)

def check_refused(call):
    try:
        call()
    except steadlock.UnavailableError as error:
        assert "threads" in str(error), error
        assert error.retryable
    else:
        raise AssertionError("the call is not refused")

def recovers(call):
    deadline = time.monotonic() + 20
    while True:
        try:
            return call()
        except steadlock.UnavailableError:
            assert time.monotonic() < deadline, traceback.format_exc()

def use(client):
    with client.lock("door", wait=1):
        pass

def without_log():
    # With its log off, a client starts no thread before a call needs one.
    logging.getLogger("steadlock").setLevel(logging.CRITICAL + 1)
    return steadlock.connect(url, lease=3)
"""


def run_program(program: str, server: RedisServer) -> None:
    """Runs a program, which must print nothing but `done`."""
    done = separate_process.run_program(BEFORE + program, server.url)
    assert done.stdout == "done\n", done.stdout + done.stderr
    assert done.stderr == "", done.stderr


def test_a_client_works_and_new_clients_are_refused_without_threads(server: RedisServer) -> None:
    run_program(
        """
client = steadlock.connect(url, lease=3)
lazy = steadlock.connect(url, lazy=True)
held = client.lock("held").try_acquire()
is_reported = threading.Event()
held.on_lost(lambda _: is_reported.set())
refuse_threads()
check_no_thread_starts()
check_refused(lambda: steadlock.connect(url))
check_refused(lambda: use(lazy))
for turn in range(3):
    cut()
    recovers(lambda: use(client))
assert held.is_valid()
assert client.force_release(client.lock("held"))
assert is_reported.wait(10)
threads_again()
use(lazy)
steadlock.connect(url).close()
""",
        server,
    )


def test_tasks_work_and_new_clients_are_refused_without_threads(server: RedisServer) -> None:
    run_program(
        """
async def main():
    client = await steadlock.aio.connect(url, lease=3)
    held = await client.lock("held").try_acquire()
    is_reported = asyncio.Event()
    held.on_lost(lambda _: is_reported.set())
    refuse_threads()
    check_no_thread_starts()
    for turn in range(3):
        try:
            await steadlock.aio.connect(url)
            raise AssertionError("the call is not refused")
        except steadlock.UnavailableError as error:
            assert "threads" in str(error), error
        cut()
        deadline = time.monotonic() + 20
        while True:
            try:
                async with client.lock("door", wait=1):
                    break
            except steadlock.UnavailableError:
                assert time.monotonic() < deadline, traceback.format_exc()
    assert held.is_valid()
    assert await client.force_release(client.lock("held"))
    async with asyncio.timeout(10):
        await is_reported.wait()
    threads_again()
    await (await steadlock.aio.connect(url)).close()
    await client.close()

asyncio.run(main())
""",
        server,
    )


@pytest.mark.parametrize("more", [0, 1])
def test_waiting_for_a_loss_is_refused_without_threads(server: RedisServer, more: int) -> None:
    """The process still gets `more` threads. The client needs two: a helper thread starts the thread that waits."""
    run_program(
        f"""
client = without_log()
held = client.lock("held").try_acquire()
refuse_threads({more})
called = []
check_refused(lambda: held.on_lost(called.append))
check_refused(lambda: held.lost)
use(client)
threads_again()
is_reported = threading.Event()
held.on_lost(lambda _: is_reported.set())
lost = held.lost
assert client.force_release(client.lock("held"))
assert is_reported.wait(10)
assert lost.wait(10)
assert called == [], "a refused callback is called"
""",
        server,
    )


def test_a_reported_loss_needs_no_thread(server: RedisServer) -> None:
    run_program(
        """
client = without_log()
held = client.lock("held").try_acquire()
assert client.force_release(client.lock("held"))
deadline = time.monotonic() + 10
while held.lost_reason is None:
    assert time.monotonic() < deadline
refuse_threads()
called = []
held.on_lost(called.append)
assert called == [held]
assert held.lost.is_set()
""",
        server,
    )
