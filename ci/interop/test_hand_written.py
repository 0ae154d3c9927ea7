"""Tests the statements of docs/migrate/hand-written.md about locks that teams write themselves.

test_exclusion.py tests that they and our locks exclude each other."""

import threading
from collections.abc import Callable

import pytest

import steadlock
from pairs import HASH, SECKILL, SET_NX, Pair, ours, ours_for
from peers import Library, Peer
from server import Server

#: A hash lock with short leases, so that a test sees renewals.
BRIEF_HASH = Library("hash-brief", "jvm")
#: A lock whose unlock deletes the key without comparing the owner.
WITHOUT_COMPARE = Library("seckill-without-compare", "jvm", prefix="lock:", reports_lost_release=False)
OWN_LEASE = 0
RENEWALS = 4
LEASE = 4


@pytest.mark.parametrize("language", ["python", "jvm", "node"])
def test_the_renewals_of_a_hash_lock_exclude_ours(
    server: Server, start: Callable[[Library], Peer], language: str
) -> None:
    pair = Pair.of(BRIEF_HASH, ours_for(HASH, language), server, start)
    pair.acquire(pair.theirs, OWN_LEASE)
    pair.wait(pair.ours)
    ttl, renewals = server.store.pttl(pair.key), 0

    def renewed() -> bool:
        nonlocal ttl, renewals
        before, ttl = ttl, server.store.pttl(pair.key)
        renewals += ttl > before
        return renewals == RENEWALS

    server.until(renewed, "nothing was renewed")
    assert pair.ours.has_not_answered()
    pair.release(pair.theirs)
    assert pair.ours.answer(within=10) == "held"
    pair.release(pair.ours)


def test_a_hash_lock_with_levels_on_the_server_counts_as_one_holder(
    server: Server, start: Callable[[Library], Peer]
) -> None:
    pair = Pair.of(HASH, ours("lock", "python"), server, start)
    pair.acquire(pair.theirs)
    pair.acquire(pair.theirs)
    owner = pair.owner
    assert pair.record == {owner: "2"}
    with steadlock.connect(server.url) as client:
        holder = client.lock(pair.key).holder()
        assert holder
        assert holder.owner == owner
    pair.release(pair.theirs)
    assert pair.record == {owner: "1"}
    pair.expect_refusal(pair.ours)
    pair.release(pair.theirs)
    pair.acquire(pair.ours)
    pair.release(pair.ours)


def test_a_hash_lock_waits_for_the_release_of_our_outermost_level(
    server: Server, start: Callable[[Library], Peer]
) -> None:
    pair = Pair.of(HASH, ours("lock", "python"), server, start)
    with steadlock.connect(server.url) as client:
        lock = client.lock(pair.key)
        with lock:
            owner = pair.owner
            with lock:
                assert pair.record == {owner: "1"}
                pair.expect_refusal(pair.theirs)
            assert pair.record == {owner: "1"}
            pair.expect_refusal(pair.theirs)
    pair.acquire(pair.theirs)
    pair.release(pair.theirs)


def test_the_unlock_of_a_hash_lock_by_a_wrong_owner_throws_and_keeps_our_record(
    server: Server, start: Callable[[Library], Peer]
) -> None:
    pair = Pair.of(HASH, ours("lock", "python"), server, start)
    pair.acquire(pair.ours)
    record = pair.record
    assert pair.theirs.call("unlock", pair.name).startswith("gone")
    assert pair.record == record
    pair.release(pair.ours)


@pytest.mark.parametrize("library", [SET_NX, SECKILL], ids=str)
def test_an_unlock_in_finally_after_a_failed_attempt_keeps_our_record_if_it_compares(
    server: Server, start: Callable[[Library], Peer], library: Library
) -> None:
    pair = Pair.of(library, ours("mutex", "python"), server, start)
    pair.acquire(pair.ours)
    record = pair.record
    pair.expect_refusal(pair.theirs)
    pair.release(pair.theirs)
    assert pair.record == record
    pair.release(pair.ours)


def test_an_unlock_without_compare_lets_a_second_owner_in_and_our_holder_learns_of_it(
    server: Server, start: Callable[[Library], Peer]
) -> None:
    unsafe, other, name = start(WITHOUT_COMPARE), start(SECKILL), server.new_name()
    lost = threading.Event()
    with steadlock.connect(server.url, lease=LEASE) as client:
        lease = client.mutex(f"lock:{name}").try_acquire()
        assert lease
        lease.on_lost(lambda _: lost.set())
        assert unsafe.call("try", name, 30_000).startswith("refused")
        unsafe.call("unlock", name)
        assert other.call("try", name, 30_000) == "held"
        assert lost.wait(20)
        assert lease.lost_reason == "stolen"
        assert not lease.is_valid()
    assert other.call("try", name, 30_000).startswith("refused")
    assert other.call("unlock", name) == "released"


def test_an_unlock_without_compare_after_its_ttl_deletes_our_record(
    server: Server, start: Callable[[Library], Peer]
) -> None:
    pair = Pair.of(WITHOUT_COMPARE, ours("mutex", "python"), server, start)
    pair.acquire(pair.theirs, lease_ms=300)
    pair.wait_and_acquire(pair.ours)
    assert pair.record
    pair.theirs.call("unlock", pair.name)
    assert pair.record is None
    pair.release_lost(pair.ours)


@pytest.mark.parametrize("library", [SECKILL, ours("mutex", "jvm")], ids=str)
def test_a_nested_attempt_that_fails_and_unlocks_releases_the_outer_hold_of_its_thread(
    server: Server, start: Callable[[Library], Peer], library: Library
) -> None:
    peer, name = start(library), server.new_name()
    assert peer.call("try", name, 30_000) == "held"
    assert peer.call("try", name, 30_000).startswith("refused")
    assert server.record(library.prefix + name)
    assert peer.call("unlock", name) == "released"
    assert server.record(library.prefix + name) is None
