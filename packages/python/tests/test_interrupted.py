"""Tests of program code that runs during the package's own code, in the same thread, and calls the client again.

Signal handlers, garbage collections, finalizers, profilers and tracers run such code. `storm.py` runs them at random
moments.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from servers import RedisServer, Store, eventually
from telemetry import Collected

import steadlock
from steadlock import aio

PACKAGE = str(Path(steadlock.__file__).parent)
SOON = 60
"""The seconds after which a call counts as hanging."""

Scope = AbstractContextManager[steadlock.Lease]
KINDS: dict[str, Callable[[steadlock.Client, str], Scope]] = {
    "lock": lambda client, name: client.lock(name),
    "mutex": lambda client, name: client.mutex(name),
    "fair_lock": lambda client, name: client.fair_lock(name),
    "read": lambda client, name: client.read_write_lock(name).read,
    "write": lambda client, name: client.read_write_lock(name).write,
    "semaphore": lambda client, name: client.semaphore(name, 2),
    "multi_lock": lambda client, name: client.multi_lock([client.lock(f"{name}:1"), client.mutex(f"{name}:2")]),
    "hold": lambda client, name: client.lock(name).hold(wait=5),
}


class CallAtStep:
    """A tracer that calls the client again at each event of the package's code: a call, a line, a return."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._is_inside = False
        self.moments = 0

    def __call__(self, frame: FrameType, *_: object) -> CallAtStep | None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if not self._is_inside:
            self._is_inside = True
            self.moments += 1
            try:
                self._call()
            finally:
                self._is_inside = False
        return self


@contextmanager
def at_each_step(call: Callable[[], object]) -> Iterator[None]:
    """Calls `call` at each step of the package's code in this thread."""
    tracer = CallAtStep(call)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)
    assert tracer.moments > 0


def ends(work: Callable[[], object]) -> None:
    """Runs `work` in a thread, and checks that the thread ends."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def use(client: steadlock.Client, make: Callable[[steadlock.Client, str], Scope], name: str) -> None:
    with make(client, name) as lease:
        assert lease.is_valid()
        lease.on_lost(lambda _: None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_is_used_at_each_step_of_another_with(kind: str) -> None:
    client = steadlock.connect("memory://", metrics=True)
    make = KINDS[kind]

    def work() -> None:
        with at_each_step(lambda: use(client, make, "b")):
            use(client, make, "a")
        assert client._connection.holds.all() == []
        assert not client._connection.watched
        client.close()

    ends(work)


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "read", "write"])
def test_a_lock_is_reentered_at_each_step_of_its_own_with(kind: str) -> None:
    client = steadlock.connect("memory://")
    make = KINDS[kind]

    def work() -> None:
        scope = make(client, "a")
        with at_each_step(lambda: use(client, make, "a")), scope:
            pass
        assert client._connection.holds.all() == []
        assert client.lock("a").try_acquire() is not None
        client.close()

    ends(work)


def test_each_call_works_at_each_step_of_the_same_call() -> None:
    client = steadlock.connect("memory://", metrics=True)

    def work() -> None:
        def use_everything(name: str = "a") -> None:
            lock = client.lock(name)
            assert lock.acquire()
            assert lock.owned()
            assert lock.lease is not None
            lock.lease.extend()
            assert not lock.lease.lost.is_set()
            assert lock.locked()
            assert lock.release() == "released"
            assert client.semaphore(name + ":seats", 3).available() == 3
            assert client.metrics()
            repr(lock)

        with at_each_step(lambda: use_everything("b")):
            use_everything()
        assert client._connection.holds.all() == []
        client.close()

    ends(work)


def test_a_loss_is_reported_once_even_if_delivery_is_reentered_at_each_step() -> None:
    client = steadlock.connect("memory://")
    events = client._connection.events
    # The client's own thread must not report the losses first.
    events._stopped = True
    reported: list[str] = []

    def lose(name: str) -> steadlock.Lease:
        lease = client.lock(name, lease=0.1).try_acquire(wait=20)
        assert lease is not None
        lease.on_lost(lambda lost: reported.append(lost.name))
        assert lease.lost is lease.lost
        eventually(10, lambda: lease.lost_reason is not None)
        return lease

    def work() -> None:
        leases = [lose("a"), lose("b")]
        with at_each_step(events.deliver):
            events.deliver()
        events.deliver()
        assert sorted(reported) == ["a", "b"]
        assert all(lease.lost.is_set() for lease in leases)
        assert not events._batches
        client.close()

    ends(work)


def test_close_and_locks_work_at_each_step_of_close() -> None:
    client, other = steadlock.connect("memory://"), steadlock.connect("memory://")

    def work() -> None:
        def reenter() -> None:
            use(other, KINDS["lock"], "b")
            client.close()

        client.lock("a").acquire()
        with at_each_step(reenter):
            client.close()
        other.close()

    ends(work)


def test_a_new_thread_is_one_owner_even_if_it_was_interrupted() -> None:
    client = steadlock.connect("memory://")
    lock = client.lock("a")
    left: list[steadlock.Lease | None] = []

    def acquire() -> None:
        if not left:
            left.append(None)
            left[0] = lock.try_acquire()

    def work() -> None:
        with at_each_step(acquire):
            assert lock.lease is None or lock.lease is left[0]
        assert lock.owned()
        assert lock.release() == "released"
        client.close()

    ends(work)


def test_telemetry_is_called_at_each_step_of_itself() -> None:
    collected = Collected()
    client = steadlock.connect("memory://", metrics=True)
    collected.instrument(client)

    def work() -> None:
        with at_each_step(lambda: use(client, KINDS["lock"], "b")):
            use(client, KINDS["lock"], "a")
            assert collected.numbers("steadlock.acquisitions")
        client.close()

    ends(work)
    spans = collected.holds()
    assert [span for span in spans if span.end_time is None] == []


def test_another_client_is_instrumented_at_each_step_of_instrument() -> None:
    collected = Collected()
    clients = [steadlock.connect("memory://", metrics=True) for _ in range(2)]
    used: list[steadlock.Client] = []

    def reenter() -> None:
        with steadlock.connect("memory://", metrics=True) as client:
            collected.instrument(client)
            use(client, KINDS["lock"], "b")
        used.append(client)

    def work() -> None:
        with at_each_step(reenter):
            for client in clients:
                collected.instrument(client)
        for client in clients:
            use(client, KINDS["lock"], "a")
        numbers = collected.numbers("steadlock.acquisitions")
        assert sum(numbers.values()) == len(clients) + len(used)
        for client in clients:
            client.close()

    ends(work)


def test_the_log_is_written_at_each_step_of_writing(caplog: pytest.LogCaptureFixture) -> None:
    from steadlock import _log

    def line(text: str) -> list[Any]:
        return [("warn", text, {"event": text})]

    def work() -> None:
        with at_each_step(lambda: _log.write(line("inner"))):
            _log.write(line("outer"))
            _log.flush(0)
        eventually(10, lambda: not _log.is_behind())

    ends(work)
    events = [vars(record)["event"] for record in caplog.records]
    assert events.count("outer") == 1
    assert events.count("inner") > 3


async def test_tasks_work_while_finalizers_use_blocking_clients_at_each_step() -> None:
    blocking = steadlock.connect("memory://")
    async with aio.connect("memory://", metrics=True) as client:
        left: list[aio.Lease] = []

        def reenter() -> None:
            with blocking.lock("b"):
                pass
            client.metrics()
            if left:
                # Releases like a finalizer, which cannot await.
                left.pop().release().close()

        lock = client.lock("a")
        for _ in range(20):
            lease = await client.lock("c").try_acquire(wait=5)
            assert lease is not None
            left.append(lease)
            with at_each_step(reenter):
                async with asyncio.timeout(SOON), lock:
                    pass
        assert client._connection.holds.all() == []
        assert not await client.lock("c").locked()
    blocking.close()


async def test_an_interrupt_during_delivery_loses_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    async with aio.connect("memory://") as client:
        loop = asyncio.get_running_loop()
        interrupts: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: interrupts.append(context))
        mailbox = client._connection.mailbox
        settle_futures = mailbox._settle_futures

        def interrupt() -> None:
            monkeypatch.setattr(mailbox, "_settle_futures", settle_futures)
            raise TimeoutError("a soft limit")

        monkeypatch.setattr(mailbox, "_settle_futures", interrupt)
        names = [f"{number}" for number in range(5)]
        async with asyncio.timeout(SOON):
            assert await asyncio.gather(*(client.lock(name).acquire() for name in names)) == [True] * 5
        assert len(interrupts) == 1


def test_an_interrupt_while_exceptions_are_made_loses_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with steadlock.connect("memory://") as client:
        native = client._connection.native
        client.lock("a").acquire()
        from steadlock._settings import LockSettings

        settings = LockSettings.for_kind("lock", "a", 0, None, False, None, True, None)
        numbers = [native.submit_acquire(settings, owner) for owner in (1, 2)]
        moments = 0

        def interrupt(frame: FrameType, event: str, _: object) -> None:
            nonlocal moments
            if event == "call" and frame.f_code.co_filename.endswith("errors.py"):
                moments += 1
                if moments == 2:
                    raise TimeoutError("a soft limit")

        done: list[int] = []

        def drain() -> bool:
            done.extend(number for number, _, _ in native.drain()[0])
            return set(numbers) <= set(done)

        monkeypatch.setattr(client._connection.events, "deliver", lambda: None)
        monkeypatch.setattr(client._connection.events, "_stopped", True)
        time.sleep(0.05)
        sys.setprofile(interrupt)
        try:
            with pytest.raises(TimeoutError):
                eventually(10, lambda: drain() and False)
        finally:
            sys.setprofile(None)
        eventually(10, drain)
        assert sorted(done) == sorted(numbers)


def test_a_signal_handler_uses_a_lock_during_the_main_threads_call(url: str) -> None:
    with steadlock.connect(url) as client:
        came = 0

        def handle(*_: object) -> None:
            nonlocal came
            came += 1
            with client.lock("b"):
                pass

        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
            end = time.monotonic() + 10
            while came < 500 and time.monotonic() < end:
                with client.lock("a"):
                    pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert came > 10
        assert client._connection.holds.all() == []


def test_a_signal_handler_waits_for_a_lock_while_the_main_thread_waits(url: str) -> None:
    with steadlock.connect(url) as client:
        is_free = threading.Event()
        are_held = threading.Event()

        def hold() -> None:
            with client.lock("a"), client.lock("b"):
                are_held.set()
                is_free.wait(SOON)

        entered: list[str] = []

        def handle(*_: object) -> None:
            threading.Timer(0.05, is_free.set).start()
            with client.lock("b"):
                entered.append("b")

        holder = threading.Thread(target=hold)
        holder.start()
        are_held.wait(SOON)
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with client.lock("a"):
                entered.append("a")
        finally:
            signal.signal(signal.SIGALRM, before)
        holder.join()
        assert entered == ["b", "a"]


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "read", "write", "mutex"])
def test_a_signal_handler_waits_for_the_same_lock_as_the_main_thread(url: str, kind: str) -> None:
    """Either of the two waits can be granted first. The other one then re-enters, or is refused for a mutex."""
    make = KINDS[kind]
    if url == "memory://":
        url += "wanted-twice"
    is_free, is_held = threading.Event(), threading.Event()
    entered: list[str] = []
    with steadlock.connect(url) as client, steadlock.connect(url) as other:

        def hold() -> None:
            with KINDS["write" if kind == "read" else kind](other, "a"):
                is_held.set()
                is_free.wait(SOON)

        def handle(*_: object) -> None:
            threading.Timer(0.05, is_free.set).start()
            try:
                with make(client, "a"):
                    entered.append("handler")
            except steadlock.InvalidArgumentError:
                entered.append("refused")

        holder = threading.Thread(target=hold)
        holder.start()
        assert is_held.wait(SOON)
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with make(client, "a"):
                entered.append("main")
        finally:
            signal.signal(signal.SIGALRM, before)
        holder.join()
        assert entered in (["handler", "main"], ["refused", "main"] if kind == "mutex" else [])
        assert client._connection.holds.all() == []


WAITING_IN_THE_FIRST_WAIT = """
import steadlock, sys, threading
client = steadlock.connect("memory://")
held, leave = threading.Event(), threading.Event()
def hold():
    with client.lock("a"), client.lock("b"):
        held.set()
        leave.wait()
def audit_hook(event, _):
    if event in ("compile", "exec", "import"):
        client.lock("b").try_acquire(wait=0.2)
threading.Thread(target=hold, daemon=True).start()
held.wait()
sys.addaudithook(audit_hook)
assert client.lock("a").try_acquire(wait=0.3) is None
leave.set()
with client.lock("a"):
    print("went on")
"""


def test_a_wait_inside_the_first_wait_of_a_program_does_not_hang() -> None:
    # If an object were made in the first wait of a process, code that interrupts that wait would wait for the object.
    command = [sys.executable, "-c", WAITING_IN_THE_FIRST_WAIT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


class Cycle:
    """An object in a reference cycle that releases its lease when it is collected."""

    def __init__(self, lease: steadlock.Lease | None) -> None:
        self._lease = lease
        self._me = self

    def __del__(self) -> None:
        if self._lease is not None:
            self._lease.release()


def test_finalizers_release_during_acquisitions() -> None:
    client = steadlock.connect("memory://")

    def work() -> None:
        for number in range(3_000):
            Cycle(client.lock(f"{number}").try_acquire())
            # Since Python 3.14, the number of new objects triggers a collection.
            _ = [[number] for _ in range(20)]
        gc.collect()

    before = gc.get_threshold()
    gc.set_threshold(7, 2, 2)
    try:
        ends(work)
    finally:
        gc.set_threshold(*before)
    eventually(10, lambda: client._connection.holds.all() == [])
    client.close()


def test_a_fork_at_each_step_leaves_a_working_child(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client:
        moments = iter(range(10**6))
        failed: list[int] = []

        def fork() -> None:
            if next(moments) % 7:
                return
            child = os.fork()
            if child == 0:
                sys.settrace(None)
                try:
                    with client.lock("child"):
                        pass
                    os._exit(0 if client._connection.holds.all() == [] else 1)
                except BaseException:
                    os._exit(2)
            _, status = os.waitpid(child, 0)
            failed.extend([status] if status else [])

        with at_each_step(fork), client.lock("a"):
            pass
        assert failed == []
        assert not store.exists("a")
        assert not store.exists("child")


FIRST_SUBMISSION = """
import sys, threading
from steadlock import _native

class Request:
    def __init__(self):
        # The removal of the first number takes so long that the other thread requests the GIL meanwhile.
        self.numbers = list(range(10_000_000))
        self.all = len(self.numbers)
        self.submit, self.args, self.number = self.numbers.pop, (0,), None

waiting, request, unfiled = {}, Request(), []
sys.setswitchinterval(1e-6)
begun, ended = threading.Event(), threading.Event()
def look():
    begun.set()
    while not ended.is_set():
        if len(request.numbers) < request.all and not waiting:
            unfiled.append(True)
watcher = threading.Thread(target=look)
watcher.start()
begun.wait()
_native.submit(waiting, request)
ended.set()
watcher.join()
assert waiting == {0: request}
assert not unfiled
"""


def test_the_first_request_of_a_process_is_submitted_and_stored_atomically() -> None:
    """Another thread can take the result at once, and must find the request."""
    command = [sys.executable, "-c", FIRST_SUBMISSION]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(0)  # The subprocess has its own limit.
@pytest.mark.parametrize("sort", ["threads", "tasks", "greenlets"])
def test_nothing_hangs_and_nothing_stays_held_in_a_storm(server: RedisServer, sort: str) -> None:
    seconds = os.environ.get("STEADLOCK_STORM_SECONDS", "8")
    command = [sys.executable, str(Path(__file__).with_name("storm.py")), server.url, sort, seconds]
    done = subprocess.run(command, capture_output=True, text=True, timeout=float(seconds) + 300, check=False)
    assert done.returncode == 0, done.stderr[-8_000:]
    assert "passed" in done.stdout
