"""What cannot be copied or pickled: it belongs to one process, and one object of it keeps the books."""

from __future__ import annotations

from typing import Any, ClassVar

HOW_WITH_CLIENTS = "share this one between threads or tasks, and make another one in each process"
HOW_WITH_LOCKS = "pass its name, and make the lock there by a client of that process"
HOW_WITH_LEASES = "pass the lock's name, or the fencing token, and leave the lease to its holder"


class Uncopied:
    """`copy`, `pickle` and what uses them, as `multiprocessing` does, are refused with what to do instead."""

    __slots__ = ()
    _instead: ClassVar[str]

    def __reduce__(self) -> str | tuple[Any, ...]:
        face = type(self).__module__.partition("._")[0]
        raise TypeError(f"a {face}.{type(self).__name__} cannot be copied or pickled; {self._instead}")
