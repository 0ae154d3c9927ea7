"""Tests the functions of inside.py, with which other tests check the contenders' log."""

from inside import Step, longest_gap, most_inside


def enter(at: float, who: str, until: float = 100) -> Step:
    return Step(at, True, who, until)


def leave(at: float, who: str) -> Step:
    return Step(at, False, who, at)


def test_one_too_many_inside_is_noticed() -> None:
    assert most_inside([enter(1, "a/0/0"), leave(2, "a/0/0"), enter(3, "b/0/0")]) == 1
    assert most_inside([enter(1, "a/0/0"), enter(2, "b/0/0"), leave(3, "a/0/0")]) == 2


def test_one_that_was_killed_is_inside_until_its_lease_ends() -> None:
    assert most_inside([enter(1, "killed/0/0", until=3), enter(2, "b/0/0")]) == 2
    assert most_inside([enter(1, "killed/0/0", until=3), enter(3, "b/0/0")]) == 1


def test_a_gap_counts_from_when_the_lock_became_free() -> None:
    assert longest_gap([enter(2, "a/0/0"), leave(3, "a/0/0"), enter(3.5, "b/0/0")], free_since=1) == 1
    assert longest_gap([enter(1, "a/0/0"), leave(3, "a/0/0"), enter(5, "b/0/0")], free_since=1) == 2
    assert longest_gap([enter(1, "a/0/0"), enter(2, "b/0/0"), leave(3, "a/0/0"), leave(9, "b/0/0")], 1) == 0
