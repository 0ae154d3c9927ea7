"""Tests of leaders, with threads and with tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest
from servers import RedisServer, eventually

import steadlock
from steadlock import aio

T = TypeVar("T")
SOON = 20
InThread = Callable[[Callable[[], T]], "Future[T]"]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def campaigning(pool: ThreadPoolExecutor, leader: steadlock.Leader, place: int) -> Future[steadlock.Term]:
    """Campaigns in a thread. Returns when the candidate has this place in the queue."""
    campaign = pool.submit(leader.campaign)
    eventually(SOON, lambda: len(leader.candidates()) == place)
    return campaign


def test_one_leads_and_candidates_follow_in_order(client: steadlock.Client, pool: ThreadPoolExecutor) -> None:
    leader = client.leader("mailer")
    assert leader.current() == (None, [])
    with leader as first:
        assert leader.lease is first
        second = campaigning(pool, leader, 1)
        third = campaigning(pool, leader, 2)
        term, candidates = leader.current()
        assert term is not None
        assert term.number == first.number == first.token
        assert term.holder.client is not None
        assert term.holder.remaining is not None
        assert term.holder.remaining <= 10
        assert [candidate.client for candidate in candidates] == [term.holder.client] * 2
    later = second.result(SOON)
    assert later.number > first.number
    assert not third.done()
    assert later.resign() == "released"
    third.result(SOON).resign()
    assert leader.current().number == 0


def test_a_leader_can_choose_its_successor(client: steadlock.Client, pool: ThreadPoolExecutor) -> None:
    leader = client.leader("mailer")
    first = leader.campaign()
    second, third = campaigning(pool, leader, 1), campaigning(pool, leader, 2)
    chosen = leader.candidates()[1]
    first.resign(to=chosen)
    chosen_term = third.result(SOON)
    assert not second.done()
    chosen_term.resign(to=chosen)
    second.result(SOON).resign()
    with pytest.raises(TypeError, match="Candidate"):
        first.resign(to="somebody")  # type: ignore[arg-type]


def test_a_campaign_times_out_and_names_the_leader(client: steadlock.Client) -> None:
    with client.leader("mailer"):
        with pytest.raises(steadlock.LockTimeoutError) as raised:
            client.leader("mailer", wait=0.25).campaign()
        assert raised.value.holder is not None
        with pytest.raises(steadlock.LockTimeoutError):
            client.leader("mailer").campaign(wait=0)


def test_an_observer_never_misses_the_last_change(client: steadlock.Client) -> None:
    leader = client.leader("mailer")
    changes = client.leader("mailer").observe()
    assert next(changes).term is None
    for _ in range(3):
        with leader as term:
            assert next(changes).number == term.number
        assert next(changes).number == 0
    for _ in range(3):
        leader.campaign().resign()
    last = leader.campaign()
    while next(changes).number != last.number:
        pass
    last.resign()


def test_a_closed_client_hands_over_at_once(own_server: RedisServer, pool: ThreadPoolExecutor) -> None:
    with steadlock.connect(own_server.url) as one, steadlock.connect(own_server.url) as two:
        first = one.leader("mailer").campaign()
        second = campaigning(pool, two.leader("mailer"), 1)
        one.close()
        assert first.lost_reason == "closed"
        second.result(SOON).resign()


def test_lead_leads_again_after_a_term_that_was_lost(client: steadlock.Client) -> None:
    leader = client.leader("mailer", term=0.5)
    numbers: list[int] = []

    def body(term: steadlock.Term) -> str:
        numbers.append(term.number)
        if len(numbers) < 3:
            assert client.force_release(leader)
            assert term.lost.wait(SOON)
        if len(numbers) == 2:
            raise ZeroDivisionError
        return "done"

    assert leader.lead(body) == "done"
    assert len(numbers) == 3
    assert numbers == sorted(set(numbers))
    assert leader.current().term is None


def test_lead_raises_what_the_body_raises_and_resigns(client: steadlock.Client) -> None:
    leader = client.leader("mailer")

    def body(_: steadlock.Term) -> None:
        client.lock("door", wait=0).acquire()
        raise steadlock.LockTimeoutError("of another lock")

    with pytest.raises(steadlock.LockTimeoutError, match="of another lock"):
        leader.lead(body)
    assert leader.current().term is None


def test_lead_ends_when_its_client_is_closed(client: steadlock.Client) -> None:
    with pytest.raises(steadlock.ClosedError):
        client.leader("mailer").lead(lambda _: client.close())


async def first_candidate(leader: aio.Leader) -> steadlock.Candidate:
    """Waits until there is a candidate."""
    async with asyncio.timeout(SOON):
        while True:
            for candidate in await leader.candidates():
                return candidate


async def test_tasks_lead_and_observe_too(aclient: aio.Client) -> None:
    leader = aclient.leader("mailer")
    changes = aiter(leader.observe())
    assert (await anext(changes)).term is None
    async with leader as term:
        assert (await anext(changes)).number == term.number
        second = asyncio.create_task(leader.campaign())
        await term.resign(to=await first_candidate(leader))
    later = await asyncio.wait_for(second, SOON)
    assert later.number > term.number
    assert (await anext(changes)).number == later.number
    await later.resign()
    assert (await anext(changes)).number == 0


async def test_an_observer_that_is_cancelled_leaves_nothing(aclient: aio.Client) -> None:
    leader = aclient.leader("mailer")
    changes = aiter(leader.observe())
    await anext(changes)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await anext(changes)
    assert not aclient._connection.mailbox._requests
    async with leader as term:
        assert (await anext(changes)).number == term.number


async def test_lead_cancels_a_body_whose_term_is_lost(aclient: aio.Client) -> None:
    leader = aclient.leader("mailer", term=0.5)
    numbers: list[int] = []
    was_cancelled = []

    async def body(term: aio.Term) -> str:
        numbers.append(term.number)
        if len(numbers) == 1:
            assert await aclient.force_release(leader)
            try:
                await asyncio.sleep(SOON)
            except asyncio.CancelledError:
                was_cancelled.append(True)
                raise
        return "done"

    assert await leader.lead(body) == "done"
    assert was_cancelled == [True]
    assert len(numbers) == 2
    assert (await leader.current()).term is None


async def test_lead_that_is_cancelled_resigns(aclient: aio.Client) -> None:
    leader, begun = aclient.leader("mailer"), asyncio.Event()

    async def body(_: aio.Term) -> None:
        begun.set()
        await asyncio.sleep(SOON)

    task = asyncio.create_task(leader.lead(body))
    await asyncio.wait_for(begun.wait(), SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await leader.current()).term is None
