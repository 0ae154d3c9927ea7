"""The kinds of lock, and the address of a lock: the text that identifies it for the core.

No name contains NUL, so no name can look like another address.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Final

FACTORIES: Final = {
    "lock": "lock",
    "mutex": "mutex",
    "fair_lock": "fair_lock",
    "read_lock": "read_write_lock",
    "write_lock": "read_write_lock",
    "semaphore": "semaphore",
}
"""Every kind of the core, with the client's method that makes locks of that kind."""


def address(kind: str, name: str) -> str:
    """Returns the address of a lock of any kind but the semaphore."""
    return f"{kind}\0{name}"


def semaphore_address(permits: int, limit: int, name: str) -> str:
    """Returns the address of a number of permits of a semaphore."""
    return f"semaphore\0{_count(permits)}\0{_count(limit)}\0{name}"


def kind_of(address: str) -> str:
    """Returns the kind of the lock at an address, as the metrics of the core call it."""
    kind, _, _ = address.partition("\0")
    return "multi_lock" if kind == "multi" else kind


def _count(number: int) -> str:
    """Returns the number as text. For another type returns `-`, which the core refuses: the value could be a secret
    text, which no message may repeat.
    """
    if isinstance(number, bool):
        return "-"
    try:
        return str(index(number))
    except TypeError:
        return "-"


def multi_address(addresses: Iterable[str]) -> str:
    """Returns the address of a composite lock."""
    return "multi\0" + "".join(f"{len(one.encode())}\0{one}" for one in addresses)
