"""Queues of items to pass on, without a lock.

While one caller passes an item on, a signal handler, a finalizer or another thread can pass on the same item, and an
interrupt (an exception that a signal handler or another thread raises in the caller's code) can stop the caller. An
item is therefore removed only after it was passed on. To pass it on twice must do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")


def append_result(results: list[T], call: Callable[[A], T], argument: A) -> None:
    """Calls a native function, and appends its result. No interrupt can come between the call and the append, because
    both are one native call.
    """
    results.extend(map(call, (argument,)))


def first(queue: MutableSequence[T]) -> T | None:
    """Returns the next item, which stays in the queue; `None` if the queue is empty."""
    try:
        return queue[0]
    except IndexError:
        return None


def remove_item(queue: MutableSequence[T], item: T) -> None:
    """Removes an item that was passed on, unless other code has removed it."""
    # One atomic step: between a check and a removal, other code could remove the item, and the next one would go.
    try:  # noqa: SIM105 - a context manager costs four times as much
        queue.remove(item)
    except ValueError:
        pass
