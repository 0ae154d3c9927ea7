"""Tests of gevent's greenlets, with the standard library patched before, after, or not at all; and of eventlet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("greenlets.py")
CHECKS = [
    "one_at_a_time",
    "greenlets_own",
    "ended_waits_leave_nothing",
    "every_call_lets_others_go_on",
    "outages",
    "losses_are_heard",
    "a_stuck_handler_holds_up_no_loss",
    "the_log_of_who_only_waits",
    "threads_with_hubs",
    "ended_greenlets",
    "a_callback_of_the_hub",
    "a_fork_beside_waiters",
    "a_loop_is_one_greenlets",
    "waiters_of_an_ended_thread",
    "an_interrupt_among_results",
    "telemetry_of_greenlets",
]
EVENTLET = """
import warnings; warnings.simplefilter("ignore")
import eventlet
import steadlock
# Who has imported it and does not use it is not refused.
lock = steadlock.connect("memory://").lock("door")
with lock: pass

def refused(operation, call):
    try:
        call()
    except steadlock.MisconfiguredError as error:
        assert error.operation == operation, error.operation
        assert "eventlet" in str(error) and "gevent" in str(error), error
    else:
        raise AssertionError("it was not refused")

lease = lock.try_acquire()
eventlet.spawn(refused, "connect", lambda: steadlock.connect("memory://")).wait()
eventlet.spawn(refused, "acquire", lock.acquire).wait()
assert lease.release() == "released"
"""


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("order", ["patched", "late", "unpatched"])
def test_greenlets(url: str, order: str, check: str) -> None:
    run([sys.executable, str(PROGRAM), order, check, url])


def test_eventlet_is_refused() -> None:
    run([sys.executable, "-c", EVENTLET])


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr or "KeyboardInterrupt" in done.stderr, done.stderr
