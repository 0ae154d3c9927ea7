"""Tests of the end of programs: the locks that are left, and the time that the end takes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from servers import RedisServer, Store, eventually

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
def test_a_program_releases_the_locks_of_its_main_thread_at_exit(
    server: RedisServer, store: Store, ending: str
) -> None:
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
def test_locks_of_a_killed_program_are_free_after_the_lease(server: RedisServer, store: Store, program: str) -> None:
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
    # With the client's default lease of 30 s, this wait would time out.
    with steadlock.connect(server.url) as client, client.lock("door", wait=10):
        assert store.hkeys("door") != owner


def test_a_failing_program_releases_its_locks(server: RedisServer, store: Store) -> None:
    program = """
import steadlock, sys
client = steadlock.connect(sys.argv[1])
client.lock("door").acquire()
raise SystemExit("failed")
"""
    assert run(program, server.url).returncode == 1
    assert not store.exists("door")


def test_a_non_daemon_thread_keeps_its_lock_until_it_ends(server: RedisServer, store: Store) -> None:
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


def test_the_lock_of_a_daemon_thread_expires(server: RedisServer, store: Store) -> None:
    # The thread can be inside the scope until the very end, so no other owner may get the lock before.
    program = """
import steadlock, sys, threading, time
client = steadlock.connect(sys.argv[1], lease=20)
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
    assert 0 < store.pttl("door") <= 20_000
    assert not store.exists("window")


def test_a_live_subinterpreter_does_not_disturb_the_exit() -> None:
    program = """
import warnings
try:
    import _interpreters as interpreters
    number = interpreters.create("legacy")
except ImportError:  # before Python 3.13
    import _xxsubinterpreters as interpreters
    number = interpreters.create(isolated=False)
interpreters.run_string(number, "import steadlock")
# Python 3.14 warns of a live subinterpreter, and this test has one on purpose.
warnings.filterwarnings("ignore", "remaining subinterpreters")
print("last")
"""
    assert succeeds(program) == "last\n"


def test_a_waiting_daemon_thread_does_not_disturb_the_exit(server: RedisServer, store: Store) -> None:
    program = """
import contextlib, steadlock, sys, threading, time
client = steadlock.connect(sys.argv[1])
client.lock("door").acquire()
started = threading.Barrier(9)
def work(n):
    started.wait()
    lock = client.lock("door")
    while True:
        # Such a short wait can end before its first server call.
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


WAITING = """
import re
def waiting(client):
    return sum(map(int, re.findall(r"^steadlock_waiting{.*} (\\d+)$", client.metrics(), re.MULTILINE)))
"""

WAITING_THREADS = f"""{WAITING}
import steadlock, sys, threading, time
client = steadlock.connect(sys.argv[1], metrics=True)
client.lock("door").acquire()
for _ in range(8):
    threading.Thread(target=client.lock("door").acquire, daemon=True).start()
while waiting(client) < 8:
    time.sleep(0.002)
# The server answers a client's calls in order, so this reply comes after the refusal of the first waiter.
client.lock("another").locked()
"""

WAITING_LOOP = f"""{WAITING}
import asyncio, steadlock, sys, threading, time
async def work(client):
    await client.lock("door").acquire()
    await asyncio.sleep(60)
async def main():
    client = await steadlock.aio.connect(sys.argv[1], metrics=True)
    tasks = [asyncio.create_task(work(client)) for _ in range(8)]
    while waiting(client) < 8:
        await asyncio.sleep(0.002)
    await client.lock("another").locked()
    begun.set()
    await asyncio.gather(*tasks)
begun = threading.Event()
client = steadlock.connect(sys.argv[1])
client.lock("door").acquire()
threading.Thread(target=asyncio.run, args=[main()], daemon=True).start()
begun.wait()
"""

WAITING_GREENLETS = f"""{WAITING}
import sys, threading, time
import gevent, steadlock
client = steadlock.connect(sys.argv[1], metrics=True)
client.lock("door").acquire()
def work():
    client.lock("door").acquire()
    gevent.sleep(60)
begun = threading.Event()
def run():
    greenlets = [gevent.spawn(work) for _ in range(8)]
    while waiting(client) < 8:
        gevent.sleep(0.002)
    client.lock("another").locked()
    begun.set()
    gevent.joinall(greenlets)
threading.Thread(target=run, daemon=True).start()
begun.wait()
"""

ASKING_THREADS = """
import contextlib, steadlock, sys, threading, time
client = steadlock.connect(sys.argv[1])
def work():
    with client.lock("window"):
        pass
    lock = client.lock("door")
    while True:
        # Such a short wait can end before its first server call.
        with contextlib.suppress(steadlock.UnavailableError):
            if lock.acquire(timeout=0.01):
                lock.release()
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
client.lock("door").acquire()
"""


@pytest.mark.parametrize(
    "program",
    [WAITING_THREADS, WAITING_LOOP, WAITING_GREENLETS, ASKING_THREADS],
    ids=["threads", "loop", "greenlets", "asking threads"],
)
@pytest.mark.timeout(180)
def test_waiters_are_granted_nothing_at_exit(server: RedisServer, store: Store, program: str) -> None:
    for _ in range(5):
        done = run(program, server.url)
        # A hub of gevent in a daemon thread crashes if it wakes up at the end of the interpreter, independent of what
        # it waits for: the thread is ended on the stack of a greenlet. The client does not wake the hub, but the
        # hub's own timers can.
        crashed = program == WAITING_GREENLETS and done.returncode == -signal.SIGSEGV
        assert crashed or (done.returncode, done.stderr) == (0, "")
        assert crashed or not store.exists("door")
        store.flushall()


WAITING_LOG_HANDLER = """
{first}
import logging, steadlock, sys, threading, time
class Handler(logging.Handler):
    def emit(self, record):
        begun.append(True)
        with client.lock("door"):
            print("granted")
begun = []
client = steadlock.connect(sys.argv[1])
client.lock("door").acquire()
logging.getLogger("program").addHandler(Handler())
def work():
    logging.getLogger("program").error("once")
{start}
while not begun:
    {pause}(0.01)
"""


@pytest.mark.parametrize(
    ("first", "start", "pause"),
    [
        ("", "threading.Thread(target=work, daemon=True).start()", "time.sleep"),
        ("import gevent", "gevent.spawn(work)", "gevent.sleep"),
        (
            "from gevent.monkey import patch_all as p; p()",
            "threading.Thread(target=work, daemon=True).start()",
            "time.sleep",
        ),
    ],
    ids=["thread", "greenlet", "patched thread"],
)
def test_a_waiting_log_handler_does_not_block_the_exit(
    server: RedisServer, store: Store, first: str, start: str, pause: str
) -> None:
    """`logging` acquires the handler's own lock at the end of the process."""
    done = run(WAITING_LOG_HANDLER.format(first=first, start=start, pause=pause), server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not store.exists("door")


def test_a_waiting_thread_leaves_no_record_at_exit(server: RedisServer, store: Store) -> None:
    # The thread makes attempts until the end, and the last one can be unanswered then.
    program = """
import steadlock, sys, threading, time
client = steadlock.connect(sys.argv[1], retry_interval=(0.01, 0.01))
for n in range(8):
    threading.Thread(target=client.lock(f"door-{n}").acquire, daemon=True).start()
print("waiting", flush=True)
sys.stdin.readline()
"""
    names = [f"door-{n}" for n in range(8)]
    for _ in range(5):
        for name in names:
            store.hset(name, "00000000-0000-4000-8000-000000000002:1", "1")
        command = [sys.executable, "-W", "error", "-c", program, server.url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "waiting\n"
            eventually(20, lambda: len(store.pubsub_channels("redisson_lock__channel:*")) == len(names))
            process.stdin.write("\n")
            process.stdin.flush()
            for name in names:
                store.delete(name)
                store.publish(f"redisson_lock__channel:{{{name}}}", "0")
            assert process.wait(10) == 0
        # A daemon thread that got its lock before the end holds it until its lease ends.
        assert all(store.pttl(name) <= 30_000 for name in names)
        store.flushall()


def test_the_main_thread_can_acquire_locks_at_exit(server: RedisServer, store: Store) -> None:
    program = """
import atexit, sys
def last():
    with client.lock("last") as lease:
        print(lease.is_valid(), flush=True)
atexit.register(last)
import steadlock
client = steadlock.connect(sys.argv[1])
client.lock("door").acquire()
"""
    assert succeeds(program, server.url) == "True\n"
    assert not store.exists("door", "last")


CHILD = """
import multiprocessing, sys
{before}
def work(url):
    import steadlock
    global client, permits
    client = steadlock.connect(url)
    assert client.lock("door").acquire()
    permits = client.semaphore("permits", 1).acquire()
    {ending}
def work_in_a_loop(url):
    import asyncio, steadlock
    async def main():
        global client, lease
        client = await steadlock.aio.connect(url)
        lease = await client.lock("door").try_acquire()
        assert lease is not None
    asyncio.run(main())
def end(process):
    process.start()
    process.join()
    print(process.exitcode, flush=True)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    {run}
"""


@pytest.mark.parametrize("before", ["", "import steadlock"], ids=["imported by the child", "imported by the parent"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise SystemExit(3)"], ids=["returns", "exits", "raises"])
def test_a_multiprocessing_child_releases_its_locks(
    server: RedisServer, store: Store, tmp_path: Path, before: str, method: str, ending: str
) -> None:
    program = CHILD.format(before=before, ending=ending, run="end(context.Process(target=work, args=[sys.argv[1]]))")
    assert runs_file(tmp_path, program, server.url, method) == ("3\n" if ending else "0\n")
    assert not store.exists("door", "permits")


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(
    "run",
    [
        "end(context.Process(target=work_in_a_loop, args=[sys.argv[1]]))",
        "from concurrent.futures import ProcessPoolExecutor as Pool\n"
        "    with Pool(1, context) as pool: print(pool.submit(work, sys.argv[1]).result() or 0)",
        "pool = context.Pool(1); print(pool.apply(work, [sys.argv[1]]) or 0); pool.close(); pool.join()",
        "import steadlock, os\n"
        "    child = os.fork()\n"
        "    if child == 0: end(context.Process(target=work, args=[sys.argv[1]])); os._exit(0)\n"
        "    os.waitpid(child, 0)",
    ],
    ids=["tasks", "executor", "pool", "child of a fork"],
)
def test_multiprocessing_workers_release_their_locks(
    server: RedisServer, store: Store, tmp_path: Path, method: str, run: str
) -> None:
    program = CHILD.format(before="", ending="", run=run)
    assert runs_file(tmp_path, program, server.url, method) == "0\n"
    assert not store.exists("door")


def test_a_thread_of_a_child_keeps_its_lock_after_the_main_thread(
    server: RedisServer, store: Store, tmp_path: Path
) -> None:
    ending = """import threading, time
    def continue_after_exit():
        with client.lock("window") as lease:
            held.set()
            time.sleep(0.3)
            assert lease.is_valid()
            # Since Python 3.13, a child joins its threads before everything else that it does at its end.
            if sys.version_info < (3, 13):
                assert client.lock("door").acquire(timeout=10)
                client.lock("door").release()
    held = threading.Event()
    threading.Thread(target=continue_after_exit).start()
    held.wait()"""
    program = CHILD.format(before="", ending=ending, run="end(context.Process(target=work, args=[sys.argv[1]]))")
    assert runs_file(tmp_path, program, server.url, "fork") == "0\n"
    assert not store.exists("door", "window", "permits")


def test_a_program_without_processes_does_not_load_multiprocessing() -> None:
    assert succeeds("import sys, steadlock; print('multiprocessing' in sys.modules)") == "False\n"


def runs_file(folder: Path, program: str, *args: str) -> str:
    """Runs a program from a file, so that its children can import it."""
    path = folder / "program.py"
    path.write_text(program)
    command = [sys.executable, "-W", "error", str(path), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_listeners_do_not_disturb_the_exit(server: RedisServer) -> None:
    program = """
import steadlock, sys
client = steadlock.connect(sys.argv[1], lease=3)
for n in range(20):
    client.lock(f"door-{n}").try_acquire().lost
"""
    for _ in range(5):
        succeeds(program, server.url)


def test_an_asyncio_program_releases_the_locks_of_its_tasks(server: RedisServer, store: Store) -> None:
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
    client = await steadlock.aio.connect(sys.argv[1], lease=20)
    async with client.lock("door"):
        held.set()
        await asyncio.sleep(60)
threading.Thread(target=asyncio.run, args=[main()], daemon=True).start()
held.wait()
"""
    succeeds(program, server.url)
    assert store.exists("door")


def test_garbage_collection_of_a_client_warns_and_releases_no_lock(server: RedisServer, store: Store) -> None:
    program = """
import gc, steadlock, sys, time, warnings
def forget():
    steadlock.connect(sys.argv[1], lease=1.5).lock("door").acquire()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    forget()
    gc.collect()
print(len(caught), caught[0].category.__name__)
time.sleep(2)
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
@pytest.mark.parametrize("api", ["threads", "aio"])
@pytest.mark.parametrize("state", ["answering", "paused", "gone"])
def test_no_program_hangs_at_exit(own_server: RedisServer, api: str, state: str) -> None:
    command = [sys.executable, "-c", TIMED, own_server.url, api]
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
    # The limit is for this package's waits; the rest of the time is the interpreter's.
    assert float(output) < EXIT_LIMIT + 0.1
