"""What task queues run. A job that is ended for taking too long says how, in the list "ended"."""

from __future__ import annotations

import json
import os
import time

from careless import IS_LAZY, add_one, store

import steadlock

LIMIT = 1
"""How many seconds a job may take."""
client = steadlock.connect(lazy=IS_LAZY)
lock = client.lock("door")


def guarded() -> int:
    """Gives the process that ran it."""
    with lock:
        add_one()
    return os.getpid()


def waits() -> None:
    """Somebody else holds the lock."""
    start = time.monotonic()
    try:
        lock.acquire()
    except BaseException as error:
        tell(error, start)


def holds() -> None:
    start = time.monotonic()
    try:
        with lock:
            while True:
                time.sleep(0.01)
    except BaseException as error:
        tell(error, start)


def leaves() -> None:
    """Does not release the lock: its process holds it until its end."""
    assert lock.acquire()


def tell(error: BaseException, start: float) -> None:
    store().rpush("ended", json.dumps([type(error).__name__, time.monotonic() - start]))
