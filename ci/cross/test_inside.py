"""Tests the functions of inside.py, with which other tests check the contenders' log."""

from inside import Step, longest_gap, most_holders_at_once


def enter(at: float, worker: str, until: float = 100) -> Step:
    return Step(at, True, worker, until)


def leave(at: float, worker: str) -> Step:
    return Step(at, False, worker, at)


def test_two_holders_at_once_are_noticed() -> None:
    assert most_holders_at_once([enter(1, "a/0/0"), leave(2, "a/0/0"), enter(3, "b/0/0")]) == 1
    assert most_holders_at_once([enter(1, "a/0/0"), enter(2, "b/0/0"), leave(3, "a/0/0")]) == 2


def test_a_killed_holder_counts_until_its_lease_ends() -> None:
    assert most_holders_at_once([enter(1, "killed/0/0", until=3), enter(2, "b/0/0")]) == 2
    assert most_holders_at_once([enter(1, "killed/0/0", until=3), enter(3, "b/0/0")]) == 1


def test_a_gap_counts_from_when_the_lock_became_free() -> None:
    assert longest_gap([enter(2, "a/0/0"), leave(3, "a/0/0"), enter(3.5, "b/0/0")], free_since=1) == 1
    assert longest_gap([enter(1, "a/0/0"), leave(3, "a/0/0"), enter(5, "b/0/0")], free_since=1) == 2
    assert longest_gap([enter(1, "a/0/0"), enter(2, "b/0/0"), leave(3, "a/0/0"), leave(9, "b/0/0")], 1) == 0
