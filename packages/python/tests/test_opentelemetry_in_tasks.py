"""Tests of the spans of OpenTelemetry for a client with tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from telemetry import LIMIT, Collected, attributes, id_of, is_error, parent_of

import steadlock
from steadlock import aio


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
async def client(url: str, collected: Collected) -> AsyncIterator[aio.Client]:
    async with aio.connect(url, metrics=True, lease=1) as client:
        collected.instrument(client)
        yield client


async def until_a_task_waits(client: aio.Client) -> None:
    async with asyncio.timeout(LIMIT):
        # No notification reports a changed count, so this code polls.
        while 'steadlock_waiting{kind="lock",group="stock"} 1' not in client.metrics():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_lock_has_a_wait_and_a_hold_under_the_span_that_asks_for_it(
    client: aio.Client, collected: Collected
) -> None:
    with collected.tracer.start_as_current_span("order") as order:
        async with client.lock("stock:42") as lease:
            with collected.tracer.start_as_current_span("inside") as inside:
                async with client.lock("stock:42"):
                    assert not collected.holds()
    assert [parent_of(span) for span in collected.waits()] == [id_of(order), id_of(inside)]
    assert [parent_of(span) for span in collected.holds()] == [id_of(inside), id_of(order)]
    common = {"steadlock.kind": "lock", "steadlock.lock": "stock:42"}
    assert attributes(collected.waits()[0]) == common | {"steadlock.outcome": "granted"}
    ended = common | {"steadlock.token": lease.token, "steadlock.outcome": "released"}
    assert attributes(collected.holds()[1]) == ended
    assert not any(is_error(span) for span in (*collected.waits(), *collected.holds()))


async def test_each_kind_and_each_call_has_both_spans(client: aio.Client, collected: Collected) -> None:
    sides = client.read_write_lock("stock:2")

    @client.synchronized("stock:{number}")
    async def work(number: int) -> None: ...

    await work(1)
    assert await client.mutex("stock:2").acquire()
    await client.mutex("stock:2").release()
    await client.fair_lock("stock:3").acquire(timeout=5)
    # A plain lock also releases a lease of the fair lock of its name.
    await client.lock("stock:3").release()
    async with sides.read.hold(wait=5):
        pass
    lease = await sides.write.try_acquire()
    assert lease is not None
    await lease.release()
    await (await client.semaphore("stock:4", 3).acquire(2)).release()
    async with client.multi_lock([client.lock("stock:5"), client.lock("stock:6")]):
        pass
    kinds = ["lock", "mutex", "fair_lock", "read_lock", "write_lock", "semaphore", "multi_lock"]
    for spans in (collected.waits(), collected.holds()):
        assert [attributes(span)["steadlock.kind"] for span in spans] == kinds
        assert {attributes(span)["steadlock.outcome"] for span in spans} <= {"granted", "released"}
    assert set(collected.numbers("steadlock.held").values()) == {0}


async def test_waits_without_a_grant(client: aio.Client, collected: Collected) -> None:
    async def other() -> None:
        assert await client.lock("stock:42").try_acquire(0.25) is None
        assert not await client.lock("stock:42").acquire(blocking=False)

    async def wait() -> None:
        await client.lock("stock:42").acquire()

    async with client.lock("stock:42"):
        await asyncio.create_task(other())
        waiter = asyncio.create_task(wait())
        await until_a_task_waits(client)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
    with pytest.raises(steadlock.InvalidArgumentError):
        await client.lock("stock:42", lease=1e9).acquire()
    assert collected.outcomes() == ["granted", "timed_out", "timed_out", "cancelled", "refused"]
    assert [is_error(span) for span in collected.waits()] == [False, False, False, False, True]
    assert attributes(collected.waits()[-1])["error.type"] == "InvalidArgumentError"
    assert len(collected.holds()) == 1


async def test_spans_of_many_tasks_have_the_parents_of_their_own(client: aio.Client, collected: Collected) -> None:
    async def work(number: int) -> list[int]:
        parents = []
        for turn in range(5):
            with collected.tracer.start_as_current_span(f"{number}-{turn}") as under:
                parents.append(id_of(under))
                async with client.lock(f"stock:{turn % 2}"):
                    await asyncio.sleep(0)
        return parents

    parents = sorted(one for some in await asyncio.gather(*map(work, range(20))) for one in some)
    assert sorted(parent_of(span) or 0 for span in collected.waits()) == parents
    assert sorted(parent_of(span) or 0 for span in collected.holds()) == parents
    assert collected.outcomes() == ["granted"] * 100


async def test_a_hold_has_the_span_of_the_calling_task_as_parent(client: aio.Client, collected: Collected) -> None:
    with collected.tracer.start_as_current_span("asks") as asks:
        calling = asyncio.create_task(client.lock("stock:42").try_acquire())
    with collected.tracer.start_as_current_span("releases"):
        lease = await calling
        assert lease is not None
        await lease.release()
    assert [parent_of(span) for span in (*collected.waits(), *collected.holds())] == [id_of(asks), id_of(asks)]


async def test_a_loss_ends_the_hold_and_its_scope(client: aio.Client, collected: Collected) -> None:
    async def work() -> None:
        lock = client.lock("stock:42")
        async with lock:
            assert await client.force_release(lock)
            await asyncio.sleep(LIMIT)

    with pytest.raises(steadlock.LockLostError):
        await work()
    (hold,) = collected.holds()
    assert attributes(hold)["steadlock.outcome"] == "lost"
    assert attributes(hold)["steadlock.reason"] == "removed"
    assert is_error(hold)


async def test_an_unreleased_fixed_lease_ends_its_span_at_expiry(client: aio.Client, collected: Collected) -> None:
    await client.lock("stock:42", lease=0.1).acquire()
    hold = await collected.hold_of_tasks()
    assert attributes(hold)["steadlock.reason"] == "expired"


async def test_an_unawaited_release_ends_the_hold(client: aio.Client, collected: Collected) -> None:
    lease = await client.lock("stock:42").try_acquire()
    assert lease is not None

    def release() -> None:
        dropped = lease.release()
        assert dropped is not None

    with pytest.warns(RuntimeWarning, match="never awaited"):
        release()
    assert attributes(await collected.hold_of_tasks())["steadlock.outcome"] == "released"


async def test_a_release_whose_caller_is_cancelled_is_unknown(client: aio.Client, collected: Collected) -> None:
    lease = await client.lock("stock:42").try_acquire()
    assert lease is not None
    releasing = asyncio.create_task(lease.release())
    await asyncio.sleep(0)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    assert attributes(await collected.hold_of_tasks())["steadlock.outcome"] == "unknown"


async def test_close_ends_holds_and_stops_counting(client: aio.Client, collected: Collected) -> None:
    await client.lock("stock:42").acquire()
    assert sum(collected.numbers("steadlock.held").values()) == 1
    await client.close()
    (hold,) = collected.holds()
    assert attributes(hold)["steadlock.outcome"] == "lost"
    assert attributes(hold)["steadlock.reason"] == "closed"
    assert not is_error(hold)
    assert not collected.numbers("steadlock.held")
    assert sum(collected.numbers("steadlock.hold.duration").values()) == 1


async def test_a_wait_that_is_dropped_is_cancelled(client: aio.Client, collected: Collected) -> None:
    async with client.mutex("stock:42"):
        waiting = client.mutex("stock:42").acquire(timeout=LIMIT)
        waiting.send(None)
        waiting.close()
        async with asyncio.timeout(LIMIT):
            # The end of a span notifies no event loop, so this code polls.
            while len(collected.waits()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    assert collected.outcomes() == ["granted", "cancelled"]
