"""The settings of a lock, and durations in the core's unit."""

from __future__ import annotations

import enum
import threading
from datetime import timedelta
from operator import index
from typing import Final, Literal, NamedTuple, TypeAlias

from steadlock import _native
from steadlock._shown import is_unicode, shown, type_of
from steadlock.errors import InvalidArgumentError

Duration: TypeAlias = float | timedelta
"""A length of time: seconds, or a `timedelta`."""


OnUnavailable: TypeAlias = Literal["fail", "local", "skip"]
"""How an acquisition ends while its server is unavailable.

- `fail`: it raises `UnavailableError` at once
- `local`: the client grants a *degraded* lease, which excludes only other callers of this client
- `skip`: the lock is not granted, and the guarded code does not run
"""


OnBusy: TypeAlias = Literal["raise", "skip"]
"""How a call of a `synchronized` function ends if the lock is not granted within its `wait`.

- `raise`: it raises `LockTimeoutError`
- `skip`: it returns `None`, and the function does not run
"""


class Inherit(enum.Enum):
    """The type of `INHERIT`, which means "the setting of the lock object". `None` has a meaning of its own."""

    INHERIT = "as the lock was made"

    def __repr__(self) -> str:
        return self.name


INHERIT: Final = Inherit.INHERIT
Inherited: TypeAlias = Literal[Inherit.INHERIT]


def milliseconds(duration: Duration) -> float:
    """Returns the duration in milliseconds. The core checks the range."""
    if isinstance(duration, timedelta):
        return duration.total_seconds() * 1000
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise TypeError(f"a duration is a number of seconds or a timedelta, not a {type_of(duration)}")
    try:
        return float(duration) * 1000
    except OverflowError:
        return float("inf")


def optional_milliseconds(duration: Duration | None) -> float | None:
    """Returns the duration in milliseconds, if it is given."""
    return None if duration is None else milliseconds(duration)


def flag(value: bool, what: str) -> bool:
    """Returns the value. Refuses a value that is not a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} is True or False, not a {type_of(value)}")
    return value


class RunTerms(NamedTuple):
    """The terms of a run of a job: all that a caller asks for besides the lease. `None` stands for the core's default.
    Times are in milliseconds.
    """

    at_least: float | None
    key: str | None
    keep: float | None
    on_failure: str | None


class LockSettings(NamedTuple):
    """The settings of a lock object. Times are in milliseconds. `None` is no bound for `wait` and `max_hold`, and the
    client's setting for `lease` and `on_unavailable`.
    """

    lock: _native.LockRef
    """The lock, for the core."""
    key: _native.LockRef
    """The key of the lock in `Holds`: the lock itself; for a semaphore, one permit."""
    name: str
    """The name of the lock, for messages."""
    wait: float | None
    lease: float | None
    renew: bool
    """Whether the lease is auto-renewed."""
    max_hold: float | None
    fencing: bool
    on_unavailable: OnUnavailable | None
    limit: int = 0
    """The number of permits of a semaphore."""
    run: RunTerms | None = None
    """The terms of a run of a job."""

    @classmethod
    def for_kind(
        cls,
        kind: str,
        name: str,
        wait: Duration | None,
        lease: Duration | None,
        renew: bool,
        max_hold: Duration | None,
        fencing: bool,
        on_unavailable: OnUnavailable | None,
    ) -> LockSettings:
        """Makes the settings of a lock of any kind but the semaphore."""
        return cls.for_lock((kind, checked_name(name)), name, wait, lease, renew, max_hold, on_unavailable, fencing)

    @classmethod
    def for_lock(
        cls,
        lock: _native.LockRef,
        name: str,
        wait: Duration | None,
        lease: Duration | None,
        renew: bool,
        max_hold: Duration | None,
        on_unavailable: OnUnavailable | None,
        fencing: bool = True,
        limit: int = 0,
    ) -> LockSettings:
        """Makes the settings of a lock."""
        return cls(
            lock,
            lock,
            name,
            optional_milliseconds(wait),
            optional_milliseconds(lease),
            flag(renew, "renew"),
            optional_milliseconds(max_hold),
            flag(fencing, "fencing"),
            checked_policy(on_unavailable, "acquire", name),
            limit,
        )

    def with_changes(
        self,
        wait: Duration | Inherited | None = INHERIT,
        lease: Duration | Inherited | None = INHERIT,
        max_hold: Duration | Inherited | None = INHERIT,
        renew: bool | Inherited = INHERIT,
    ) -> LockSettings:
        """Returns these settings, changed by the options of one call. If the call sets a lease, that lease is fixed
        unless the call sets `renew` too.
        """
        if renew is INHERIT:
            renew = self.renew and lease is INHERIT
        return LockSettings(
            self.lock,
            self.key,
            self.name,
            self.wait if wait is INHERIT else optional_milliseconds(wait),
            self.lease if lease is INHERIT else optional_milliseconds(lease),
            flag(renew, "renew"),
            self.max_hold if max_hold is INHERIT else optional_milliseconds(max_hold),
            self.fencing,
            self.on_unavailable,
            self.limit,
        )

    def with_permits(self, permits: int) -> LockSettings:
        """Returns these settings for a number of permits of a semaphore."""
        return self._replace(lock=permits_of(self.name, permits, self.limit))

    def with_blocking(self, blocking: bool, timeout: Duration) -> LockSettings:
        """Returns these settings with the wait of `acquire(blocking, timeout)`, as in `threading`."""
        if timeout == -1:
            return self if blocking else self.with_changes(wait=0)
        if not blocking:
            raise InvalidArgumentError(
                "acquire: a timeout makes no sense without blocking; leave one of them out",
                lock_name=self.name,
                operation="acquire",
            )
        if milliseconds(timeout) > threading.TIMEOUT_MAX * 1000:
            raise OverflowError(f"acquire of lock {shown(self.name)!r}: the timeout is too large; leave it out")
        return self.with_changes(wait=timeout)


def permits_of(name: str, permits: int, limit: int) -> _native.LockRef:
    """Returns a number of permits of a semaphore, as a lock."""
    return ("semaphore", name, _count(permits), _count(limit))


def _count(number: int) -> int | None:
    """Returns the number, or the nearest bound if it is below -1 or above 2**32 - 1. The core refuses both bounds, so a
    number beyond them is refused too. For another type returns `None`, which the core refuses: the value could be a
    secret text, and no message may repeat it.
    """
    if isinstance(number, bool):
        return None
    try:
        return max(-1, min(index(number), 2**32 - 1))
    except TypeError:
        return None


def checked_policy(policy: OnUnavailable | None, operation: str, name: str | None = None) -> OnUnavailable | None:
    """Returns the policy for outages. Refuses a word that the core does not know."""
    if policy is None or (isinstance(policy, str) and policy in _native.ON_UNAVAILABLE):
        return policy
    if not isinstance(policy, str):
        raise TypeError(f"on_unavailable is a str, not a {type_of(policy)}")
    lock = "" if name is None else f" of lock {shown(name)!r}"
    # The message does not repeat the word, because it can be a URL with a password.
    raise InvalidArgumentError(
        f"{operation}{lock}: on_unavailable is none of {', '.join(_native.ON_UNAVAILABLE)}; give one of them",
        lock_name=name,
        operation=operation,
    )


def checked_on_busy(on_busy: OnBusy) -> bool:
    """Returns whether a busy lock is skipped. Refuses an unknown word."""
    if not isinstance(on_busy, str):
        raise TypeError(f"on_busy is a str, not a {type_of(on_busy)}")
    if on_busy not in ("raise", "skip"):
        raise InvalidArgumentError(
            "synchronized: on_busy is neither raise nor skip; give one of them", operation="acquire"
        )
    return on_busy == "skip"


def checked_name(name: str) -> str:
    """Returns the name. Refuses text that UTF-8 cannot express; the core checks all other rules."""
    if not isinstance(name, str):
        raise TypeError(f"a lock's name is a str, not a {type_of(name)}")
    if not is_unicode(name):
        raise InvalidArgumentError(
            f"acquire of lock {shown(name)!a}: the name is not valid Unicode; leave lone surrogates out",
            lock_name=name,
            operation="acquire",
        )
    return name
