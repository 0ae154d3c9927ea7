"""The kinds of lock, and the text by which the core knows one lock: its address.

No name holds NUL, so that no name can be taken for another address.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Final, SupportsIndex

FACTORIES: Final = {
    "lock": "lock",
    "mutex": "mutex",
    "fair_lock": "fair_lock",
    "read_lock": "read_write_lock",
    "write_lock": "read_write_lock",
    "semaphore": "semaphore",
}
"""Every kind of the core, and the method of a client that makes its locks."""


def address(kind: str, name: str) -> str:
    """The address of a lock of any kind but the semaphore."""
    return f"{kind}\0{name}"


def semaphore_address(permits: int, limit: int, name: str) -> str:
    """The address of so many permits of a semaphore."""
    return f"semaphore\0{_count(permits)}\0{_count(limit)}\0{name}"


def kind_of(address: str) -> str:
    """The kind of the lock that has this address, as the core counts it."""
    kind, _, _ = address.partition("\0")
    return "multi_lock" if kind == "multi" else kind


def _count(number: int) -> str:
    """The number as the core reads it; it refuses what is none, which may be a text that is not to be repeated."""
    is_number = isinstance(number, SupportsIndex) and not isinstance(number, bool)
    return str(index(number)) if is_number else "-"


def multi_address(addresses: Iterable[str]) -> str:
    """The address of several locks as one."""
    return "multi\0" + "".join(f"{len(one.encode())}\0{one}" for one in addresses)
