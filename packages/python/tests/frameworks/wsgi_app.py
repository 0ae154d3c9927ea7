"""For gunicorn. The client and its lock are made at import: with `--preload` in the master, before it forks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from careless import IS_LAZY, add_one

import steadlock

lock = steadlock.connect(lazy=IS_LAZY).lock("door")
inside: list[None] = []


def app(environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    """Answers with the worker and with how many requests it has at once."""
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
