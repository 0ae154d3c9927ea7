"""Tests of programs that close descriptors of the client: calls are still answered, losses reported, and the program's
files not touched.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from servers import RedisServer

BEFORE = """
import asyncio, fcntl, os, socket, sys, threading, time
import steadlock

def open_ones():
    # The descriptor of the list is closed by then.
    return {int(number) for number in os.listdir("/proc/self/fd")}

def close(numbers):
    for number in numbers:
        try:
            os.close(number)
        except OSError:
            pass

def others(numbers):
    # Sockets of the program with just these numbers, and their peers.
    pairs = {}
    for number in numbers:
        low = [end.detach() for end in socket.socketpair()]
        pairs[number] = [fcntl.fcntl(end, fcntl.F_DUPFD, 300) for end in low]
        close(low)
    for number, (mine, peer) in pairs.items():
        os.dup2(mine, number)
        os.close(mine)
        pairs[number] = socket.socket(fileno=number), socket.socket(fileno=peer)
        pairs[number][1].setblocking(False)
    return pairs

def are_untouched(pairs):
    for mine, peer in pairs.values():
        try:
            raise AssertionError(f"somebody wrote {peer.recv(100)} to a socket of the program")
        except BlockingIOError:
            pass
        peer.send(b"from the peer")
        assert mine.recv(100) == b"from the peer"
"""


def passes(program: str, *args: str) -> None:
    """Runs a program in a separate process, so that no other test loses descriptors."""
    command = [sys.executable, "-c", BEFORE + program + '\nprint("done")', *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr


def test_threads_go_on_when_everything_was_closed_also_in_the_midst_of_calls(server: RedisServer) -> None:
    passes(
        """
wrong = []
is_over = False

def work(client, name):
    while not is_over:
        try:
            with client.lock(name, wait=0.2):
                pass
        except steadlock.SteadlockError:
            pass
        except BaseException as error:
            wrong.append(error)
            raise

client = steadlock.connect(sys.argv[1], lease=2)
threads = [threading.Thread(target=work, args=(client, f"door-{number % 2}")) for number in range(3)]
for thread in threads:
    thread.start()
for turn in range(8):
    time.sleep(0.2)
    os.closerange(3, 256)
is_over = True
for thread in threads:
    thread.join(20)
    assert not thread.is_alive(), "a call does not end"
assert not wrong, wrong
deadline = time.monotonic() + 20
while True:
    try:
        with client.lock("again", wait=1):
            break
    except steadlock.SteadlockError:
        assert time.monotonic() < deadline
client.close()
""",
        server.url,
    )


def test_a_task_is_answered_when_the_clients_descriptors_were_closed(server: RedisServer) -> None:
    passes(
        """
async def other(client):
    try:
        assert not await client.lock("held").acquire(timeout=1.5)
    except steadlock.UnavailableError:
        pass

async def main():
    before = open_ones()
    client = await steadlock.aio.connect(sys.argv[1], lease=3)
    async with asyncio.timeout(30):
        async with client.lock("held").hold() as held:
            waits = asyncio.create_task(other(client))
            await asyncio.sleep(0.1)
            close(open_ones() - before)
            for turn in range(3):
                while True:
                    try:
                        async with client.lock("door"):
                            break
                    except steadlock.UnavailableError:
                        pass
            await waits
            assert held.is_valid()
        await client.close()

asyncio.run(main())
""",
        server.url,
    )


@pytest.mark.parametrize("how", ["free", "taken"])
def test_a_loss_is_told_to_a_task_and_no_socket_of_the_program_is_touched(server: RedisServer, how: str) -> None:
    passes(
        """
async def main():
    client = await steadlock.aio.connect(sys.argv[1], lease=1)
    async with asyncio.timeout(30):
        lock = client.lock("lost")
        assert await lock.acquire()
        lease = lock.lease
        bell, _ = client._connection.native.fd()
        ends = [bell - 1, bell]
        close(ends)
        pairs = others(ends) if sys.argv[2] == "taken" else {}
        for turn in range(5):
            async with client.lock("door"):
                pass
        told = asyncio.Event()
        lease.on_lost(lambda _: told.set())
        assert await client.force_release(lock)
        await told.wait()
        await client.close()
        are_untouched(pairs)

asyncio.run(main())
""",
        server.url,
        how,
    )


@pytest.mark.parametrize("how", ["free", "taken"])
def test_a_loss_is_told_to_a_thread_and_no_socket_of_the_program_is_touched(server: RedisServer, how: str) -> None:
    passes(
        """
client = steadlock.connect(sys.argv[1], lease=1)
lock = client.lock("lost")
assert lock.acquire()
lease = lock.lease
told = threading.Event()
lease.on_lost(lambda _: told.set())
time.sleep(0.2)
bell, _ = client._connection.native.fd()
ends = [bell - 1, bell]
close(ends)
pairs = others(ends) if sys.argv[2] == "taken" else {}
assert client.force_release(lock)
assert told.wait(20)
client.close()
are_untouched(pairs)
""",
        server.url,
        how,
    )


def test_a_greenlet_is_answered_when_the_clients_descriptors_were_closed(server: RedisServer) -> None:
    passes(
        """
import gevent
client = steadlock.connect(sys.argv[1], lease=3)

def call():
    with gevent.Timeout(20):
        while True:
            try:
                with client.lock("door", wait=1):
                    return
            except steadlock.UnavailableError:
                pass

def hold():
    with client.lock("held"):
        gevent.sleep(1)

gevent.spawn(call).get()
holder = gevent.spawn(hold)
waiter = gevent.spawn(client.lock("held").acquire)
gevent.sleep(0.2)
bell, _ = client._connection.native.fd()
close([bell - 1, bell])
with gevent.Timeout(20):
    assert waiter.get()
for turn in range(3):
    gevent.spawn(call).get()
""",
        server.url,
    )
