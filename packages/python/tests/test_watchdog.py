"""Tests that renewal goes on even if the interpreter is busy, and ends with the release."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest
from servers import RedisServer, Store, eventually, script_calls

import steadlock
from steadlock import aio

LEASE = 1.0

BUSY_LOOP = """
import steadlock, sys, time
client = steadlock.connect(sys.argv[1], lease=1)
with client.lock("door") as lease:
    lost = lease.lost
    # No other thread of this interpreter gets the GIL for hours.
    sys.setswitchinterval(10_000)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        sum(range(10_000))
        assert lease.is_valid()
    assert not lost.is_set()
print(lease.lost_reason)
"""


@pytest.mark.timing
def test_a_lock_is_renewed_while_python_holds_the_gil(server: RedisServer) -> None:
    command = [sys.executable, "-c", BUSY_LOOP, server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("None\n", "")


@pytest.mark.timing
async def test_a_lock_is_renewed_while_the_event_loop_is_blocked(server: RedisServer) -> None:
    async with aio.connect(server.url, lease=LEASE) as client, client.lock("door") as lease:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            sum(range(10_000))
            assert lease.is_valid()
        await asyncio.sleep(0.01)
        assert lease.is_valid()


@pytest.mark.timing
def test_a_thousand_locks_are_renewed(server: RedisServer) -> None:
    with steadlock.connect(server.url, lease=LEASE) as client:
        leases = [client.lock(f"door-{number}").try_acquire() for number in range(1000)]
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert all(lease is not None and lease.is_valid() for lease in leases)
            time.sleep(0.05)
        assert {lease.release() for lease in leases if lease is not None} == {"released"}


@pytest.mark.timing
def test_nothing_is_renewed_after_the_release(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url, lease=LEASE) as client:
        with client.lock("door"):
            before = script_calls(store)
            eventually(2 * LEASE, lambda: script_calls(store) > before)
        after = script_calls(store)
        time.sleep(2 * LEASE)
        assert script_calls(store) == after


@pytest.mark.timing
def test_the_lock_of_a_killed_holder_is_granted_within_its_lease(server: RedisServer) -> None:
    program = """
import steadlock, sys
client = steadlock.connect(sys.argv[1], lease=1)
client.lock("door").acquire()
print("held", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program, server.url]
    with (
        steadlock.connect(server.url) as client,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()
        process.wait()
        started = time.monotonic()
        with client.lock("door"):
            assert time.monotonic() - started < LEASE + 0.6


@pytest.mark.timing
def test_a_released_lock_wakes_a_waiter_of_another_client_at_once(server: RedisServer) -> None:
    program = """
import steadlock, sys, time
client = steadlock.connect(sys.argv[1])
lock = client.lock("door")
for line in sys.stdin:
    with lock:
        print(time.monotonic(), flush=True)
"""
    command = [sys.executable, "-c", program, server.url]
    with (
        steadlock.connect(server.url) as client,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        waits = []
        for _ in range(11):
            with client.lock("door"):
                process.stdin.write("\n")
                process.stdin.flush()
                time.sleep(0.1)
                released = time.monotonic()
            waits.append(float(process.stdout.readline()) - released)
        process.stdin.close()
        assert sorted(waits)[5] < 0.05
