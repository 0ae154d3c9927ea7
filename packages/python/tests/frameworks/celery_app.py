"""For a Celery worker. The client is made at import: in the worker's main process, before it forks its pool."""

from __future__ import annotations

import os

from careless import IS_LAZY, URL, add_one
from celery import Celery

import steadlock

lock = steadlock.connect(lazy=IS_LAZY).lock("door")


def guarded() -> int:
    """Gives the process that ran it."""
    with lock:
        add_one()
    return os.getpid()


app = Celery(broker=URL, backend=URL)
app.task(name="guarded")(guarded)
