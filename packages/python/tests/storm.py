"""A program whose code interrupts the package's code at random moments. `test_interrupted.py` runs it.

    storm.py URL threads|tasks|greenlets SECONDS

Signal handlers, finalizers, tracers, audit hooks, log handlers, callbacks and forks call the clients again, and
exceptions are raised in threads anywhere. No call may hang, and at the end no lock may be held.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import itertools
import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

URL, CALLERS = sys.argv[1:3]
SECONDS = float(sys.argv[3])
STALL_LIMIT = 40
"""The seconds without a step after which the program counts as hanging."""

if CALLERS == "greenlets":
    import gevent
    from gevent import monkey

    monkey.patch_all()

import redis  # noqa: E402 - it must be imported after the patch

import steadlock  # noqa: E402
from steadlock import aio  # noqa: E402

END = time.monotonic() + SECONDS
FINALIZERS_WAIT = CALLERS != "greenlets" or sys.version_info < (3, 14)
"""Whether finalizers may wait. CPython 3.14 crashes when greenlets are switched during a garbage collection, also
without this package.
"""
PACKAGE = str(Path(steadlock.__file__).parent)
NAMES = [f"storm:{number}" for number in range(6)]
counts: dict[str, int] = {}
client = steadlock.connect(URL, lease=2, metrics=True)
second = steadlock.connect("memory://", metrics=True)
_inside = threading.local()


class InjectedError(Exception):
    """An interrupt: an exception that is raised in a thread at any moment."""


class InjectedLockError(steadlock.UnavailableError):
    """An interrupt with an error of the package, as from code that uses locks itself."""

    def __init__(self) -> None:
        super().__init__("interrupted")


INJECTED_ERRORS = (InjectedError, InjectedLockError)

EXPECTED: tuple[type[Exception], ...] = (
    steadlock.LockTimeoutError,
    steadlock.LockLostError,
    steadlock.NotOwnerError,
    steadlock.ForkedError,
    # On a busy machine an answer can be late.
    steadlock.UnavailableError,
    InjectedError,
)
# Interrupting code is refused if it would wait for the code that it interrupts: a writer for its reader, or a handler
# in a hub for greenlets.
EXPECTED += (steadlock.InvalidArgumentError,)
EXPECTED_IN_TASKS: tuple[type[Exception], ...] = (*EXPECTED, TimeoutError)


def step(what: str) -> None:
    counts[what] = counts.get(what, 0) + 1


def has_time_left() -> bool:
    return time.monotonic() < END


def scope_of(one: steadlock.Client, name: str) -> Any:
    kind = random.randrange(8)
    options: dict[str, Any] = {"wait": 0.2}
    if kind == 0:
        return one.mutex(name + ":mutex", **options)
    if kind == 1:
        return one.fair_lock(name, **options)
    if kind == 2:
        return one.read_write_lock(name + ":rw", **options).read
    if kind == 3:
        return one.read_write_lock(name + ":rw", **options).write
    if kind == 4:
        return one.semaphore(name + ":seats", 3, **options)
    if kind == 5:
        return one.multi_lock([one.lock(name + ":1"), one.mutex(name + ":2")], **options)
    return one.lock(name, **options)


class CallsInFinalizer:
    """An object in a reference cycle that calls a client when it is collected."""

    def __init__(self, lease: steadlock.Lease | None) -> None:
        self._lease = lease
        self._me = self

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing():
            return
        try:
            if FINALIZERS_WAIT:
                reenter("finalizers")
            else:
                step("finalizers")
                client.metrics()
        finally:
            # The lease must be released even after an interrupt: its owner can live on, and no other code could release
            # it.
            if self._lease is not None:
                # At this depth, the signal handler raises no interrupt that would prevent the release.
                depth, _inside.depth = getattr(_inside, "depth", 0), 1
                with suppress(*EXPECTED):
                    self._lease.release()
                _inside.depth = depth


def reenter(what: str) -> None:
    """The interrupting code: it calls a client, unless it is nested three times or the time is over. After the end, a
    lock that it holds for a moment would count as left behind.
    """
    depth = getattr(_inside, "depth", 0)
    if depth > 2 or not has_time_left():
        return
    _inside.depth = depth + 1
    try:
        step(what)
        one = random.choice((client, second))
        choice = random.randrange(6)
        if choice == 0:
            one.metrics()
        elif choice == 1:
            one.lock(random.choice(NAMES)).locked()
        elif choice == 2:
            one._connection.events.deliver()
        else:
            with suppress(*EXPECTED), scope_of(one, f"reenter:{random.randrange(4)}"):
                pass
    finally:
        _inside.depth = depth


def work_once(one: steadlock.Client) -> None:
    choice = random.randrange(6)
    name = random.choice(NAMES)
    if choice == 0 and FINALIZERS_WAIT:
        CallsInFinalizer(one.lock(f"{name}:left:{random.randrange(1000)}").try_acquire(wait=0.2))
    elif choice == 1:
        # This lock needs a name of its own: if an auto-renewed lease re-entered the hold, the hold would be renewed
        # until its last level is released.
        lease = one.lock(f"{name}:fixed").try_acquire(wait=0.2, lease=0.2)
        if lease is not None:
            lease.on_lost(lambda _: reenter("callbacks"))
            if random.random() < 0.9:
                lease.release()
    else:
        with scope_of(one, name) as lease:
            lease.on_lost(lambda _: reenter("callbacks"))
            if random.random() < 0.1:
                reenter("bodies")
    step("work")


def trace(frame: Any, event: str, _: object) -> Any:
    if "steadlock" in frame.f_code.co_filename and random.random() < 0.003:
        reenter("tracers")
    return trace


class CallingHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if random.random() < 0.2:
            reenter("logs")


def audit_hook(event: str, _: object) -> None:
    is_ours = event in ("object.__getattr__", "gc.get_objects", "time.sleep", "_thread.start_new_thread", "os.fork")
    if is_ours and random.random() < 0.05 and not sys.is_finalizing():
        reenter("audits")


def handle(_: int, frame: FrameType | None) -> None:
    """The signal handler. It sometimes raises inside the package's own code."""
    reenter("signals")
    signal.setitimer(signal.ITIMER_REAL, random.random() * 0.004 + 0.0002)
    is_inside = frame is not None and frame.f_code.co_filename.startswith(PACKAGE)
    if is_inside and not getattr(_inside, "depth", 0) and has_time_left() and random.random() < 0.1:
        step("interrupts by signals")
        raise random.choice(INJECTED_ERRORS)


def fork() -> None:
    child = os.fork()
    if child == 0:
        try:
            # The signal ends a hanging child. `faulthandler` would wait for its parent's thread.
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(STALL_LIMIT)
            assert client._connection.holds.all() == []
            with client.lock(f"child:{os.getpid()}", wait=20):
                pass
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    step("forks")
    assert status == 0, status


def repeat_until_end(work: Callable[[], None], failed: list[BaseException]) -> None:
    """Repeats `work` until the end. Catches interrupts that come between two calls."""
    while has_time_left():
        try:
            while has_time_left():
                work()
        except EXPECTED:
            step("expected")
        except BaseException as error:
            failed.append(error)
            return


def interrupt_threads(threads: list[threading.Thread]) -> None:
    for thread in threads:
        if thread.ident is not None and thread.is_alive() and has_time_left():
            step("interrupts")
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident), ctypes.py_object(random.choice(INJECTED_ERRORS))
            )


def storm_of_threads() -> list[BaseException]:
    failed: list[BaseException] = []

    def traced() -> None:
        sys.settrace(trace)
        repeat_until_end(lambda: work_once(client), failed)
        sys.settrace(None)

    def plain() -> None:
        repeat_until_end(lambda: work_once(random.choice((client, second))), failed)

    interrupted = [threading.Thread(target=plain) for _ in range(3)]
    others = [threading.Thread(target=traced), threading.Thread(target=plain)]
    for thread in interrupted + others:
        thread.start()
    sys.addaudithook(audit_hook)
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    for round_ in itertools.count():
        if not has_time_left() or failed:
            break
        with suppress(*EXPECTED):
            work_once(client)
        if round_ % 20 == 0:
            interrupt_threads(interrupted)
        if round_ % 50 == 25:
            fork()
    signal.setitimer(signal.ITIMER_REAL, 0)
    for thread in interrupted + others:
        thread.join()
    return failed


def storm_of_tasks() -> list[BaseException]:
    failed: list[BaseException] = []

    async def work(one: aio.Client) -> None:
        while has_time_left() and not failed:
            name = f"tasks:{random.randrange(8)}"
            try:
                if random.random() < 0.2:
                    lease = await one.lock(name).try_acquire(wait=0.2)
                    while lease is not None:
                        # If an interrupt comes before the release begins, this code must repeat the call.
                        with suppress(*EXPECTED):
                            await lease.release()
                            break
                else:
                    async with asyncio.timeout(random.random()), one.lock(name) as entered:
                        entered.on_lost(lambda _: reenter("callbacks"))
                        await asyncio.sleep(0)
                step("tasks")
            except EXPECTED_IN_TASKS:
                step("expected")
            except BaseException as error:
                failed.append(error)
            left.append(CallsInFinalizer(None))
            if len(left) > 20:
                left.clear()

    left: list[CallsInFinalizer] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: step("in callbacks"))
        async with aio.connect(URL, lease=2, metrics=True) as one:
            signal.signal(signal.SIGALRM, handle)
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            await asyncio.gather(*(work(one) for _ in range(8)))
            assert one._connection.holds.all() == []

    asyncio.run(run())
    signal.setitimer(signal.ITIMER_REAL, 0)
    return failed


def storm_of_greenlets() -> list[BaseException]:
    failed: list[BaseException] = []
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001)

    def work() -> None:
        with gevent.Timeout(random.random(), InjectedError):
            work_once(client)

    greenlets = [gevent.spawn(repeat_until_end, work, failed) for _ in range(8)]
    gevent.joinall(greenlets)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return failed


def watch() -> None:
    """Ends the program if it makes no progress any more."""
    seen = dict(counts)
    while True:
        time.sleep(1)
        if dict(counts) != seen:
            seen = dict(counts)
            faulthandler.cancel_dump_traceback_later()
            faulthandler.dump_traceback_later(STALL_LIMIT, exit=True)


def held() -> list[steadlock.Lease]:
    """Returns the leases that are not released, except fixed leases that have expired."""
    return [lease for lease in client._connection.holds.all() if not lease._native.is_forgotten]


def is_free() -> bool:
    """Returns whether the server has no record of a lock. Ignores the keys of client information and of tokens."""
    server = redis.Redis.from_url(URL)
    left = [key for key in server.scan_iter() if not key.startswith(b"steadlock:")]
    if left:
        print("left:", left, file=sys.stderr)
    return not left


def main() -> None:
    faulthandler.dump_traceback_later(STALL_LIMIT, exit=True)
    warnings.simplefilter("ignore")
    logging.getLogger("steadlock").addHandler(CallingHandler())
    logging.getLogger("steadlock").setLevel(logging.DEBUG)
    if CALLERS != "greenlets":
        threading.Thread(target=watch, daemon=True).start()
    else:
        faulthandler.cancel_dump_traceback_later()
        faulthandler.dump_traceback_later(SECONDS + STALL_LIMIT, exit=True)
    gc.set_threshold(5, 2, 2)
    storms = {"threads": storm_of_threads, "tasks": storm_of_tasks, "greenlets": storm_of_greenlets}
    failed = storms[CALLERS]()
    gc.set_threshold(700, 10, 10)
    gc.collect()
    logging.getLogger("steadlock").setLevel(logging.ERROR)
    for error in failed:
        traceback.print_exception(error)
    assert not failed
    end = time.monotonic() + 20
    while held() and time.monotonic() < end:
        # A collection does nothing while another thread runs one.
        gc.collect()
        time.sleep(0.05)
    assert not held(), held()
    while not is_free() and time.monotonic() < end:
        time.sleep(0.1)
    assert is_free()
    client.close()
    second.close()
    print("passed", counts)


main()
