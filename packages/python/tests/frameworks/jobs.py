"""The jobs for task queues. A job that is ended because it takes too long adds its error to the list "ended"."""

from __future__ import annotations

import json
import os
import time

from counter import IS_LAZY, add_one, store

import steadlock

LIMIT = 1
"""The time limit of a job in seconds. `rq` gets its limit from the test."""
client = steadlock.connect(lazy=IS_LAZY)
lock = client.lock("door")


def guarded() -> int:
    """Adds one under the lock. Returns the id of the process that ran the job."""
    with lock:
        add_one()
    return os.getpid()


def waits() -> None:
    """Waits for a lock that another owner holds."""
    start = time.monotonic()
    try:
        lock.acquire()
    except BaseException as error:
        report(error, start)


def holds() -> None:
    start = time.monotonic()
    try:
        with lock:
            while True:
                time.sleep(0.01)
    except BaseException as error:
        report(error, start)


def leaves() -> None:
    """Acquires the lock and does not release it: the process holds it until its end."""
    assert lock.acquire()


def report(error: BaseException, start: float) -> None:
    store().rpush("ended", json.dumps([type(error).__name__, time.monotonic() - start]))
