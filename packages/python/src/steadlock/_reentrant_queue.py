"""Queues of items to hand on, without a lock.

While an item is handed on, a signal handler, a finalizer or another thread can hand on the same item, and an interrupt
can stop the hand-on. An item is therefore removed only after it was handed on, and handing it on twice must do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")


def append_result(results: list[T], call: Callable[[A], T], argument: A) -> None:
    """Calls a native function, and appends its result. An interrupt comes before the call, or after the result was
    appended, because both are one native call.
    """
    results.extend(map(call, (argument,)))


def first(queue: MutableSequence[T]) -> T | None:
    """Returns the next item, which stays in the queue; `None` if the queue is empty."""
    try:
        return queue[0]
    except IndexError:
        return None


def remove_item(queue: MutableSequence[T], item: T) -> None:
    """Removes an item that was handed on, unless other code has removed it."""
    # One atomic step: a check before the removal could lead to the removal of the next item.
    try:  # noqa: SIM105 - a context manager costs four times as much
        queue.remove(item)
    except ValueError:
        pass
