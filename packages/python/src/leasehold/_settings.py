"""What a lock was asked to do, and durations in the core's unit."""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from os import PathLike, fspath
from typing import Final, Literal, TypeAlias

from leasehold import _kinds
from leasehold._shown import is_unicode, shown, type_of
from leasehold.errors import InvalidArgumentError

Duration: TypeAlias = float | timedelta
"""A length of time: seconds, or a `timedelta`."""


class Inherit(enum.Enum):
    """Stands for "as the lock was made" where `None` has a meaning of its own."""

    INHERIT = "as the lock was made"

    def __repr__(self) -> str:
        return self.name


INHERIT: Final = Inherit.INHERIT
Inherited: TypeAlias = Literal[Inherit.INHERIT]


def milliseconds(duration: Duration) -> float:
    """The duration in milliseconds. Ranges are checked by the core."""
    if isinstance(duration, timedelta):
        return duration.total_seconds() * 1000
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise TypeError(f"a duration is a number of seconds or a timedelta, not a {type_of(duration)}")
    try:
        return float(duration) * 1000
    except OverflowError:
        return float("inf")


def optional_milliseconds(duration: Duration | None) -> float | None:
    """The duration in milliseconds, if there is one."""
    return None if duration is None else milliseconds(duration)


def flag(value: bool, what: str) -> bool:
    """The value, if it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} is True or False, not a {type_of(value)}")
    return value


@dataclass(frozen=True, slots=True)
class LockSettings:
    """What every acquire of one lock object asks for, in milliseconds."""

    address: str
    """Which lock, for the core."""
    key: str
    """Which lock, for `Holds`: the address, which for a semaphore is that of one permit."""
    name: str
    """Which lock, for people."""
    wait: float | None
    lease: float | None
    renew: bool
    """Whether that lease is auto-renewed."""
    max_hold: float | None
    fencing: bool

    @classmethod
    def of(
        cls,
        kind: str,
        name: str,
        wait: Duration | None,
        lease: Duration | None,
        renew: bool,
        max_hold: Duration | None,
        fencing: bool,
    ) -> LockSettings:
        """The settings of a lock of any kind but the semaphore."""
        return cls.at(_kinds.address(kind, checked_name(name)), name, wait, lease, renew, max_hold, fencing)

    @classmethod
    def at(
        cls,
        address: str,
        name: str,
        wait: Duration | None,
        lease: Duration | None,
        renew: bool,
        max_hold: Duration | None,
        fencing: bool = True,
    ) -> LockSettings:
        """The settings of what has that address."""
        return cls(
            address,
            address,
            name,
            optional_milliseconds(wait),
            optional_milliseconds(lease),
            flag(renew, "renew"),
            optional_milliseconds(max_hold),
            flag(fencing, "fencing"),
        )

    def but(
        self,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> LockSettings:
        """The same, with what one call asks for instead. A lease of its own is fixed unless the call says `renew`."""
        if renew is INHERIT:
            renew = self.renew and lease is INHERIT
        return LockSettings(
            self.address,
            self.key,
            self.name,
            self.wait if wait is INHERIT else optional_milliseconds(wait),
            self.lease if lease is INHERIT else optional_milliseconds(lease),
            flag(renew, "renew"),
            self.max_hold if max_hold is INHERIT else optional_milliseconds(max_hold),
            self.fencing,
        )

    def asking(self, permits: int, limit: int) -> LockSettings:
        """The same, for so many permits of a semaphore."""
        return replace(self, address=_kinds.semaphore_address(permits, limit, self.name))

    def blocking(self, blocking: bool, timeout: Duration) -> LockSettings:
        """The same, with the wait that `acquire(blocking, timeout)` means, as in `threading`."""
        if timeout == -1:
            return self if blocking else self.but(wait=0)
        if not blocking:
            raise InvalidArgumentError(
                "acquire: a timeout makes no sense without blocking; leave one of them out",
                lock_name=self.name,
                operation="acquire",
            )
        if milliseconds(timeout) > threading.TIMEOUT_MAX * 1000:
            raise OverflowError(f"acquire of lock {shown(self.name)!r}: the timeout is too large; leave it out")
        return self.but(wait=timeout)


def url_list(urls: Iterable[str]) -> list[str]:
    """The URLs, which one text is not. All other rules are the core's."""
    if isinstance(urls, str | bytes | bytearray | Mapping) or not isinstance(urls, Iterable):
        raise TypeError(f"the URLs of several primaries are a list of str, not a {type_of(urls)}")
    return [required_text(url, f"URL {position} of the primaries") for position, url in enumerate(urls, 1)]


def retry_bounds(interval: tuple[Duration, Duration] | None) -> tuple[float, float] | None:
    """The bounds in milliseconds, if there are any."""
    if interval is None:
        return None
    if not isinstance(interval, tuple | list) or len(interval) != 2:
        raise TypeError(f"retry_interval is two durations, the shortest and the longest, not a {type_of(interval)}")
    return milliseconds(interval[0]), milliseconds(interval[1])


def text(value: str | None, what: str) -> str | None:
    """The text of an option, if there is any. All other rules are the core's."""
    return None if value is None else required_text(value, what)


def path(value: str | PathLike[str] | None, what: str) -> str | None:
    """The path of an option, if there is any."""
    if value is not None and not isinstance(value, str | PathLike):
        raise TypeError(f"{what} is a str or a path, not a {type_of(value)}")
    return None if value is None else required_text(fspath(value), what)


def required_text(value: str, what: str) -> str:
    """The text, if it can be sent at all."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not a {type_of(value)}")
    if not is_unicode(value):
        raise InvalidArgumentError(
            f"connect: {what} is not valid Unicode; leave lone surrogates out", operation="connect"
        )
    return value


def checked_name(name: str) -> str:
    """The name, if it can be sent at all. All other rules are the core's."""
    if not isinstance(name, str):
        raise TypeError(f"a lock's name is a str, not a {type_of(name)}")
    if not is_unicode(name):
        raise InvalidArgumentError(
            f"acquire of lock {shown(name)!a}: the name is not valid Unicode; leave lone surrogates out",
            lock_name=name,
            operation="acquire",
        )
    return name
