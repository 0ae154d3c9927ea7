"""Tests that a caller which stops waiting leaves nothing on the server."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import Context
from itertools import count
from pathlib import Path
from types import FrameType

import pytest
from servers import RedisServer, Store, eventually, store_of

import steadlock
from steadlock import aio

OTHER_OWNER = "00000000-0000-4000-8000-000000000002:1"


def occupy(store: Store, milliseconds: int = 60_000) -> None:
    store.hset("door", OTHER_OWNER, "1")
    store.pexpire("door", milliseconds)


def has_no_record_of_ours(store: Store) -> bool:
    return set(store.hgetall("door")) <= {OTHER_OWNER}


async def earlier_requests_are_answered(lock: aio.Lock) -> bool:
    """Returns whether the lock is held. The server answers in order, so it has answered earlier requests by then."""
    await asyncio.sleep(0)
    return await lock.locked()


async def test_wait_for_times_out_and_leaves_no_record(server: RedisServer, store: Store) -> None:
    occupy(store)
    async with aio.connect(server.url) as client:
        lock = client.lock("door")
        waiting = asyncio.create_task(asyncio.wait_for(lock.acquire(), 0.5))
        # Before Python 3.12, `wait_for` starts a task, which sends its request after the first of these calls.
        for _ in range(2):
            assert await earlier_requests_are_answered(lock)
        with pytest.raises(TimeoutError):
            await waiting
        store.delete("door")
        assert not await earlier_requests_are_answered(lock)
        async with lock:
            pass


async def test_a_cancelled_wait_does_not_block_the_next_waiter(aclient: aio.Client) -> None:
    lock = aclient.lock("door")

    async def enter() -> str:
        async with lock:
            return "entered"

    async with lock:
        first, second = asyncio.create_task(enter()), asyncio.create_task(enter())
        assert await earlier_requests_are_answered(lock)
        first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await asyncio.wait_for(second, 5) == "entered"


async def test_cancelling_at_any_time_leaves_no_key(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url) as client:
        lock = client.lock("door")
        for round_ in range(300):
            task = asyncio.ensure_future(lock.acquire())
            for _ in range(round_ % 12):
                await asyncio.sleep(0.0001 if round_ % 5 == 0 else 0)
            if not task.cancel():
                assert await task
                await lock.release()
                continue
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.to_thread(eventually, 20, lambda: not store.exists("door"))


async def test_a_release_continues_if_its_caller_is_cancelled(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url) as client:
        lock = client.lock("door")
        await lock.acquire()
        task = asyncio.ensure_future(lock.release())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not lock.owned()
        await lock.locked()
        assert not store.exists("door")


async def test_a_cancelled_scope_releases_the_lock(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url) as client:

        async def stay() -> None:
            async with asyncio.timeout(None) as limit, client.lock("door"):
                limit.reschedule(asyncio.get_running_loop().time())
                await asyncio.sleep(30)

        with pytest.raises(TimeoutError):
            await stay()
        assert not store.exists("door")


@pytest.mark.timing
def test_a_wait_ends_at_its_deadline(server: RedisServer, store: Store) -> None:
    occupy(store)
    with steadlock.connect(server.url) as client:
        started = time.monotonic()
        assert client.lock("door").try_acquire(wait=0.3) is None
        assert 0.3 <= time.monotonic() - started < 0.35


@pytest.mark.timing
def test_a_wait_ends_at_its_deadline_even_if_the_server_is_stopped(own_server: RedisServer) -> None:
    with steadlock.connect(own_server.url, command_timeout=0.5) as client:
        lock = client.lock("door")
        with own_server.paused():
            started = time.monotonic()
            with pytest.raises(steadlock.UnavailableError):
                lock.try_acquire(wait=0.3)
            assert time.monotonic() - started < 0.35
            started = time.monotonic()
            with pytest.raises(steadlock.UnavailableError):
                lock.try_acquire()
            assert time.monotonic() - started < 0.55
        with store_of(own_server) as store:
            eventually(5, lambda: not store.exists("door"))


INTERRUPTED = """
import signal, sys, time, steadlock
url, call = sys.argv[1:]
client = steadlock.connect(url)
lock = client.lock("door")
print("waiting", flush=True)
try:
    {"acquire": lock.acquire, "with": lock.__enter__, "try": lambda: lock.try_acquire(wait=60)}[call]()
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
# Stays alive, because the end of the process would clean up after the wait.
sys.stdin.read()
"""


@pytest.mark.timing
@pytest.mark.parametrize("call", ["acquire", "with", "try"])
def test_ctrl_c_ends_a_wait_within_100_ms(server: RedisServer, store: Store, call: str) -> None:
    occupy(store)
    command = [sys.executable, "-c", INTERRUPTED, server.url, call]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "waiting\n"
        eventually(5, lambda: store.pubsub_numsub("redisson_lock__channel:{door}")[0][1] == 1)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert float(process.stdout.readline()) - sent < 0.1
        store.delete("door")
        store.publish("redisson_lock__channel:{door}", "0")
        # No waiter is left, so the subscription ends, one second later.
        eventually(5, lambda: store.pubsub_numsub("redisson_lock__channel:{door}")[0][1] == 0)
        assert not store.exists("door")
        process.stdin.close()
        assert process.wait(5) == 0


def test_interrupts_at_any_time_leave_no_key(server: RedisServer, store: Store) -> None:
    # Signals come between any two byte codes: before, during and after the native call.
    is_armed = False

    def interrupt(*_: object) -> None:
        # If another thread gets the signal, it can come after the timer was stopped.
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise InjectedError

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupts = 0
    try:
        with steadlock.connect(server.url) as client:
            lock = client.lock("door")
            for round_ in range(300):
                try:
                    is_armed = True
                    signal.setitimer(signal.ITIMER_REAL, 0.00002 + (round_ % 60) * 0.00001)
                    lease = lock.try_acquire()
                    is_armed = False
                except InjectedError:
                    interrupts += 1
                    lease = lock.lease
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                if lease is not None:
                    lease.release()
            assert interrupts > 10
            eventually(20, lambda: not store.exists("door"))
            assert client._connection.holds.all() == []
    finally:
        signal.signal(signal.SIGALRM, before)


class InjectedError(Exception):
    """The exception of the signal handlers."""


class InterruptAt:
    """A profiler that raises once, at the moment with this number. The moments are those at which Python would run a
    signal handler: at the start of a function, and after each call of a native one. Counts only moments in these files.
    """

    def __init__(self, moment: int, error: type[Exception] | None = None, *files: str) -> None:
        self.moment = moment
        self._files = files or (PACKAGE,)
        self._left = moment
        self._error = error or InjectedError
        self.has_raised = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(self._files):
            return
        self._left -= 1
        if self._left < 0 and not self.has_raised:
            self.has_raised = True
            raise self._error("interrupted")


PACKAGE = str(Path(steadlock.__file__).parent)
SCOPES: dict[str, Callable[[steadlock.Client], AbstractContextManager[steadlock.Lease]]] = {
    "lock": lambda client: client.lock("door"),
    "hold": lambda client: client.lock("door").hold(wait=5),
    "mutex": lambda client: client.mutex("door"),
    "semaphore": lambda client: client.semaphore("door", 1),
}


def interrupts_at_each_step(error: type[Exception] = InjectedError, *files: str) -> Iterator[InterruptAt]:
    """Yields an `InterruptAt` for each moment, until the moments are exhausted. Garbage collection is off, so that no
    finalizer of an earlier test is interrupted.
    """
    gc.collect()
    gc.disable()
    try:
        for moment in count():
            interrupt = InterruptAt(moment, error, *files)
            yield interrupt
            sys.setprofile(None)
            if not interrupt.has_raised:
                assert moment > 10
                return
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [InjectedError, steadlock.LockTimeoutError, steadlock.UnavailableError])
@pytest.mark.parametrize("kind", SCOPES)
def test_an_interrupt_at_each_step_of_with_leaves_nothing_held(
    client: steadlock.Client, kind: str, error: type[Exception]
) -> None:
    # A signal handler that uses locks can raise the package's own errors.
    is_left: list[bool] = []
    for interrupt in interrupts_at_each_step(error):
        scope = SCOPES[kind](client)
        sys.setprofile(interrupt)
        try:
            with scope:
                pass
            is_left.append(True)
        except error:
            is_left.append(False)
        sys.setprofile(None)
        assert not client.lock("door").locked()
        assert client._connection.holds.all() == []
        assert scope._entered == []  # type: ignore[attr-defined]
    assert is_left == [False] * (len(is_left) - 1) + [True]


def test_losses_are_reported_after_an_interrupted_thread_start(caplog: pytest.LogCaptureFixture) -> None:
    # The moments include those inside `Thread.start`, where an interrupt ends the thread that was started.
    caplog.set_level(logging.CRITICAL, "steadlock")
    for interrupt in interrupts_at_each_step(InjectedError, threading.__file__, PACKAGE):
        reported: list[object] = []
        with steadlock.connect("memory://") as client:
            lease = client.lock("door", max_hold=0.1).try_acquire(wait=20)
            assert lease
            assert not client._connection.events._thread.is_running()
            sys.setprofile(interrupt)
            with suppress(InjectedError):
                lease.on_lost(lambda _: None)
            sys.setprofile(None)
            lease.on_lost(reported.append)
            eventually(10, reported.copy)


@pytest.mark.parametrize("error", [InjectedError, steadlock.UnavailableError])
@pytest.mark.parametrize("kind", ["lock", "hold"])
async def test_an_interrupt_at_each_step_of_async_with_leaves_nothing_held(
    aclient: aio.Client, kind: str, error: type[Exception]
) -> None:
    # The task must go on, because its end would release the leases that the client still has.
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    is_left: list[bool] = []
    for interrupt in interrupts_at_each_step(error):
        lock = aclient.lock("door")
        scope = lock if kind == "lock" else lock.hold(wait=5)
        loop.call_soon(sys.setprofile, interrupt)
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            try:
                async with scope:
                    pass
                is_left.append(True)
            except error:
                is_left.append(False)
            sys.setprofile(None)
            # If the interrupt came after the request was sent, the lock is granted and released at once.
            while await lock.locked():  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert aclient._connection.holds.all() == []
        assert lock._entered == {}
    assert False in is_left
    assert is_left[-1]


async def test_a_loss_is_reported_despite_an_interrupt_at_each_step() -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    task = asyncio.current_task()
    assert task is not None
    async with aio.connect("memory://") as client:
        for interrupt in interrupts_at_each_step():
            reported: list[object] = []
            # A scope that the loss does not end would wait for ever.
            async with asyncio.timeout(10):
                with suppress(InjectedError, steadlock.LockLostError):
                    async with client.lock("door", lease=0.3).hold() as lease:
                        lease.on_lost(reported.append)
                        sys.setprofile(interrupt)
                        await asyncio.Event().wait()
            sys.setprofile(None)
            assert task.cancelling() == 0, interrupt.moment
            assert reported, interrupt.moment


@pytest.mark.filterwarnings("ignore:lock .* was still held:RuntimeWarning")
async def test_a_client_works_after_an_interrupt_in_its_loop(aclient: aio.Client) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)

    async def use(number: int) -> None:
        with suppress(InjectedError):
            async with aclient.lock(f"door:{number}"):
                await asyncio.sleep(0)

    for interrupt in interrupts_at_each_step():
        loop.call_soon(sys.setprofile, interrupt)
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await asyncio.gather(*(use(number) for number in range(3)))
            sys.setprofile(None)
            for number in range(3):
                assert await aclient.lock(f"door:{number}").acquire(timeout=5)
                assert await aclient.lock(f"door:{number}").release() == "released"


def test_an_interrupt_at_the_end_of_an_inner_with_keeps_the_outer_lease(client: steadlock.Client) -> None:
    lock = client.lock("door")
    for interrupt in interrupts_at_each_step():
        with lock as outer:
            try:
                with lock as inner:
                    sys.setprofile(interrupt)
            except InjectedError:
                pass
            sys.setprofile(None)
            assert lock.locked()
            assert outer.is_valid()
            assert not inner.is_valid()
            assert lock.lease is outer
        assert not lock.locked()


def test_an_interrupt_at_the_end_of_with_has_the_error_of_the_body_as_context(client: steadlock.Client) -> None:
    body = ValueError()
    interrupt = InterruptAt(0)

    def fail() -> None:
        with ExitStack() as stack:
            stack.enter_context(client.lock("door"))
            stack.callback(sys.setprofile, interrupt)
            raise body

    with pytest.raises(InjectedError) as caught:
        fail()
    sys.setprofile(None)
    assert caught.value.__context__ is body
    assert not client.lock("door").locked()


def test_one_exception_raised_twice_is_not_its_own_context(
    client: steadlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = TimeoutError("soft limit")
    find = steadlock.Lock._innermost_scope
    left = [limit, limit]

    def find_or_raise(lock: steadlock.Lock) -> steadlock.Lease | None:
        if left:
            raise left.pop()
        return find(lock)

    lock = client.lock("door")
    monkeypatch.setattr(steadlock.Lock, "_innermost_scope", find_or_raise)
    with pytest.raises(TimeoutError) as caught, lock:
        pass
    assert caught.value is limit
    assert limit.__context__ is not limit
    assert not lock.locked()


def test_an_error_at_the_end_of_with_has_the_handled_exception_as_context(client: steadlock.Client) -> None:
    lock = client.lock("door", lease=0.1)
    around = ValueError()

    def lose() -> None:
        try:
            raise around
        except ValueError:
            with lock as lease:
                assert lease.lost.wait(10)

    with pytest.raises(steadlock.LockLostError) as caught:
        lose()
    assert caught.value.__context__ is around


def test_exit_of_a_scope_is_an_ordinary_method(client: steadlock.Client) -> None:
    lock = client.lock("door")
    assert lock.__exit__.__name__ == "__exit__"
    lock.__enter__()
    lock.__exit__(kind=None, raised=None, traceback=None)  # type: ignore[call-arg]
    assert not lock.locked()
    assert weakref.WeakMethod(lock.__exit__)() is not None


class LimitError(BaseException):
    """The exception of a task queue in the thread of a task that takes too long."""


def raise_in_thread(thread: threading.Thread, error: type[BaseException] | None) -> None:
    """Raises an exception in a thread, as the time limits of Dramatiq do."""
    assert thread.ident is not None
    done = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(error))
    assert done <= 1


def time_to_interrupt(call: Callable[[], object], after: float = 0.3) -> float:
    """Runs `call` in a thread, interrupts it, and returns how long the thread ran after that."""
    ended: list[tuple[BaseException, float]] = []
    begun = threading.Event()

    def work() -> None:
        try:
            begun.set()
            call()
            ended.append((AssertionError("it returned"), 0))
        except BaseException as error:
            ended.append((error, time.monotonic()))

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(10)
    time.sleep(after)
    interrupted_at = time.monotonic()
    raise_in_thread(thread, LimitError)
    thread.join(30)
    error, at = ended[0]
    assert isinstance(error, LimitError), error
    return at - interrupted_at


@pytest.mark.parametrize("call", ["acquire", "with", "try", "permits"])
def test_an_interrupt_by_another_thread_ends_a_wait_and_leaves_nothing(
    server: RedisServer, store: Store, call: str
) -> None:
    occupy(store)
    with steadlock.connect(server.url) as client:
        lock = client.lock("door")
        permits = client.semaphore("permits", 1)
        if call == "permits":
            permits.acquire()
        calls: dict[str, Callable[[], object]] = {
            "acquire": lock.acquire,
            "with": lock.__enter__,
            "try": lambda: lock.try_acquire(wait=60),
            "permits": permits.acquire,
        }
        # This takes about 0.1 s on an idle machine, as with redis-py. An uninterrupted wait would take a minute.
        assert time_to_interrupt(calls[call]) < 15
        assert has_no_record_of_ours(store)
        if call == "permits":
            permits.release()
            assert permits.available() == 1
        store.delete("door")
        assert lock.acquire(timeout=10)
        lock.release()
        assert not store.exists("door")
        assert client._connection.holds.all() == []


@pytest.mark.parametrize("call", ["release", "exit", "extend", "inspect", "close"])
def test_an_interrupt_by_another_thread_ends_an_unanswered_call(own_server: RedisServer, call: str) -> None:
    client = steadlock.connect(own_server.url, command_timeout=20)
    lock = client.lock("door")
    lease = lock.try_acquire()
    scope = client.lock("window").hold()
    scope.__enter__()
    assert lease is not None
    calls: dict[str, Callable[[], object]] = {
        "release": lease.release,
        "exit": lambda: scope.__exit__(None, None, None),
        # The length exceeds the rest of the lease, so that the client makes a server call.
        "extend": lambda: lease.extend(60),
        "inspect": lock.locked,
        "close": client.close,
    }
    with own_server.paused():
        # A close alone takes 0.5 s. An uninterrupted call would take 20 s.
        assert time_to_interrupt(calls[call], 0.05) < 15
    with steadlock.connect(own_server.url) as other:
        if call in ("release", "close"):
            assert other.lock("door").acquire(timeout=10)
        if call in ("exit", "close"):
            assert other.lock("window").acquire(timeout=10)
    client.close()


def test_an_interrupt_by_another_thread_ends_connecting(own_server: RedisServer) -> None:
    with own_server.paused():
        assert time_to_interrupt(lambda: steadlock.connect(own_server.url, connect_timeout=30)) < 15


@pytest.mark.timing
def test_an_interrupt_by_another_thread_ends_a_wait_within_100_ms(server: RedisServer, store: Store) -> None:
    occupy(store)
    with steadlock.connect(server.url) as client:
        assert min(time_to_interrupt(client.lock("door").acquire) for _ in range(3)) < 0.12


def test_an_interrupt_of_the_main_thread_ends_its_wait(server: RedisServer, store: Store) -> None:
    occupy(store)
    with steadlock.connect(server.url) as client:
        main = threading.main_thread()
        timer = threading.Timer(0.3, raise_in_thread, [main, LimitError])
        timer.start()
        with pytest.raises(LimitError):
            client.lock("door").acquire()
        timer.join()


def test_ctrl_c_ends_connecting() -> None:
    program = "import steadlock, sys; steadlock.connect(sys.argv[1], connect_timeout=30)"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        command = [sys.executable, "-c", program, f"redis://127.0.0.1:{silent.getsockname()[1]}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1), "the greeting, which nothing answers"
                process.send_signal(signal.SIGINT)
                _, stderr = process.communicate(timeout=5)
    assert "KeyboardInterrupt" in stderr


def interrupt_each_step_of_end(client: steadlock.Client, end: Callable[[InterruptAt], None]) -> None:
    """Ends owners that hold a lock, each with an interrupt at another moment of the end."""
    lock = client.lock("door")
    moments = count()
    with unraisable() as reported:
        while True:
            interrupt = InterruptAt(next(moments))
            end(interrupt)
            sys.setprofile(None)
            gc.collect()
            eventually(5, lambda: not lock.locked())
            assert client._connection.holds.all() == []
            if not interrupt.has_raised:
                break
    assert next(moments) > 3
    assert InjectedError in reported


@contextmanager
def unraisable() -> Iterator[list[type[BaseException]]]:
    """Collects the types of exceptions that no code can catch."""
    # Stores types, because the tracebacks of the exceptions refer to leases.
    reported: list[type[BaseException]] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda raised: reported.append(raised.exc_type)
    try:
        yield reported
    finally:
        sys.setprofile(None)
        sys.unraisablehook = hook


@pytest.mark.filterwarnings("ignore:lock .* was still held:RuntimeWarning")
def test_an_interrupt_at_the_end_of_a_job_leaves_nothing_held(client: steadlock.Client) -> None:
    def end(interrupt: InterruptAt) -> None:
        context = Context()
        context.run(client.lock("door").acquire)
        sys.setprofile(interrupt)
        del context

    interrupt_each_step_of_end(client, end)


@pytest.mark.filterwarnings("ignore:lock .* was still held:RuntimeWarning")
def test_an_interrupt_at_the_end_of_a_thread_leaves_nothing_held(client: steadlock.Client) -> None:
    def end(interrupt: InterruptAt) -> None:
        def hold() -> None:
            client.lock("door").acquire()
            sys.setprofile(interrupt)

        thread = threading.Thread(target=hold)
        thread.start()
        thread.join()

    interrupt_each_step_of_end(client, end)


@pytest.mark.filterwarnings("ignore:lock .* was still held:RuntimeWarning")
async def test_an_interrupt_at_the_end_of_a_task_leaves_nothing_held(aclient: aio.Client) -> None:
    lock = aclient.lock("door")
    interrupts: list[type[BaseException]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: interrupts.append(type(context["exception"])))

    async def hold(interrupt: InterruptAt) -> None:
        await lock.acquire()
        loop.call_soon(sys.setprofile, interrupt)

    moments = count()
    with unraisable():
        while True:
            interrupt = InterruptAt(next(moments))
            await asyncio.create_task(hold(interrupt))
            # The client learns of the end of that task only after this task has yielded.
            await asyncio.sleep(0)
            sys.setprofile(None)
            gc.collect()
            assert await lock.acquire(timeout=10)
            await lock.release()
            if not interrupt.has_raised:
                break
    assert next(moments) > 3
    assert InjectedError in interrupts
