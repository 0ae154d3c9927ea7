"""Tests each library and our lock on one key: they exclude each other and hand over in both directions."""

import threading
import time
from collections.abc import Callable

import pytest

from pairs import PAIRS, Pair
from peers import Library, Peer
from server import Server

TURNS = 20


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def pair(request: pytest.FixtureRequest, server: Server, start: Callable[[Library], Peer]) -> Pair:
    theirs, own = request.param
    return Pair.of(theirs, own, server, start)


def test_while_the_other_library_holds_the_lock_ours_is_refused_and_names_the_holder(pair: Pair) -> None:
    pair.acquire(pair.theirs)
    record = pair.record
    assert pair.owner in pair.expect_refusal(pair.ours)
    assert pair.record == record
    pair.release(pair.theirs)
    assert pair.record is None


def test_while_we_hold_the_lock_the_other_library_is_refused(pair: Pair) -> None:
    pair.acquire(pair.ours)
    record = pair.record
    pair.expect_refusal(pair.theirs)
    assert pair.record == record
    pair.release(pair.ours)
    assert pair.record is None


def test_the_other_library_acquires_the_lock_after_our_release(pair: Pair) -> None:
    pair.acquire(pair.ours)
    pair.wait(pair.theirs)
    pair.release(pair.ours)
    assert pair.theirs.answer(within=10) == "held"
    pair.expect_refusal(pair.ours)
    pair.release(pair.theirs)


def test_we_acquire_the_lock_after_the_other_library_releases_it(pair: Pair) -> None:
    pair.acquire(pair.theirs)
    pair.wait(pair.ours)
    pair.release(pair.theirs)
    assert pair.ours.answer(within=10) == "held"
    pair.expect_refusal(pair.theirs)
    pair.release(pair.ours)


def test_after_an_expired_lease_of_the_other_library_its_late_unlock_keeps_our_record(pair: Pair) -> None:
    pair.acquire(pair.theirs, lease_ms=300)
    pair.wait_and_acquire(pair.ours)
    record = pair.record
    pair.release_lost(pair.theirs)
    assert pair.record == record
    assert pair.server.store.pttl(pair.key) > 10_000
    pair.release(pair.ours)


def test_after_an_expired_lease_of_ours_our_late_release_keeps_the_other_record(pair: Pair) -> None:
    pair.acquire(pair.ours, lease_ms=300)
    pair.wait_and_acquire(pair.theirs)
    record = pair.record
    pair.release_lost(pair.ours)
    assert pair.record == record
    assert pair.server.store.pttl(pair.key) > 10_000
    pair.release(pair.theirs)


def test_both_libraries_get_the_lock_and_never_at_once(pair: Pair) -> None:
    section = CriticalSection()

    def turns(peer: Peer) -> None:
        for _ in range(TURNS):
            pair.turn(peer, section.visit)

    threads = [threading.Thread(target=turns, args=[peer]) for peer in (pair.theirs, pair.ours)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (section.visits, section.overlaps) == (2 * TURNS, 0)
    assert pair.record is None


def pause_briefly() -> None:
    time.sleep(0.002)


class CriticalSection:
    """A critical section that counts the visits which overlap with another one."""

    def __init__(self, pause: Callable[[], object] = pause_briefly) -> None:
        self.visits = self.overlaps = 0
        self._lock = threading.Lock()
        self._pause = pause

    def visit(self) -> None:
        is_alone = self._lock.acquire(blocking=False)
        visits = self.visits
        self._pause()
        self.visits = visits + 1
        if is_alone:
            self._lock.release()
        else:
            self.overlaps += 1


def test_the_exclusion_check_notices_two_at_once() -> None:
    # Each visit lasts until all four are inside.
    section = CriticalSection(threading.Barrier(4).wait)
    threads = [threading.Thread(target=section.visit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (section.visits, section.overlaps) == (1, 3)
