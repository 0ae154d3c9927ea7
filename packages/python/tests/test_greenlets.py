"""Tests of gevent's greenlets, with the standard library patched before, after, or not at all; and of eventlet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("greenlets.py")
CHECKS = [
    "greenlets_exclude_each_other",
    "greenlets_are_owners",
    "ended_waits_leave_nothing",
    "every_call_lets_others_run",
    "outages",
    "losses_are_reported",
    "a_blocking_handler_delays_no_loss",
    "log_lines_without_an_event_thread",
    "threads_with_hubs",
    "ended_greenlets",
    "a_callback_of_the_hub",
    "fork_with_waiting_greenlets",
    "an_event_loop_belongs_to_one_greenlet",
    "waiters_of_an_ended_thread",
    "an_interrupt_during_delivery",
    "telemetry_of_greenlets",
]
EVENTLET = """
import warnings; warnings.simplefilter("ignore")
import eventlet
import steadlock
# A program that imports eventlet but does not use it is not refused.
lock = steadlock.connect("memory://").lock("door")
with lock: pass

def refused(operation, call):
    try:
        call()
    except steadlock.MisconfiguredError as error:
        assert error.operation == operation, error.operation
        assert "eventlet" in str(error) and "gevent" in str(error), error
    else:
        raise AssertionError("the call was not refused")

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
