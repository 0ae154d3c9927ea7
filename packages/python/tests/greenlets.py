"""A program of greenlets: `greenlets.py ORDER CHECK URL`.

ORDER says when the standard library is patched: before the import of steadlock (`patched`), after a client was made
(`late`), or not at all (`unpatched`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import gevent
import gevent.hub
import gevent.os
from gevent import monkey
from gevent.event import Event

ORDER, CHECK, URL = sys.argv[1:]
if ORDER == "patched":
    monkey.patch_all()

import steadlock  # noqa: E402 - it must be imported after the patch

client = steadlock.connect(URL)
if ORDER == "late":
    monkey.patch_all()

lock = client.lock("door")


def until_refused() -> None:
    """Waits until a greenlet waits for the lock and its first attempt was refused."""
    while not client._connection.events.waits._requests:
        gevent.sleep(0.001)
    # The server answers a client's calls in order, so this reply comes after the refusal.
    client.lock("another").locked()


@contextmanager
def others_keep_running() -> Iterator[None]:
    """Asserts that another greenlet of the thread runs during the block."""
    turns = 0

    def count_turns() -> None:
        nonlocal turns
        while True:
            gevent.sleep(0.001)
            turns += 1

    other = gevent.spawn(count_turns)
    gevent.sleep(0.005)
    before = turns
    yield
    # One turn can come after the wait, before this greenlet runs again.
    assert turns > before + 1, "the other greenlets stood still"
    other.kill()


def greenlets_exclude_each_other() -> None:
    inside, stock = 0, 0

    def sell() -> None:
        nonlocal inside, stock
        for _ in range(20):
            with lock:
                inside += 1
                assert inside == 1
                seen = stock
                gevent.sleep(0.001)
                stock = seen + 1
                inside -= 1

    with others_keep_running():
        gevent.joinall([gevent.spawn(sell) for _ in range(10)], raise_error=True)
    assert stock == 200


def greenlets_are_owners() -> None:
    with lock, lock:
        assert lock.owned()
        assert gevent.spawn(lock.owned).get() is False
        assert gevent.spawn(lock.try_acquire).get() is None

        def leave() -> None:
            try:
                lock.release()
            except steadlock.NotOwnerError:
                return
            raise AssertionError("another greenlet released the lock")

        gevent.spawn(leave).get()
        assert lock.owned()
    assert not lock.locked()


def ended_waits_leave_nothing() -> None:
    with lock:
        killed = gevent.spawn(lock.acquire)
        late = gevent.spawn(gevent.with_timeout, 0.15, lock.acquire, timeout_value="late")
        with others_keep_running():
            assert gevent.spawn(lock.try_acquire, 0.15).get() is None
            assert late.get() == "late"
        killed.kill()
    with steadlock.connect(URL) as other:
        # No ended waiter is ahead in the queue.
        assert other.lock("door").acquire(timeout=5) or URL == "memory://"
    assert not client._connection.events.waits._requests
    assert not client._connection.events.waits._hub_listeners


def every_call_lets_others_run() -> None:
    held, is_waited_for = Event(), Event()

    def other_holds() -> None:
        with lock:
            held.set()
            is_waited_for.wait()
            for _ in range(20):
                gevent.sleep(0.001)

    semaphore = client.semaphore("seats", 3)
    with semaphore as lease:
        lease.extend(5)
        assert semaphore.available() == 2
        assert client.set_limit("seats", 4)
    assert not client.force_release(semaphore)
    holder = gevent.spawn(other_holds)
    held.wait()
    with others_keep_running():
        is_waited_for.set()
        assert lock.acquire()
    assert lock.release() == "released"
    holder.get()
    silent = socket.create_server(("127.0.0.1", 0))
    unreachable = f"redis://127.0.0.1:{silent.getsockname()[1]}"
    with others_keep_running():
        try:
            steadlock.connect(unreachable, connect_timeout=0.1)
        except steadlock.UnavailableError:
            pass
        else:
            raise AssertionError("the server does not answer")
    with others_keep_running():
        lazy = steadlock.connect(unreachable, lazy=True)
        with suppress(steadlock.UnavailableError):
            lazy.lock("x").acquire(timeout=0.1)
        lazy.close()
    client.close()
    client.close()


def outages() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    unreachable = f"redis://127.0.0.1:{silent.getsockname()[1]}"
    with steadlock.connect(
        unreachable, lazy=True, connect_timeout=0.1, breaker_failures=1, breaker_pause=60, on_unavailable="skip"
    ) as cut_off:
        skipped = cut_off.lock("door")
        with others_keep_running():
            assert skipped.acquire(timeout=20) is False
        assert skipped.try_acquire() is None
        refused = None
        try:
            skipped.acquire()
        except steadlock.UnavailableError as error:
            refused = error
        assert refused is not None
        assert refused.skipped
        local = cut_off.lock("door", on_unavailable="local")
        with local as lease:
            assert lease.degraded
            waiter = gevent.spawn(local.acquire)
            assert gevent.spawn(local.try_acquire).get(timeout=20) is None
        assert waiter.get(timeout=20)


def losses_are_reported() -> None:
    reported: list[steadlock.Lease] = []

    def on_lost(lease: steadlock.Lease) -> None:
        gevent.sleep(0.001)
        reported.append(lease)

    lease = lock.try_acquire(wait=20, lease=0.3)
    assert lease is not None
    lease.on_lost(on_lost)
    with others_keep_running():
        while not reported:
            gevent.sleep(0.001)
    assert lease.lost.wait(10)
    assert reported == [lease]


class BlockingHandler(logging.Handler):
    """A log handler that blocks until the program sets `is_released`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_released = threading.Event()
        self.events: list[object] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.events.append(vars(record)["event"])
        self.is_released.wait(30)


def a_blocking_handler_delays_no_loss() -> None:
    handler = BlockingHandler()
    logging.getLogger("steadlock").addHandler(handler)
    for name in ("door", "window"):
        lease = client.lock(name, max_hold=0.15).try_acquire(wait=20)
        assert lease is not None
        with gevent.Timeout(20):
            while not lease.lost.is_set():
                gevent.sleep(0.001)
            while not handler.events:
                gevent.sleep(0.001)
    started = time.monotonic()
    client.close()
    # The handler blocks for 30 s.
    assert time.monotonic() - started < 15
    handler.is_released.set()
    with gevent.Timeout(5):
        while len(handler.events) < 2:
            gevent.sleep(0.001)
    assert handler.events == ["lost", "lost"]


def log_lines_without_an_event_thread() -> None:
    handler = BlockingHandler()
    handler.is_released.set()
    logging.getLogger("steadlock").addHandler(handler)
    assert client.lock("window", max_hold=0.15).try_acquire(wait=20)
    with gevent.Timeout(5):
        while not handler.events:
            gevent.sleep(0.01)
            assert not gevent.spawn(client.lock("other").owned).get()
            with client.lock("other"):
                pass


def threads_with_hubs() -> None:
    stock = 0

    def sell() -> None:
        nonlocal stock
        for _ in range(10):
            with lock:
                seen = stock
                gevent.sleep(0.001)
                stock = seen + 1

    def thread() -> None:
        gevent.joinall([gevent.spawn(sell) for _ in range(5)], raise_error=True)

    pool = gevent.get_hub().threadpool
    threads = [pool.spawn(thread) for _ in range(3)]
    thread()
    for one in threads:
        one.get()
    assert stock == 4 * 5 * 10


def ended_greenlets() -> None:
    kept: list[gevent.Greenlet[..., None]] = []

    def leave_held() -> None:
        lock.acquire()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The lock is released even while the program refers to the greenlet.
        kept.append(gevent.spawn(leave_held))
        kept[0].join()
        assert lock.acquire(timeout=10)
        lock.release()
    assert ["held by a greenlet that has ended" in str(one.message) for one in caught] == [True]


def a_callback_of_the_hub() -> None:
    answers: list[object] = []

    def call() -> None:
        with lock:
            answers.append(lock.owned())

    gevent.get_hub().loop.run_callback(call)
    while not answers:
        gevent.sleep(0.001)
    assert answers == [True]


def fork_with_waiting_greenlets() -> None:
    with lock:
        waiting = gevent.spawn(lock.acquire)
        until_refused()
        child = gevent.os.fork()
        if child == 0:
            # The waiting greenlet exists in the child too, and must not take results of this greenlet.
            own = client.lock("window") if URL != "memory://" else steadlock.connect("memory://").lock("window")
            with gevent.Timeout(20):
                for _ in range(200):
                    with own:
                        pass
            os._exit(0)
        with gevent.Timeout(30):
            _, status = gevent.os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    assert waiting.get(timeout=10)


def an_event_loop_belongs_to_one_greenlet() -> None:
    attempts: list[object] = []

    def other() -> None:
        while not attempts:
            attempts.append(lock.try_acquire())

    async def task() -> None:
        with lock:
            other_greenlet = gevent.spawn(other)
            # A task of the event loop lets the other greenlets run.
            other_greenlet.join()
            assert lock.owned()
        with lock:
            # A wait of a task would block the other tasks of its loop, so it is refused, as without gevent.
            refused = asyncio.create_task(second())
            await asyncio.sleep(0)
            await refused

    async def second() -> None:
        try:
            lock.acquire()
        except steadlock.InvalidArgumentError:
            return
        raise AssertionError("the acquisition was not refused")

    asyncio.run(task())
    assert attempts == [None]


def waiters_of_an_ended_thread() -> None:
    if ORDER != "unpatched":
        return

    def thread() -> None:
        gevent.spawn(lock.acquire)
        until_refused()

    with lock:
        one = threading.Thread(target=thread)
        one.start()
        one.join()
    # The waiter cannot run after its thread has ended, so the lock must not be granted to it.
    assert lock.acquire(timeout=10)
    assert not client._connection.events.waits._requests


def an_interrupt_during_delivery() -> None:
    waits = client._connection.events.waits
    deliver = waits.deliver

    def interrupted(completed: list[Any]) -> None:
        if any(isinstance(one[1], steadlock._native.Lease) for one in completed):
            waits.deliver = deliver  # type: ignore[method-assign]
            signal.raise_signal(signal.SIGINT)
        deliver(completed)

    def enter() -> str:
        with lock:
            return "entered"

    waits.deliver = interrupted  # type: ignore[method-assign]
    entering = gevent.spawn(enter)
    try:
        entering.join(10)
    except KeyboardInterrupt:
        assert entering.get(timeout=10) == "entered"
        return
    raise AssertionError("no interrupt came")


def telemetry_of_greenlets() -> None:
    from telemetry import Collected, attributes, id_of, parent_of

    collected = Collected()
    with steadlock.connect(URL, metrics=True) as measured:
        collected.instrument(measured)

        def sell(number: int) -> int:
            with collected.tracer.start_as_current_span(f"{number}") as under:
                with measured.lock("stock:1"):
                    gevent.sleep(0.001)
                return id_of(under)

        with others_keep_running():
            parents = sorted(one.get(timeout=20) for one in [gevent.spawn(sell, number) for number in range(10)])
        for spans in (collected.waits(), collected.holds()):
            assert sorted(parent_of(span) or 0 for span in spans) == parents

        with measured.lock("stock:2") as lease:
            waiter = gevent.spawn(measured.lock("stock:2").acquire)
            gevent.sleep(0.01)
            waiter.kill()
        assert lease.lost_reason is None
        assert sorted(collected.outcomes()) == ["cancelled"] + ["granted"] * 11

        measured.lock("stock:3", lease=0.1).acquire()
        with gevent.Timeout(20):
            while len(collected.holds()) < 12:
                # A greenlet that waits also handles the events of losses.
                measured.lock("stock:3").locked()
                gevent.sleep(0.005)
        assert attributes(collected.holds()[-1])["steadlock.reason"] == "expired"


started = time.monotonic()
globals()[CHECK]()
print(f"{CHECK}, {ORDER}: {time.monotonic() - started:.2f} s")
