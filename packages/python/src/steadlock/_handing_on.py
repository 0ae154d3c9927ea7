"""Queues of what is to be handed on, with no lock.

A signal handler, a finalizer or another thread may hand on the same thing in the midst of it, and an interrupt may
strike there. So each thing is taken out after it was handed on, and to hand it on twice does no harm.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TypeVar

T = TypeVar("T")


def first(queue: MutableSequence[T]) -> T | None:
    """What is to be handed on next, which stays in the queue."""
    try:
        return queue[0]
    except IndexError:
        return None


def take_out(queue: MutableSequence[T], item: T) -> None:
    """Takes out what was handed on, unless somebody else did."""
    # One step: a caller that first looks whether it is there may take out the next one.
    try:  # noqa: SIM105 - a context manager costs four times as much
        queue.remove(item)
    except ValueError:
        pass
