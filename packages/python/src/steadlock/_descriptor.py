"""The file descriptor by which the engine signals events."""

from __future__ import annotations

import os
from collections.abc import Callable

from steadlock import _native

CHECK_INTERVAL = 1.0
"""How often a reader checks whether the program has closed the descriptor, in seconds."""


class Descriptor:
    """The descriptor that a reader polls.

    Some programs close descriptors that they did not open, for example with `os.closerange`. They close this one too,
    and files that they open later can get its number. The reader gets no notice of that.
    """

    def __init__(self, native: _native.Client) -> None:
        self._native = native
        self._watched: tuple[int, int] | None = None

    def refresh(self) -> int:
        """Returns the descriptor to poll from now on. Raises `OSError` if the system has no descriptor left."""
        self._watched = self._native.fd()
        return self._watched[0]

    def is_current(self) -> bool:
        """Whether the polled descriptor still belongs to the client."""
        try:
            return self._watched == self._native.fd()
        except OSError:
            return False

    def unregister(self, remove_reader: Callable[[int], object]) -> None:
        """Stops watching the descriptor, unless its number belongs to a file of the program by now."""
        watched, self._watched = self._watched, None
        if watched is None:
            return
        if self._number() == watched[0] or not _is_open(watched[0]):
            remove_reader(watched[0])

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
