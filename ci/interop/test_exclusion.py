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


def test_while_theirs_is_held_ours_is_refused_and_says_who_holds_it(pair: Pair) -> None:
    pair.acquire(pair.theirs)
    record = pair.record
    assert pair.owner in pair.expect_refusal(pair.ours)
    assert pair.record == record
    pair.release(pair.theirs)
    assert pair.record is None


def test_while_ours_is_held_theirs_is_refused(pair: Pair) -> None:
    pair.acquire(pair.ours)
    record = pair.record
    pair.expect_refusal(pair.theirs)
    assert pair.record == record
    pair.release(pair.ours)
    assert pair.record is None


def test_theirs_has_it_once_ours_is_released(pair: Pair) -> None:
    pair.acquire(pair.ours)
    pair.wait(pair.theirs)
    pair.release(pair.ours)
    assert pair.theirs.answer(within=10) == "held"
    pair.expect_refusal(pair.ours)
    pair.release(pair.theirs)


def test_ours_has_it_once_theirs_is_released(pair: Pair) -> None:
    pair.acquire(pair.theirs)
    pair.wait(pair.ours)
    pair.release(pair.theirs)
    assert pair.ours.answer(within=10) == "held"
    pair.expect_refusal(pair.theirs)
    pair.release(pair.ours)


def test_an_expired_lease_of_theirs_lets_ours_in_and_their_late_unlock_leaves_our_record(pair: Pair) -> None:
    pair.acquire(pair.theirs, lease_ms=300)
    pair.wait_and_acquire(pair.ours)
    record = pair.record
    pair.release_lost(pair.theirs)
    assert pair.record == record
    assert pair.server.store.pttl(pair.key) > 10_000
    pair.release(pair.ours)


def test_an_expired_lease_of_ours_lets_theirs_in_and_our_late_release_leaves_their_record(pair: Pair) -> None:
    pair.acquire(pair.ours, lease_ms=300)
    pair.wait_and_acquire(pair.theirs)
    record = pair.record
    pair.release_lost(pair.ours)
    assert pair.record == record
    assert pair.server.store.pttl(pair.key) > 10_000
    pair.release(pair.theirs)


def test_both_have_their_turns_and_never_at_once(pair: Pair) -> None:
    room = Room()

    def turns(peer: Peer) -> None:
        for _ in range(TURNS):
            pair.turn(peer, room.visit)

    threads = [threading.Thread(target=turns, args=[peer]) for peer in (pair.theirs, pair.ours)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (room.visits, room.met) == (2 * TURNS, 0)
    assert pair.record is None


def stay_briefly() -> None:
    time.sleep(0.002)


class Room:
    """A critical section that counts the visits which overlap with another one."""

    def __init__(self, stay: Callable[[], object] = stay_briefly) -> None:
        self.visits = self.met = 0
        self._door = threading.Lock()
        self._stay = stay

    def visit(self) -> None:
        alone = self._door.acquire(blocking=False)
        visits = self.visits
        self._stay()
        self.visits = visits + 1
        if alone:
            self._door.release()
        else:
            self.met += 1


def test_a_room_notices_two_at_once() -> None:
    # Each stays until all four are inside.
    room = Room(threading.Barrier(4).wait)
    threads = [threading.Thread(target=room.visit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (room.visits, room.met) == (1, 3)
