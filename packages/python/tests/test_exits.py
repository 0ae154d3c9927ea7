"""What a program leaves behind when it ends, and how long that takes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

import pytest
from servers import RedisServer, Store

import steadlock

EXIT_LIMIT = 0.5


def run(program: str, *args: str, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end."""
    command = [sys.executable, "-W", "error", "-c", program, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def succeeds(program: str, *args: str) -> str:
    done = run(program, *args)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "client.close()"])
def test_a_program_that_ends_frees_what_its_main_thread_holds(server: RedisServer, store: Store, ending: str) -> None:
    program = f"""
import steadlock, sys
client = steadlock.connect(sys.argv[1])
client.lock("door").acquire()
client.lock("window").acquire()
{ending}
"""
    succeeds(program, server.url)
    assert store.exists("door", "window") == 0


IN_A_THREAD = """
import steadlock, sys
lock = steadlock.connect(sys.argv[1]).lock("door", lease=3, renew=True)
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""

IN_A_TASK = """
import asyncio, steadlock, sys
async def main():
    async with steadlock.aio.connect(sys.argv[1]) as client:
        async with client.lock("door").hold(lease=3, renew=True):
            print("held", flush=True)
            await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [IN_A_THREAD, IN_A_TASK], ids=["thread", "task"])
def test_what_a_killed_program_held_is_free_after_the_lease_s_own_length(
    server: RedisServer, store: Store, program: str
) -> None:
    command = [sys.executable, "-c", program, server.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            owner = store.hkeys("door")
            end = time.monotonic() + 4
            while time.monotonic() < end:
                assert store.hkeys("door") == owner
                assert 0 <= store.pttl("door") <= 3000
                time.sleep(0.02)
        finally:
            process.kill()
    # The client's lease, which would keep it for longer, is 30 s.
    with steadlock.connect(server.url) as client, client.lock("door", wait=10):
        assert store.hkeys("door") != owner


def test_a_program_that_fails_frees_what_it_holds(server: RedisServer, store: Store) -> None:
    program = """
import steadlock, sys
client = steadlock.connect(sys.argv[1])
client.lock("door").acquire()
raise SystemExit("failed")
"""
    assert run(program, server.url).returncode == 1
    assert not store.exists("door")


def test_a_thread_that_goes_on_keeps_its_lock_until_it_ends(server: RedisServer, store: Store) -> None:
    program = """
import steadlock, sys, threading, time
client = steadlock.connect(sys.argv[1])
def work():
    with client.lock("door") as lease:
        threading.main_thread().join()
        time.sleep(0.3)
        print(lease.is_valid(), flush=True)
threading.Thread(target=work).start()
"""
    assert succeeds(program, server.url) == "True\n"
    assert not store.exists("door")


def test_the_lock_of_a_daemon_thread_lapses_by_itself(server: RedisServer, store: Store) -> None:
    # The thread may still be inside until the very end: nobody else may be let in before.
    program = """
import steadlock, sys, threading, time
client = steadlock.connect(sys.argv[1], lease=2)
held = threading.Event()
def work():
    with client.lock("door"):
        held.set()
        time.sleep(60)
threading.Thread(target=work, daemon=True).start()
held.wait()
client.lock("window").acquire()
"""
    succeeds(program, server.url)
    assert store.exists("door")
    assert 0 < store.pttl("door") <= 2000
    assert not store.exists("window")


def test_a_subinterpreter_that_nobody_destroyed_does_not_disturb_the_end() -> None:
    program = """
try:
    import _interpreters as interpreters
    number = interpreters.create("legacy")
except ImportError:  # before Python 3.13
    import _xxsubinterpreters as interpreters
    number = interpreters.create(isolated=False)
interpreters.run_string(number, "import steadlock")
print("last")
"""
    assert succeeds(program) == "last\n"


def test_a_daemon_thread_that_waits_does_not_disturb_the_end(server: RedisServer, store: Store) -> None:
    program = """
import contextlib, steadlock, sys, threading, time
client = steadlock.connect(sys.argv[1])
client.lock("door").acquire()
started = threading.Barrier(9)
def work(n):
    started.wait()
    lock = client.lock("door")
    while True:
        # Waits that short may end before the server was asked.
        with contextlib.suppress(steadlock.UnavailableError):
            lock.acquire(timeout=0.01 * n if n else -1)
for n in range(8):
    threading.Thread(target=work, args=[n], daemon=True).start()
started.wait()
time.sleep(0.1)
"""
    for _ in range(5):
        succeeds(program, server.url)
        store.flushall()


def test_listeners_do_not_disturb_the_end(server: RedisServer) -> None:
    program = """
import steadlock, sys
client = steadlock.connect(sys.argv[1], lease=0.3)
for n in range(20):
    client.lock(f"door-{n}").try_acquire().lost
"""
    for _ in range(5):
        succeeds(program, server.url)


def test_an_asyncio_program_frees_what_its_tasks_held(server: RedisServer, store: Store) -> None:
    program = """
import asyncio, steadlock, sys
async def main():
    global client, lease
    client = await steadlock.aio.connect(sys.argv[1])
    lease = await client.lock("door").try_acquire()
asyncio.run(main())
"""
    succeeds(program, server.url)
    assert not store.exists("door")


def test_a_loop_in_a_daemon_thread_keeps_its_lock(server: RedisServer, store: Store) -> None:
    program = """
import asyncio, steadlock, sys, threading
held = threading.Event()
async def main():
    client = await steadlock.aio.connect(sys.argv[1], lease=2)
    async with client.lock("door"):
        held.set()
        await asyncio.sleep(60)
threading.Thread(target=asyncio.run, args=[main()], daemon=True).start()
held.wait()
"""
    succeeds(program, server.url)
    assert store.exists("door")


def test_collection_frees_no_lock_and_warns(server: RedisServer, store: Store) -> None:
    program = """
import gc, steadlock, sys, time, warnings
def forget():
    steadlock.connect(sys.argv[1], lease=0.5).lock("door").acquire()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    forget()
    gc.collect()
print(len(caught), caught[0].category.__name__)
time.sleep(1)
with steadlock.connect(sys.argv[1]) as client:
    print(client.lock("door").locked())
"""
    assert succeeds(program, server.url) == "1 ResourceWarning\nTrue\n"
    assert not store.exists("door")


TIMED = """
import atexit, sys, time
# Registered first, and so called last: after what Steadlock does at the end.
atexit.register(lambda: print(time.monotonic() - ended, flush=True))
import asyncio, steadlock
async def hold(url):
    global client
    client = await steadlock.aio.connect(url)
    await client.lock("task").acquire()
if sys.argv[2] == "aio":
    asyncio.run(hold(sys.argv[1]))
else:
    client = steadlock.connect(sys.argv[1])
    for n in range(10):
        client.lock(f"door-{n}").acquire()
    client.lock("watched").try_acquire().lost
print("held", flush=True)
sys.stdin.readline()
ended = time.monotonic()
"""


@pytest.mark.timing
@pytest.mark.parametrize("face", ["threads", "aio"])
@pytest.mark.parametrize("state", ["answering", "paused", "gone"])
def test_no_program_hangs_at_its_end(own_server: RedisServer, face: str, state: str) -> None:
    command = [sys.executable, "-c", TIMED, own_server.url, face]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        contextlib.ExitStack() as stack,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        if state == "gone":
            own_server.kill()
        elif state == "paused":
            stack.enter_context(own_server.paused())
        output, _ = process.communicate("\n", timeout=10)
    assert process.returncode == 0
    # The limit is for what we wait for; the rest is the interpreter's.
    assert float(output) < EXIT_LIMIT + 0.1
