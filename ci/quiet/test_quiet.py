"""Tests when `quiet.py` runs a failed command again."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import quiet


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "SAMPLE", 0.001)
    monkeypatch.setattr(quiet, "UNDISTURBED_BEFORE", 0.002)
    monkeypatch.setattr(quiet, "LONGEST_WAIT", 0.02)


def undisturbed() -> float:
    return 0.0


def disturbed() -> Callable[[], float]:
    seconds: Iterator[float] = itertools.count(0.0, 0.1)
    return lambda: next(seconds)


class Command:
    """A command that returns these statuses one after the other. Each run takes as long as a few samples."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.again: list[bool] = []

    def __call__(self, again: bool) -> int:
        self.again.append(again)
        time.sleep(0.02)
        return self.statuses.pop(0)


def test_a_failure_on_an_undisturbed_machine_counts_at_once() -> None:
    command = Command(7)
    assert quiet.run_until_undisturbed(command, undisturbed) == 7
    assert command.again == [False]


def test_a_command_that_passes_is_not_run_again() -> None:
    command = Command(0)
    assert quiet.run_until_undisturbed(command, disturbed()) == 0
    assert command.again == [False]


def test_a_failure_on_a_disturbed_machine_is_repeated_and_then_counts() -> None:
    reports: list[str] = []
    command = Command(1, 0)
    assert quiet.run_until_undisturbed(command, disturbed(), reports.append) == 0
    assert command.again == [False, True]
    assert len(reports) == 1


def test_a_pause_without_stolen_time_is_a_disturbance_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "PAUSE", 0.2)
    pause = 0.0
    command = Command(1, 0)
    reports: list[str] = []

    def run(again: bool) -> int:
        nonlocal pause
        pause = 0.0 if again else 0.3
        return command(again)

    def stolen() -> float:
        # Delays the thread that measures, as a pause of the machine does.
        time.sleep(pause)
        return 0.0

    def report(text: str) -> None:
        nonlocal pause
        pause = 0.0
        reports.append(text)

    assert quiet.run_until_undisturbed(run, stolen, report) == 0
    assert command.again == [False, True]
    assert len(reports) == 1


@pytest.mark.parametrize(("step", "disturbances"), [(7.0, 1), (-7.0, 0)])
def test_a_wall_clock_that_is_set_forward_is_a_disturbance_and_one_that_is_set_back_is_none(
    step: float, disturbances: int
) -> None:
    ahead = 0.0
    looked = threading.Event()

    def wall() -> float:
        looked.set()
        return time.time() + ahead

    with quiet.Watch(undisturbed, wall, pause=5) as watch:
        assert looked.wait(10)
        ahead = step
    assert watch.disturbances == disturbances
    assert 5 * disturbances <= watch.worst < 9


def test_a_failure_counts_as_soon_as_the_machine_is_undisturbed() -> None:
    is_undisturbed = False
    times = disturbed()
    command = Command(1, 3)

    def run(again: bool) -> int:
        nonlocal is_undisturbed
        is_undisturbed = again
        return command(again)

    last = 0.0

    def stolen() -> float:
        nonlocal last
        last = last if is_undisturbed else times()
        return last

    def report(_: str) -> None:
        nonlocal is_undisturbed
        is_undisturbed = True

    assert quiet.run_until_undisturbed(run, stolen, report) == 3
    assert command.again == [False, True]


def test_a_failure_counts_if_the_machine_was_always_disturbed() -> None:
    reports: list[str] = []
    command = Command(*range(1, quiet.ATTEMPTS + 1))
    assert quiet.run_until_undisturbed(command, disturbed(), reports.append) == quiet.ATTEMPTS
    assert command.statuses == []
    assert len(reports) == quiet.ATTEMPTS


def test_the_kernel_s_stolen_time_does_not_decrease() -> None:
    before = quiet.stolen_seconds()
    assert 0 <= before <= quiet.stolen_seconds()
