"""Tests of programs that close descriptors of the client, or that have reached their limit of descriptors. Calls are
still answered, losses are reported, and the program's own files are not touched.
"""

from __future__ import annotations

import pytest
import separate_process
from servers import RedisServer

BEFORE = """
import asyncio, errno, fcntl, os, socket, sys, threading, time, traceback
import steadlock

def open_descriptors():
    # The descriptor with which `listdir` reads is one of them, although it is closed by now.
    return {int(number) for number in os.listdir("/proc/self/fd")}

def close(numbers):
    for number in numbers:
        try:
            os.close(number)
        except OSError:
            pass

def sockets_at(numbers):
    # Returns sockets of the program with exactly these numbers, and their peers.
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
            raise AssertionError(f"other code wrote {peer.recv(100)} to a socket of the program")
        except BlockingIOError:
            pass
        peer.send(b"from the peer")
        assert mine.recv(100) == b"from the peer"
"""

LIMITED = """
import resource, redis

LIMITS = resource.getrlimit(resource.RLIMIT_NOFILE)

def no_more_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, LIMITS[1]))
    try:
        os.dup(1)
        raise AssertionError("the limit does not hold")
    except OSError as error:
        assert error.errno == errno.EMFILE, error

def descriptors_again():
    resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS)

def cut():
    # The server ends all connections but this one.
    for kind in ("normal", "pubsub"):
        other.execute_command("CLIENT", "KILL", "TYPE", kind)

def check_names_open_files(error):
    assert isinstance(error, steadlock.UnavailableError) and "open files" in str(error), repr(error)

other = redis.Redis.from_url(sys.argv[1])
other.ping()
# By name, so that each connection needs a lookup.
url = sys.argv[1].replace("127.0.0.1", "localhost")
deadline = time.monotonic() + 30
"""


def run_program(program: str, *args: str) -> None:
    separate_process.run_program(BEFORE + program, *args)


def test_threads_keep_working_when_all_descriptors_are_closed_during_calls(server: RedisServer) -> None:
    run_program(
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


def test_a_task_gets_its_result_after_the_descriptors_were_closed(server: RedisServer) -> None:
    run_program(
        """
async def other(client):
    try:
        assert not await client.lock("held").acquire(timeout=1.5)
    except steadlock.UnavailableError:
        pass

async def main():
    before = open_descriptors()
    client = await steadlock.aio.connect(sys.argv[1], lease=5)
    async with asyncio.timeout(30):
        async with client.lock("held").hold() as held:
            waits = asyncio.create_task(other(client))
            await asyncio.sleep(0.1)
            close(open_descriptors() - before)
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
def test_a_task_is_notified_of_a_loss_after_its_descriptor_was_reused(server: RedisServer, how: str) -> None:
    run_program(
        """
async def main():
    client = await steadlock.aio.connect(sys.argv[1], lease=1.5)
    async with asyncio.timeout(30):
        lock = client.lock("lost")
        assert await lock.acquire()
        lease = lock.lease
        bell, _ = client._connection.native.fd()
        ends = [bell - 1, bell]
        close(ends)
        pairs = sockets_at(ends) if sys.argv[2] == "taken" else {}
        for turn in range(5):
            async with client.lock("door"):
                pass
        is_reported = asyncio.Event()
        lease.on_lost(lambda _: is_reported.set())
        assert await client.force_release(lock)
        await is_reported.wait()
        await client.close()
        are_untouched(pairs)

asyncio.run(main())
""",
        server.url,
        how,
    )


@pytest.mark.parametrize("how", ["free", "taken"])
def test_a_thread_is_notified_of_a_loss_after_its_descriptor_was_reused(server: RedisServer, how: str) -> None:
    run_program(
        """
client = steadlock.connect(sys.argv[1], lease=1.5)
lock = client.lock("lost")
assert lock.acquire()
lease = lock.lease
is_reported = threading.Event()
lease.on_lost(lambda _: is_reported.set())
time.sleep(0.2)
bell, _ = client._connection.native.fd()
ends = [bell - 1, bell]
close(ends)
pairs = sockets_at(ends) if sys.argv[2] == "taken" else {}
assert client.force_release(lock)
assert is_reported.wait(20)
client.close()
are_untouched(pairs)
""",
        server.url,
        how,
    )


def test_a_greenlet_gets_its_result_after_the_descriptors_were_closed(server: RedisServer) -> None:
    run_program(
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


def test_threads_get_an_error_while_no_descriptor_is_left(server: RedisServer) -> None:
    run_program(
        LIMITED
        + """
def failure(client):
    try:
        lease = client.lock("door").try_acquire(wait=0.05)
    except steadlock.UnavailableError as error:
        return str(error)
    assert lease is None or lease.release() == "released"
    return ""

def until_refused(client):
    while "open files" not in failure(client):
        assert time.monotonic() < deadline, "the limit is not reported"

def until_granted(client):
    while failure(client):
        assert time.monotonic() < deadline, "the client does not recover"

def in_threads(work, *args):
    errors = []
    def run():
        try:
            work(*args)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=run) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a call does not end"
    assert not errors, errors

client = steadlock.connect(url, lease=20, command_timeout=1)
lazy = steadlock.connect(url, lazy=True, command_timeout=1)
lock = client.lock("held")
with lock as held:
    for turn in range(2):
        no_more_descriptors()
        cut()
        in_threads(until_refused, client)
        for call in (client.lock("held").locked, held.extend, lambda: client.lock("door").try_acquire(wait=0.3)):
            try:
                call()
                raise AssertionError(f"{call} was answered")
            except steadlock.UnavailableError as error:
                check_names_open_files(error)
        in_threads(until_refused, lazy)
        try:
            steadlock.connect(url, connect_timeout=1)
            raise AssertionError("connect succeeded")
        except steadlock.UnavailableError as error:
            check_names_open_files(error)
        descriptors_again()
        in_threads(until_granted, client)
        in_threads(until_granted, lazy)
        with steadlock.connect(url) as another:
            until_granted(another)
        assert held.is_valid()
        held.extend()
client.close()
lazy.close()
""",
        server.url,
    )


def test_a_task_gets_an_error_while_no_descriptor_is_left(server: RedisServer) -> None:
    run_program(
        LIMITED
        + """
async def failure(call):
    try:
        await call()
    except steadlock.UnavailableError as error:
        return error

async def use(client):
    lease = await client.lock("door").try_acquire(wait=0.05)
    if lease is not None:
        assert await lease.release() == "released"

async def connect():
    await (await steadlock.aio.connect(url, connect_timeout=1)).close()

async def main():
    client = await steadlock.aio.connect(url, lease=20, command_timeout=1)
    lazy = steadlock.aio.connect(url, lazy=True, command_timeout=1)
    held = await client.lock("held").try_acquire()
    calls = [lambda: use(client), client.lock("held").locked, held.extend]
    for turn in range(2):
        no_more_descriptors()
        cut()
        while "open files" not in str(await failure(calls[0])):
            assert time.monotonic() < deadline, "the limit is not reported"
        for call in [*calls, lambda: use(lazy), connect]:
            check_names_open_files(await failure(call))
        descriptors_again()
        for call in [*calls, lambda: use(lazy), connect]:
            while await failure(call):
                assert time.monotonic() < deadline, "the client does not recover"
        assert held.is_valid()
    assert await held.release() == "released"
    await client.close()
    await lazy.close()

asyncio.run(main())
""",
        server.url,
    )


@pytest.mark.parametrize("caller", ["thread", "task"])
def test_a_forked_child_works_once_a_descriptor_is_free(server: RedisServer, caller: str) -> None:
    run_program(
        LIMITED
        + """
async def connect():
    return await steadlock.aio.connect(url, command_timeout=1)

async def enter():
    async with client.lock("door", wait=1):
        pass

def use():
    if is_task:
        return loop.run_until_complete(enter())
    with client.lock("door", wait=1):
        pass

def child():
    no_more_descriptors()
    for turn in range(3):
        try:
            use()
            raise AssertionError("the lock was granted")
        except steadlock.UnavailableError as error:
            check_names_open_files(error)
    descriptors_again()
    while True:
        try:
            use()
            break
        except steadlock.UnavailableError:
            assert time.monotonic() < deadline, "the client does not recover"
    # Without a signal for its answer, each call would wait for the next check, for up to a second.
    start = time.monotonic()
    for turn in range(10):
        use()
    assert time.monotonic() - start < 5, "answers are not signalled"

is_task = sys.argv[2] == "task"
client = asyncio.run(connect()) if is_task else steadlock.connect(url, command_timeout=1)
if (process := os.fork()) == 0:
    threading.Timer(40, os._exit, [3]).start()
    try:
        # A loop has descriptors of its own.
        loop = asyncio.new_event_loop()
        child()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
""",
        server.url,
        caller,
    )
