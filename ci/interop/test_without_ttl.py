"""Tests records without a TTL, which redis-py's `Lock` writes if it has no timeout: ours waits and changes nothing."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

import steadlock
from pairs import REDIS_PY, Pair, ours
from peers import Library, Peer
from server import Server

POLLS = 3


@pytest.fixture(params=["python", "node", "jvm"])
def pair(request: pytest.FixtureRequest, server: Server, start: Callable[[Library], Peer]) -> Pair:
    return Pair.of(REDIS_PY, ours("mutex", request.param), server, start)


@contextlib.contextmanager
def events(pair: Pair) -> Iterator[list[str]]:
    """Yields the list of the writes to the lock's key. The list is complete at the end of the block."""
    store, messages = pair.server.store, list[str]()
    store.config_set("notify-keyspace-events", "KA")
    with store.pubsub(ignore_subscribe_messages=True) as listener:  # type: ignore[no-untyped-call]
        channel = f"__keyspace@0__:{pair.key}"
        listener.subscribe(channel)
        pair.server.until(lambda: pair.server.subscribers(channel) == 1, "no subscription")
        yield messages
        store.publish(channel, "end")
        while "end" not in messages:
            message = listener.get_message(timeout=1)
            messages.extend([message["data"]] if message else [])
        messages.remove("end")
    store.config_set("notify-keyspace-events", "")


def test_ours_is_refused_and_the_error_reports_the_missing_ttl(pair: Pair) -> None:
    pair.acquire(pair.theirs, lease_ms=0)
    assert pair.server.store.pttl(pair.key) == -1
    refused = pair.expect_refusal(pair.ours)
    assert pair.owner in refused
    assert "without TTL" in refused
    assert pair.server.store.pttl(pair.key) == -1
    pair.release(pair.theirs)


def test_our_waiter_polls_without_writing_and_is_granted_after_the_release(pair: Pair) -> None:
    pair.acquire(pair.theirs, lease_ms=0)
    with events(pair) as waiting:
        pair.wait(pair.ours, attempts=2 + POLLS)
        assert pair.ours.has_not_answered()
    assert waiting == []
    with events(pair) as handing_over:
        pair.release(pair.theirs)
        assert pair.ours.answer(within=10) == "held"
    assert handing_over[0] == "del"
    assert "set" in handing_over
    pair.release(pair.ours)


def test_an_error_after_a_wait_names_the_holder_and_says_that_it_never_expires(pair: Pair) -> None:
    pair.acquire(pair.theirs, lease_ms=0)
    with steadlock.connect(pair.server.url) as client:
        with pytest.raises(steadlock.LockTimeoutError, match="without TTL") as refused, client.mutex(pair.key, wait=1):
            pass
        assert refused.value.holder == steadlock.Holder(pair.owner, None)
    pair.release(pair.theirs)


def test_lock_and_mutex_of_one_name_are_never_mixed_up(pair: Pair) -> None:
    """A reentrant lock that finds a STRING under its name raises an error instead of waiting."""
    pair.acquire(pair.theirs, lease_ms=0)
    record = pair.record
    with steadlock.connect(pair.server.url) as client, pytest.raises(steadlock.MisconfiguredError):
        client.lock(pair.key).try_acquire()
    assert pair.record == record
    pair.release(pair.theirs)
