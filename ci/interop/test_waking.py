"""Tests that notifications wake waiters: our releases wake Redisson's waiters, and Redisson's releases wake ours."""

import threading
import time
from collections.abc import Callable

import pytest

import steadlock
from pairs import HAND_WRITTEN, REDISSON, Pair, ours, ours_for
from peers import Library, Peer
from server import Server

#: A poll interval so long that only a notification can wake a waiter in time.
LONG_POLL_INTERVAL = (20.0, 25.0)
ROUNDS = 5
#: The longest time until a waiter without a notification is granted the lock: its next poll, and the time of a poll.
POLL = 0.75 + 0.25


@pytest.fixture
def pair(server: Server, start: Callable[[Library], Peer]) -> Pair:
    return Pair.of(REDISSON, ours("lock", "python"), server, start)


@pytest.fixture(params=["python", "jvm", "node"])
def any_pair(request: pytest.FixtureRequest, server: Server, start: Callable[[Library], Peer]) -> Pair:
    return Pair.of(REDISSON, ours("lock", request.param), server, start)


@pytest.fixture(params=HAND_WRITTEN, ids=str)
def hand_written(request: pytest.FixtureRequest, server: Server, start: Callable[[Library], Peer]) -> Pair:
    return Pair.of(request.param, ours_for(request.param, "python"), server, start)


def channel(pair: Pair) -> str:
    return f"redisson_lock__channel:{{{pair.key}}}"


def wait_until_subscribed(pair: Pair, peer: Peer) -> None:
    pair.wait(peer)
    pair.server.until(lambda: pair.server.subscribers(channel(pair)) == 1, f"{peer.library} has not subscribed")


def wake_seconds(pair: Pair, holder: Peer, waiter: Peer) -> float:
    """Returns the seconds from the holder's release to the waiter's grant. The lease lasts for 30 s."""
    pair.acquire(holder)
    wait_until_subscribed(pair, waiter)
    begin = time.monotonic()
    pair.release(holder)
    assert waiter.answer() == "held"
    took = time.monotonic() - begin
    pair.release(waiter)
    pair.server.until(lambda: pair.server.subscribers(channel(pair)) == 0, "there is still a subscription")
    return took


def test_our_release_wakes_a_waiter_of_redisson_long_before_the_lease_ends(any_pair: Pair) -> None:
    assert wake_seconds(any_pair, any_pair.ours, any_pair.theirs) < 10


def test_a_release_of_redisson_wakes_our_waiter_long_before_its_next_poll(pair: Pair) -> None:
    granted = threading.Event()
    pair.acquire(pair.theirs)
    with steadlock.connect(pair.server.url, retry_interval=LONG_POLL_INTERVAL) as client:
        lock = client.lock(pair.key)

        def work() -> None:
            with lock:
                granted.set()

        waiter = threading.Thread(target=work)
        pair.server.begin_wait(waiter.start)
        pair.server.until(lambda: pair.server.subscribers(channel(pair)) == 1, "our waiter has not subscribed")
        pair.release(pair.theirs)
        assert granted.wait(10)
        waiter.join()


@pytest.mark.timing
def test_our_release_wakes_a_waiter_of_redisson_within_a_second(any_pair: Pair) -> None:
    assert max(wake_seconds(any_pair, any_pair.ours, any_pair.theirs) for _ in range(ROUNDS)) < 1


@pytest.mark.timing
def test_a_release_of_redisson_wakes_our_waiter_within_300_ms(any_pair: Pair) -> None:
    assert max(wake_seconds(any_pair, any_pair.theirs, any_pair.ours) for _ in range(ROUNDS)) < 0.3


def test_a_waiter_of_spring_is_woken_by_a_message_of_its_channel(
    server: Server, start: Callable[[Library], Peer]
) -> None:
    """Our release does not send that message: see docs/migrate/spring-redis-lock-registry.md."""
    spring = Library("spring-pubsub", "jvm", prefix="orders:")
    pair = Pair.of(spring, ours("mutex", "python"), server, start)
    pair.acquire(pair.ours)
    pair.wait(pair.theirs)
    server.until(lambda: server.store.pubsub_numpat() == 1, "Spring has not subscribed")
    pair.release(pair.ours)
    server.store.publish(f"orders-channel:{pair.key}", pair.key)
    assert pair.theirs.answer(within=20) == "held"
    pair.release(pair.theirs)


def test_our_waiter_learns_of_a_hand_written_unlock_which_publishes_nothing(hand_written: Pair) -> None:
    pair, store, messages = hand_written, hand_written.server.store, list[str]()
    pair.acquire(pair.theirs)
    pair.wait(pair.ours)
    with store.pubsub() as listener:  # type: ignore[no-untyped-call]
        listener.psubscribe("*")
        assert listener.get_message(timeout=10)["type"] == "psubscribe"
        pair.release(pair.theirs)
        assert pair.ours.answer(within=10) == "held"
        store.publish("test", "end")
        while "end" not in messages:
            message = listener.get_message(timeout=1)
            messages.extend([message["data"]] if message else [])
    assert messages == ["end"]
    pair.release(pair.ours)


@pytest.mark.timing
def test_our_waiter_learns_of_a_hand_written_unlock_by_its_next_poll(hand_written: Pair) -> None:
    assert max(handed_over(hand_written, hand_written.theirs, hand_written.ours) for _ in range(ROUNDS)) < POLL


@pytest.mark.timing
def test_a_hand_written_lock_learns_of_our_release_by_its_own_loop(hand_written: Pair) -> None:
    assert max(handed_over(hand_written, hand_written.ours, hand_written.theirs) for _ in range(ROUNDS)) < 0.3


def handed_over(pair: Pair, holder: Peer, waiter: Peer) -> float:
    """Returns the seconds from a release to the waiter's grant. The lease would have lasted for 30 s more."""
    pair.acquire(holder)
    pair.wait(waiter)
    begin = time.monotonic()
    pair.release(holder)
    assert waiter.answer() == "held"
    took = time.monotonic() - begin
    pair.release(waiter)
    return took
