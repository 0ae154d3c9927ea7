"""Tests of the loss of a lease: which callers learn of it, how soon, and which records are not touched."""

# ruff: noqa: PT012 (the scope that raises is the thing under test)

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
from servers import RedisServer, Store, eventually, store_of

import steadlock
from steadlock import aio

LEASE = 1.0
REPORTED_WITHIN = LEASE / 3 + 0.5


def remove(store: Store) -> None:
    store.delete("door")


def flush(store: Store) -> None:
    store.flushall()


def steal(store: Store) -> None:
    pipeline = store.pipeline()
    pipeline.delete("door")
    pipeline.hset("door", "thief:1", "1")
    pipeline.pexpire("door", 60_000)
    pipeline.execute()


REMOVALS = pytest.mark.parametrize(
    ("remove_record", "reason", "outcome"),
    [
        pytest.param(remove, "removed", "expired", id="DEL"),
        pytest.param(flush, "removed", "expired", id="FLUSHALL"),
        pytest.param(steal, "stolen", "stolen", id="stolen"),
    ],
)


@pytest.mark.timing
@REMOVALS
def test_a_removed_lock_is_reported_in_time(
    server: RedisServer, store: Store, remove_record: Callable[[Store], None], reason: str, outcome: str
) -> None:
    with steadlock.connect(server.url, lease=LEASE) as client:
        lease = client.lock("door").try_acquire()
        assert lease is not None
        lost = lease.lost
        remove_record(store)
        assert lost.wait(REPORTED_WITHIN)
        assert lease.lost_reason == reason
        assert not lease.is_valid()
        before = store.hgetall("door")
        assert lease.release() == outcome
        assert store.hgetall("door") == before


@pytest.mark.timing
@REMOVALS
async def test_a_removed_lock_cancels_its_scope_in_time(
    server: RedisServer, store: Store, remove_record: Callable[[Store], None], reason: str, outcome: str
) -> None:
    async with aio.connect(server.url, lease=LEASE) as client:
        with pytest.raises(steadlock.LockLostError) as caught:
            async with client.lock("door") as lease:
                remove_record(store)
                started = time.monotonic()
                await asyncio.sleep(30)
        assert time.monotonic() - started < REPORTED_WITHIN
        assert caught.value.reason == reason
        assert caught.value.lock_name == "door"
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        before = store.hgetall("door")
        assert await lease.release() in (outcome, "released")
        assert store.hgetall("door") == before


@pytest.mark.timing
def test_a_stopped_server_is_reported_before_the_record_expires(own_server: RedisServer) -> None:
    with steadlock.connect(own_server.url, lease=LEASE) as client:
        lease = client.lock("door").try_acquire()
        assert lease is not None
        lost = lease.lost
        with store_of(own_server) as store:
            expires = time.monotonic() + store.pttl("door") / 1000
        with own_server.paused():
            # A renewal between the reading of the TTL and the stop of the server extends the record and the lease.
            assert lost.wait(LEASE + 0.2)
            assert time.monotonic() < expires + LEASE / 3
            assert lease.lost_reason == "expired"


def test_with_raises_when_the_lease_was_lost(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url, lease=LEASE) as client:
        with pytest.raises(steadlock.LockLostError) as caught, client.lock("door") as lease:
            store.flushall()
            lease.lost.wait(10)
        assert caught.value.reason == "removed"
        assert caught.value.cause == "its record is gone from the server"
        assert str(caught.value).startswith(f'release of lock "door": the lease was lost: {caught.value.cause}; check ')
        with client.lock("door"):
            pass


def test_with_notices_an_unreported_loss(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client:
        with pytest.raises(steadlock.LockLostError), client.lock("door"):
            store.flushall()
        with pytest.raises(steadlock.LockLostError), client.lock("door"):
            steal(store)
        assert store.hgetall("door") == {"thief:1": "1"}


async def test_async_with_notices_an_unreported_loss(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url) as client:
        with pytest.raises(steadlock.LockLostError):
            async with client.lock("door"):
                store.flushall()
        async with client.lock("door"):
            pass


def test_the_exception_of_the_body_is_not_masked_by_a_loss(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client, pytest.raises(KeyError), client.lock("door"):
        store.flushall()
        raise KeyError


async def test_the_exception_of_the_body_is_not_masked_by_a_loss_in_asyncio(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url) as client:
        with pytest.raises(KeyError):
            async with client.lock("door"):
                store.flushall()
                raise KeyError


def test_callbacks_are_called_once(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url, lease=LEASE) as client:
        lease = client.lock("door").try_acquire()
        assert lease is not None
        notified: list[steadlock.Lease] = []
        lease.on_lost(notified.append)
        store.flushall()
        assert lease.lost.wait(10)
        eventually(5, lambda: notified)
        lease.on_lost(notified.append)
        assert notified == [lease, lease]


def test_a_raising_callback_does_not_stop_the_others(
    server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_type))

    def fail(lease: steadlock.Lease) -> None:
        raise KeyError(lease.name)

    with steadlock.connect(server.url, lease=LEASE) as client:
        lease = client.lock("door").try_acquire()
        assert lease is not None
        lease.on_lost(fail)
        after = threading.Event()
        lease.on_lost(lambda _: after.set())
        store.flushall()
        assert after.wait(10)
    assert raised == [KeyError]


ENDINGS = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), ValueError()]


@pytest.mark.parametrize("raised", ENDINGS, ids=lambda raised: type(raised).__name__)
def test_no_callback_ends_the_event_thread(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, raised: BaseException
) -> None:
    seen: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    notified: list[steadlock.Lease] = []

    def fail(_: steadlock.Lease) -> None:
        raise raised

    with steadlock.connect(server.url) as client:
        for turn in range(2):
            leases = [client.lock(f"door-{turn}-{n}").try_acquire(wait=20, lease=0.1) for n in range(3)]
            for lease in leases:
                assert lease is not None
                lease.on_lost(fail)
                lease.on_lost(notified.append)
            eventually(10, lambda turn=turn: len(notified) == 3 * (turn + 1))  # type: ignore[misc]
        assert [args.exc_value for args in seen] == [raised] * 6
    if isinstance(raised, SystemExit):
        eventually(10, lambda: "called `sys.exit`" in caplog.text)


def test_a_raising_excepthook_stops_no_notification(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(threading, "excepthook", fail)
    notified: list[steadlock.Lease] = []
    with steadlock.connect(server.url) as client:
        for n in range(3):
            lease = client.lock(f"door-{n}").try_acquire(wait=20, lease=0.1)
            assert lease is not None
            lease.on_lost(fail)
            lease.on_lost(notified.append)
        eventually(10, lambda: len(notified) == 3)


@pytest.mark.parametrize("raised", ENDINGS, ids=lambda raised: type(raised).__name__)
async def test_no_callback_stops_other_notifications_of_a_loop(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    if isinstance(raised, KeyboardInterrupt):
        pytest.skip("in the main thread, this exception is Ctrl-C")
    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
    notified: list[aio.Lease] = []

    def fail(_: aio.Lease) -> None:
        raise raised

    async with aio.connect(server.url) as client:
        for n in range(3):
            lease = await client.lock(f"door-{n}").try_acquire(wait=20, lease=0.1)
            assert lease is not None
            lease.on_lost(fail)
            lease.on_lost(notified.append)
        await asyncio.to_thread(eventually, 10, lambda: len(notified) == 3)
    assert seen == [raised] * 3


def test_ctrl_c_in_a_callback_is_raised_after_all_notifications(server: RedisServer) -> None:
    notified: list[steadlock.Lease] = []

    def strike(_: steadlock.Lease) -> None:
        raise KeyboardInterrupt

    client = steadlock.connect(server.url)
    leases = [client.lock(f"door-{n}").try_acquire() for n in range(3)]
    # Stops the event thread, so that the main thread notifies the leases.
    client._connection.events.stop()
    for lease in leases:
        assert lease is not None
        lease.on_lost(strike)
        lease.on_lost(notified.append)
    with pytest.raises(KeyboardInterrupt):
        client.close()
    assert notified == leases


def test_a_telemetry_error_stops_no_notification(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)

    class Broken:
        """A telemetry that raises `SystemExit`."""

        def wait(self, _: object) -> None: ...
        def closed(self) -> None: ...
        def is_behind(self) -> bool:
            return False

        def ended(self, *_: object) -> None:
            raise SystemExit

        def catch_up(self) -> None:
            raise SystemExit

    with steadlock.connect(server.url) as client:
        leases = [client.lock(f"door-{n}").try_acquire(wait=20, lease=0.3) for n in range(3)]
        for lease in leases:
            assert lease is not None
            client._connection.watched.telemetry = Broken()  # type: ignore[assignment]
            assert lease.lost.wait(10)
        client._connection.watched.telemetry = None
    assert seen


async def test_callbacks_and_events_work_in_asyncio(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url, lease=LEASE) as client:
        lease = await client.lock("door").try_acquire()
        assert lease is not None
        notified: list[aio.Lease] = []
        lease.on_lost(notified.append)
        store.flushall()
        await asyncio.wait_for(lease.lost.wait(), 10)
        assert notified == [lease]


def test_nothing_is_lost_after_a_release(client: steadlock.Client) -> None:
    lock = client.lock("door", lease=1)
    lease = lock.try_acquire()
    assert lease is not None
    lost = lease.lost
    lease.release()
    assert not lost.wait(1.1)
    assert lease.lost_reason is None


def test_a_fixed_lease_ends_by_itself(client: steadlock.Client) -> None:
    lease = client.lock("door", lease=0.2).try_acquire(wait=20)
    assert lease is not None
    assert lease.lost.wait(5)
    assert lease.lost_reason == "expired"
    with pytest.raises(steadlock.LockLostError) as caught:
        lease.extend()
    assert caught.value.reason == "expired"


def test_extend_finds_a_loss(client: steadlock.Client) -> None:
    lock = client.lock("door")
    lease = lock.try_acquire()
    assert lease is not None
    assert client.force_release(lock)
    # An extension that is shorter than the rest of the lease makes no server call.
    lease.extend(1)
    with pytest.raises(steadlock.LockLostError) as caught:
        lease.extend(60)
    assert caught.value.reason == "removed"
    assert lease.release() == "expired"


def test_max_hold_ends_a_renewed_lease(url: str) -> None:
    with steadlock.connect(url, lease=1) as client:
        lease = client.lock("door", max_hold=1.3).try_acquire()
        assert lease is not None
        assert lease.lost.wait(20)
        assert lease.lost_reason == "max_hold"


def test_re_entry_into_a_lost_lock_is_refused(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url, lease=LEASE) as client:
        lock = client.lock("door")
        lease = lock.try_acquire()
        assert lease is not None
        store.flushall()
        assert lease.lost.wait(10)
        assert not lock.owned()
        with pytest.raises(steadlock.LockLostError) as caught:
            lock.acquire()
        assert caught.value.reason == "removed"
        with pytest.raises(steadlock.LockLostError) as caught:
            lock.release()
        assert (caught.value.reason, caught.value.operation) == ("removed", "release")
        assert lock.acquire()


@pytest.mark.parametrize("outcome", ["expired", "stolen"])
async def test_a_release_that_finds_a_loss_raises_lock_lost(server: RedisServer, store: Store, outcome: str) -> None:
    def lose() -> None:
        store.delete("door")
        if outcome == "stolen":
            store.hset("door", "another", 1)
            store.pexpire("door", 60_000)

    with steadlock.connect(server.url) as client:
        lock = client.lock("door")
        lock.acquire()
        lose()
        with pytest.raises(steadlock.LockLostError) as caught:
            lock.release()
        assert (caught.value.reason, caught.value.lock_name) == (outcome, "door")
        store.delete("door")
        lease = lock.try_acquire()
        lose()
        # The release of the lease itself returns an outcome instead.
        assert lease is not None
        assert lease.release() == outcome
        store.delete("door")
        lock.acquire()
        # Another object of the same lock raises too.
        lose()
        with pytest.raises(steadlock.LockLostError):
            client.fair_lock("door").release()
        store.delete("door")
    async with aio.connect(server.url) as tasks:
        async_lock = tasks.lock("door")
        await async_lock.acquire()
        lose()
        with pytest.raises(steadlock.LockLostError) as caught:
            await async_lock.release()
        assert caught.value.reason == outcome


async def test_re_entry_into_a_lost_lock_is_refused_in_asyncio(url: str) -> None:
    async with aio.connect(url) as client:
        lock = client.lock("door", max_hold=0.1)
        lease = await lock.try_acquire(wait=20)
        assert lease is not None
        await asyncio.wait_for(lease.lost.wait(), 10)
        with pytest.raises(steadlock.LockLostError) as caught:
            await lock.acquire()
        assert caught.value.reason == "max_hold"


def test_an_expired_fixed_lease_is_forgotten(client: steadlock.Client) -> None:
    lock = client.lock("door", lease=0.2)
    lease = lock.try_acquire(wait=20)
    assert lease is not None
    assert lease.lost.wait(5)
    assert lock.lease is None
    with pytest.raises(steadlock.NotOwnerError):
        lock.release()
    again = lock.try_acquire(wait=5, lease=20)
    assert again is not None
    # The lease object still knows its outcome.
    assert lease.release() == "expired"
    with pytest.raises(steadlock.LockLostError):
        lease.extend()
    assert again.is_valid()
    assert lock.release() == "released"


async def test_an_expired_fixed_lease_is_forgotten_in_asyncio(url: str) -> None:
    async with aio.connect(url) as client:
        lock = client.lock("door", lease=0.2)
        lease = await lock.try_acquire(wait=20)
        assert lease is not None
        await asyncio.wait_for(lease.lost.wait(), 5)
        assert lock.lease is None
        with pytest.raises(steadlock.NotOwnerError):
            await lock.release()
        again = await lock.try_acquire(wait=5, lease=20)
        assert again is not None
        assert await lease.release() == "expired"
        with pytest.raises(steadlock.LockLostError):
            await lease.extend()
        assert again.is_valid()
        assert await lock.release() == "released"


def test_a_scope_with_an_expired_fixed_lease_raises_lock_lost(client: steadlock.Client) -> None:
    lock = client.lock("door", lease=0.2)
    with pytest.raises(steadlock.LockLostError) as caught, lock as lease:
        assert lease.lost.wait(5)
        with pytest.raises(steadlock.NotOwnerError):
            lock.release()
    assert caught.value.reason == "expired"
    with lock:
        pass


def test_a_release_that_finds_a_loss_gives_the_reason(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client:
        # These leases are not renewed, so the client does not learn of the loss before the release.
        lock = client.lock("door", lease=20)
        with pytest.raises(steadlock.LockLostError) as caught, lock:
            remove(store)
        assert caught.value.reason == "expired"
        with pytest.raises(steadlock.LockLostError) as caught, lock:
            steal(store)
        assert caught.value.reason == "stolen"


async def test_a_release_that_finds_a_loss_gives_the_reason_in_asyncio(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url) as client:
        with pytest.raises(steadlock.LockLostError) as caught:
            async with client.lock("door", lease=20):
                steal(store)
        assert caught.value.reason == "stolen"


def test_close_loses_and_releases_held_locks(server: RedisServer, store: Store) -> None:
    client = steadlock.connect(server.url)
    with pytest.raises(steadlock.LockLostError) as caught, client.lock("door") as lease:
        lost = lease.lost
        client.close()
        assert lost.is_set()
    assert caught.value.reason == "closed"
    assert not store.exists("door")


async def test_close_cancels_async_scopes(server: RedisServer, store: Store) -> None:
    client = await aio.connect(server.url)
    inside = asyncio.Event()

    async def hold() -> None:
        async with client.lock("door"):
            inside.set()
            await asyncio.sleep(30)

    task = asyncio.create_task(hold())
    await inside.wait()
    await client.close()
    with pytest.raises(steadlock.LockLostError):
        await task
    assert not store.exists("door")


async def test_closing_inside_an_async_scope_cancels_it(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url) as client:
        with pytest.raises(steadlock.LockLostError) as caught:
            async with client.lock("door"):
                await client.close()
        assert caught.value.reason == "closed"
        await asyncio.sleep(0.01)
    assert not store.exists("door")


async def test_a_cancellation_from_outside_stays_a_cancellation(aclient: aio.Client) -> None:
    inside = asyncio.Event()

    async def hold() -> None:
        async with aclient.lock("door"):
            inside.set()
            await asyncio.sleep(30)

    task = asyncio.create_task(hold())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await aclient.lock("door").locked()


async def test_a_loss_and_a_cancellation_from_outside_stay_a_cancellation(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url, lease=LEASE) as client:

        async def hold() -> None:
            async with client.lock("door") as lease:
                lease.on_lost(lambda _: task.cancel())
                store.flushall()
                await asyncio.sleep(30)

        task = asyncio.create_task(hold())
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_scope_with_a_reported_loss_is_cancelled_once(url: str) -> None:
    async with aio.connect(url) as client:
        with pytest.raises(steadlock.LockLostError) as caught:
            async with client.lock("door", max_hold=0.3) as lease:
                try:
                    await asyncio.sleep(30)
                finally:
                    assert lease.lost.is_set()
                    await asyncio.sleep(0)
        assert caught.value.reason == "max_hold"
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_scope_that_finds_its_loss_leaves_no_cancellation(url: str) -> None:
    async with aio.connect(url) as client:
        with pytest.raises(steadlock.LockLostError):
            async with client.lock("door", max_hold=0.1) as lease:
                eventually(10, lambda: lease.lost_reason)
                assert lease.lost.is_set()
        await asyncio.sleep(0.01)


async def test_a_task_continues_after_its_scope_was_lost(server: RedisServer, store: Store) -> None:
    async with aio.connect(server.url, lease=LEASE) as client:
        with pytest.raises(steadlock.LockLostError):
            async with client.lock("door"), client.lock("door"):
                store.flushall()
                await asyncio.sleep(30)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0.01)
        async with asyncio.timeout(5), client.lock("door"):
            pass
