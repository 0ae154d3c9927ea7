"""The program for gunicorn. It makes the client and the lock at import. With `--preload`, gunicorn's master imports it
before the fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from counter import IS_LAZY, add_one

import steadlock

lock = steadlock.connect(lazy=IS_LAZY).lock("door")
inside: list[None] = []


def app(environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    """Answers with the worker and its number of concurrent requests."""
    inside.append(None)
    at_once = len(inside)
    try:
        if environ["PATH_INFO"] == "/guarded":
            with lock:
                add_one()
        elif environ["PATH_INFO"] == "/unguarded":
            add_one()
    finally:
        inside.pop()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [f"[{os.getpid()}, {at_once}]".encode()]
