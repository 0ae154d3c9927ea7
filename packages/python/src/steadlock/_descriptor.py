"""The file descriptor by which the engine tells that something has happened."""

from __future__ import annotations

import os
from collections.abc import Callable

from steadlock import _native

LOOK = 1.0
"""How often a reader looks whether the program has closed it, in seconds."""


class Descriptor:
    """The one that a reader polls.

    A program that closes descriptors which it did not open, as `os.closerange` does, closes
    this one too, and may open files that get its number. Nothing tells the reader of that.
    """

    def __init__(self, native: _native.Client) -> None:
        self._native = native
        self._watched: tuple[int, int] | None = None

    def look(self) -> int:
        """Gives the descriptor to poll from now on. Raises an `OSError` if the system gives none."""
        self._watched = self._native.fd()
        return self._watched[0]

    def is_there(self) -> bool:
        """Whether the descriptor that is polled is still the client's."""
        try:
            return self._watched == self._native.fd()
        except OSError:
            return False

    def leave(self, watch_no_more: Callable[[int], object]) -> None:
        """Stops watching it, unless the number belongs to a file of the program by now."""
        watched, self._watched = self._watched, None
        if watched is None:
            return
        if self._number() == watched[0] or not _is_open(watched[0]):
            watch_no_more(watched[0])

    def _number(self) -> int | None:
        try:
            return self._native.fd()[0]
        except OSError:
            return None


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
