"""The base class of objects that cannot be copied or pickled. Such an object belongs to one process and keeps a state
that a copy would not share.
"""

from __future__ import annotations

from typing import Any, ClassVar

CLIENT_COPY_ADVICE = "share this one between threads or tasks, and make another one in each process"
LOCK_COPY_ADVICE = "pass its name, and make the lock there by a client of that process"
LEASE_COPY_ADVICE = "pass the lock's name, or the fencing token, and leave the lease to its holder"


class NotCopyable:
    """Refuses `copy` and `pickle`, also inside `multiprocessing`, with an error that says what to do instead."""

    __slots__ = ()
    _copy_advice: ClassVar[str]

    def __reduce__(self) -> str | tuple[Any, ...]:
        package = type(self).__module__.partition("._")[0]
        raise TypeError(f"a {package}.{type(self).__name__} cannot be copied or pickled; {self._copy_advice}")
