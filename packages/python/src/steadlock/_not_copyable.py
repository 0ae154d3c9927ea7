"""The base class of objects that cannot be copied or pickled. Such an object belongs to one process and keeps a state
that a copy would not share.
"""

from __future__ import annotations

from typing import Any, ClassVar

HOW_WITH_CLIENTS = "share this one between threads or tasks, and make another one in each process"
HOW_WITH_LOCKS = "pass its name, and make the lock there by a client of that process"
HOW_WITH_LEASES = "pass the lock's name, or the fencing token, and leave the lease to its holder"


class Uncopied:
    """Refuses `copy` and `pickle`, also inside `multiprocessing`, with an error that says what to do instead."""

    __slots__ = ()
    _instead: ClassVar[str]

    def __reduce__(self) -> str | tuple[Any, ...]:
        face = type(self).__module__.partition("._")[0]
        raise TypeError(f"a {face}.{type(self).__name__} cannot be copied or pickled; {self._instead}")
