"""Tests of acquisitions while a real server does not answer, and afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, get_args

import pytest
from servers import RedisServer
from test_kinds_in_tasks import in_another_task
from test_threads import in_another_thread

import steadlock
from steadlock import OnUnavailable, _native, aio

SOON = 20
"""The limit for any wait in seconds."""
POLICIES = "fail, local, skip"
SECRET = "redis://:hunter2@host"


FAST_OPTIONS: dict[str, Any] = {
    "command_timeout": 1,
    "connect_timeout": 1,
    "breaker_failures": 1,
    "breaker_pause": 0.4,
}
"""The options of a client that notices an outage soon."""


def fast_client(server: RedisServer, on_unavailable: OnUnavailable | None = None) -> steadlock.Client:
    return steadlock.connect(server.url, on_unavailable=on_unavailable, **FAST_OPTIONS)


def fast_aio_client(server: RedisServer, on_unavailable: OnUnavailable | None = None) -> aio.Connecting:
    connecting: aio.Connecting = aio.connect(server.url, on_unavailable=on_unavailable, **FAST_OPTIONS)
    return connecting


def is_unavailable(error: steadlock.SteadlockError | None) -> bool:
    return isinstance(error, steadlock.UnavailableError) and "circuit breaker" in str(error)


def refusal(call: Callable[[], object]) -> steadlock.UnavailableError:
    with pytest.raises(steadlock.UnavailableError, match="circuit breaker") as caught:
        call()
    assert caught.value.retryable
    return caught.value


async def aio_refusal(call: Callable[[], Any]) -> steadlock.UnavailableError:
    with pytest.raises(steadlock.UnavailableError, match="circuit breaker") as caught:
        await call()
    assert caught.value.retryable
    return caught.value


def attempt(client: steadlock.Client) -> steadlock.SteadlockError | None:
    """Acquires a lock that only the server can grant. Returns the error, or `None` for a success."""
    try:
        with client.lock("canary", on_unavailable="fail"):
            return None
    except steadlock.UnavailableError as error:
        return error


async def aio_attempt(client: aio.Client) -> steadlock.SteadlockError | None:
    try:
        async with client.lock("canary", on_unavailable="fail"):
            return None
    except steadlock.UnavailableError as error:
        return error


def until(client: steadlock.Client, condition: Callable[[steadlock.SteadlockError | None], bool]) -> None:
    """Makes attempts until the result fulfils the condition."""
    end = time.monotonic() + SOON
    while not condition(error := attempt(client)):
        assert time.monotonic() < end, error
        time.sleep(0.01)


async def await_until(client: aio.Client, condition: Callable[[steadlock.SteadlockError | None], bool]) -> None:
    end = time.monotonic() + SOON
    while not condition(error := await aio_attempt(client)):
        assert time.monotonic() < end, error
        await asyncio.sleep(0.01)


def is_granted(error: steadlock.SteadlockError | None) -> bool:
    return error is None


def test_calls_fail_at_once_while_a_server_hangs(own_server: RedisServer) -> None:
    with fast_client(own_server) as client:
        kept = client.lock("kept").try_acquire()
        assert kept is not None
        with own_server.paused():
            until(client, is_unavailable)
            started = time.monotonic()
            calls: list[Callable[[], object]] = [
                client.lock("door").acquire,
                client.lock("door").try_acquire,
                lambda: client.lock("door").acquire(timeout=SOON),
                client.mutex("door").hold(wait=SOON).__enter__,
                client.fair_lock("door").__enter__,
                client.read_write_lock("door").read.acquire,
                client.semaphore("seats", 2).acquire,
                client.multi_lock([client.lock("door"), client.lock("gate")]).acquire,
                client.synchronized("door")(lambda: None),
                client.lock("door").locked,
            ]
            for call in calls:
                error = refusal(call)
                assert not error.skipped
                assert error.node is not None
                assert error.cause is not None
            assert time.monotonic() - started < SOON / 2
            assert kept.is_valid()
        until(client, is_granted)
        assert not kept.degraded
        assert kept.release() == "released"


def test_locks_are_granted_locally_until_the_server_is_back(own_server: RedisServer) -> None:
    with fast_client(own_server, "local") as client, fast_client(own_server) as other:
        with client.lock("door") as before:
            assert not before.degraded
            assert before.token is not None
        own_server.kill()
        until(client, is_unavailable)
        lock = client.lock("door")
        with lock as here, lock as again:
            assert here.degraded
            assert again.degraded
            assert here.is_valid()
            assert here.token is None
            assert "degraded" in repr(here)
            assert lock.owned()
            assert in_another_thread(client.lock("door").try_acquire) is None
            assert in_another_thread(lambda: client.lock("door").acquire(timeout=0.05)) is False
            for kind in (client.mutex("mutex"), client.fair_lock("fair")):
                with kind as lease:
                    assert lease.degraded
            with client.multi_lock([client.lock("one"), client.mutex("two")]) as lease:
                assert lease.degraded
            # Only the server can count permits and readers, so these kinds fail.
            for call in (client.semaphore("seats", 2).acquire, client.read_write_lock("book").write.acquire):
                assert not refusal(call).skipped
            assert not refusal(client.lock("gate", on_unavailable="fail").acquire).skipped
            own_server.start()
            until(client, is_granted)
            until(other, is_granted)
            # The degraded lease excludes only callers of this client, until it is released.
            assert in_another_thread(client.lock("door").try_acquire) is None
            with other.lock("door", wait=SOON):
                pass
        with client.lock("door") as there:
            assert not there.degraded
            assert there.token is not None
            assert in_another_thread(other.lock("door").try_acquire) is None


def test_a_skipped_lock_is_returned_or_raised(own_server: RedisServer) -> None:
    ran: list[str] = []
    with fast_client(own_server, "skip") as client:

        @client.synchronized("user:{user}")
        def pay(user: int) -> int:
            ran.append("function")
            return user

        @client.synchronized("user:{user}", on_unavailable="fail")
        def pay_for_sure(user: int) -> int:
            return user

        @client.synchronized("outer", on_unavailable="local")
        def outer() -> None:
            ran.append("outer")
            client.lock("inner").acquire()

        assert pay(7) == 7
        ran.clear()
        with own_server.paused():
            until(client, is_unavailable)
            lock, seats = client.lock("door"), client.semaphore("seats", 2)
            assert lock.try_acquire() is None
            assert lock.try_acquire(wait=None) is None
            assert lock.acquire(blocking=False) is False
            assert lock.acquire(timeout=SOON) is False
            assert client.lock("door", wait=SOON).acquire() is False
            assert client.read_write_lock("book").read.try_acquire() is None
            assert client.multi_lock([lock, seats]).try_acquire() is None
            assert seats.try_acquire() is None
            assert lock.lease is None
            assert refusal(lock.acquire).skipped
            assert refusal(seats.acquire).skipped
            for scope in (lock, lock.hold(), lock.hold(wait=0), client.mutex("m"), seats, seats.hold(2)):
                with pytest.raises(steadlock.UnavailableError, match="skipped") as caught, scope:
                    ran.append("body")
                assert caught.value.skipped
            assert pay(7) is None
            assert not refusal(lambda: pay_for_sure(7)).skipped
            assert ran == []
            # The decorator passes on a skip inside the function as an error.
            assert refusal(outer).skipped
            assert ran == ["outer"]
        until(client, is_granted)
        assert pay(7) == 7
        with lock as lease:
            assert not lease.degraded


async def test_calls_fail_at_once_while_a_server_hangs_in_asyncio(own_server: RedisServer) -> None:
    async with fast_aio_client(own_server) as client:
        kept = await client.lock("kept").try_acquire()
        assert kept is not None
        with own_server.paused():
            await await_until(client, is_unavailable)
            for call in (
                client.lock("door").acquire,
                client.lock("door").hold(wait=SOON).__aenter__,
                client.fair_lock("door").__aenter__,
                client.semaphore("seats", 2).acquire,
                client.lock("door").locked,
            ):
                assert not (await aio_refusal(call)).skipped
            assert kept.is_valid()
        await await_until(client, is_granted)
        assert await kept.release() == "released"


async def test_locks_are_granted_locally_until_the_server_is_back_in_asyncio(own_server: RedisServer) -> None:
    async with fast_aio_client(own_server, "local") as client:
        async with client.lock("door") as before:
            assert not before.degraded
        own_server.kill()
        await await_until(client, is_unavailable)
        lock = client.lock("door")
        async with lock as here:
            assert here.degraded
            assert here.is_valid()
            assert here.token is None
            assert await in_another_task(lock.try_acquire) is None
            assert not (await aio_refusal(client.semaphore("seats", 2).acquire)).skipped
            own_server.start()
            await await_until(client, is_granted)
            assert await in_another_task(lock.try_acquire) is None
        async with lock as there:
            assert not there.degraded
            assert there.token is not None


async def test_a_skipped_lock_is_returned_or_raised_in_asyncio(own_server: RedisServer) -> None:
    ran: list[str] = []
    async with fast_aio_client(own_server, "fail") as client:

        @client.synchronized("user:{user}", on_unavailable="skip")
        async def pay(user: int) -> int:
            ran.append("function")
            return user

        @client.synchronized("outer", on_unavailable="local")
        async def outer() -> None:
            await client.lock("inner", on_unavailable="skip").acquire()

        assert await pay(7) == 7
        ran.clear()
        with own_server.paused():
            await await_until(client, is_unavailable)
            lock = client.lock("door", on_unavailable="skip")
            seats = client.semaphore("seats", 2, on_unavailable="skip")
            assert await lock.try_acquire() is None
            assert await lock.try_acquire(wait=None) is None
            assert await lock.acquire(blocking=False) is False
            assert await lock.acquire(timeout=SOON) is False
            assert await client.mutex("m", wait=SOON, on_unavailable="skip").acquire() is False
            assert await client.multi_lock([lock], on_unavailable="skip").try_acquire() is None
            assert await client.read_write_lock("book", on_unavailable="skip").write.try_acquire() is None
            assert await seats.try_acquire() is None
            assert (await aio_refusal(lock.acquire)).skipped
            assert (await aio_refusal(seats.acquire)).skipped
            for scope in (lock, lock.hold(wait=0), client.fair_lock("f", on_unavailable="skip"), seats, seats.hold(2)):
                with pytest.raises(steadlock.UnavailableError, match="skipped") as caught:
                    async with scope:
                        ran.append("body")
                assert caught.value.skipped
            assert await pay(7) is None
            assert (await aio_refusal(outer)).skipped
            assert ran == []
        await await_until(client, is_granted)
        assert await pay(7) == 7


def test_only_the_loss_of_a_majority_is_an_outage() -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(RedisServer()) for _ in range(3)]
        urls = [server.url for server in servers]
        client = stack.enter_context(steadlock.redlock(urls, on_unavailable="skip", **FAST_OPTIONS))
        servers[0].kill()
        for number in range(5):
            with client.lock(f"door:{number}"):
                pass
        servers[1].kill()
        until(client, is_unavailable)
        assert client.lock("door").try_acquire() is None
        assert refusal(client.lock("door").acquire).skipped
        servers[1].start()
        until(client, is_granted)
        with pytest.raises(steadlock.InvalidArgumentError, match="majority"):
            steadlock.redlock(urls, on_unavailable="local")
        with pytest.raises(steadlock.InvalidArgumentError, match="majority"):
            client.lock("door", on_unavailable="local").acquire()


def test_on_unavailable_needs_a_breaker(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:
        for call in (
            client.lock("door", on_unavailable="skip").try_acquire,
            client.semaphore("seats", 1, on_unavailable="fail").acquire,
            client.synchronized("door", on_unavailable="skip")(lambda: None),
        ):
            with pytest.raises(steadlock.InvalidArgumentError, match="breaker_failures"):
                call()
    # Each of the three options switches the circuit breaker on.
    options: list[dict[str, Any]] = [{"breaker_failures": 1}, {"breaker_pause": 1}, {"on_unavailable": "fail"}]
    for option in options:
        with steadlock.connect(server.url, **option) as client, client.lock("door", on_unavailable="skip") as lease:
            assert not lease.degraded


def test_the_policies_are_those_of_the_core() -> None:
    assert list(get_args(OnUnavailable)) == _native.ON_UNAVAILABLE
    assert ", ".join(_native.ON_UNAVAILABLE) == POLICIES


async def test_invalid_outage_options_are_refused_and_not_repeated() -> None:
    wrong: Any
    for wrong in ("", "Skip", "none", SECRET, SECRET + "\udcff"):
        with pytest.raises(steadlock.InvalidArgumentError, match=POLICIES) as caught:
            steadlock.connect("memory://", on_unavailable=wrong)
        assert caught.value.operation == "connect"
        with pytest.raises(steadlock.InvalidArgumentError, match=POLICIES):
            await aio.connect("memory://", on_unavailable=wrong)
        with steadlock.connect("memory://", on_unavailable="skip") as client:
            for make in (client.lock, client.mutex, client.fair_lock, client.read_write_lock):
                with pytest.raises(steadlock.InvalidArgumentError, match=POLICIES) as caught:
                    make("door", on_unavailable=wrong)
                assert (caught.value.operation, caught.value.lock_name) == ("acquire", "door")
                assert "hunter2" not in f"{caught.value!r}"
    for wrong in (True, 1, b"skip", ["skip"], (SECRET,)):
        with pytest.raises(TypeError, match="on_unavailable is a str") as mistaken:
            steadlock.connect("memory://", on_unavailable=wrong)
        assert "hunter2" not in str(mistaken.value)
    for number in (0, -1, 1_000_001, 10**400):
        with pytest.raises(steadlock.InvalidArgumentError, match="1 to 1,000,000"):
            steadlock.connect("memory://", breaker_failures=number)
    for wrong in (True, 1.5, "5", SECRET):
        with pytest.raises(TypeError, match="breaker_failures is an int") as mistaken:
            steadlock.connect("memory://", breaker_failures=wrong)
        assert "hunter2" not in str(mistaken.value)
    for pause in (0, -1, float("inf"), float("nan")):
        with pytest.raises(steadlock.InvalidArgumentError, match="pause"):
            steadlock.connect("memory://", breaker_pause=pause)
    for wrong in (True, "5"):
        with pytest.raises(TypeError, match="duration"):
            steadlock.connect("memory://", breaker_pause=wrong)
