"""What can go wrong: one tree of exceptions, rooted at `SteadlockError`.

The classes are those of every Steadlock language; the text of an exception names
the lock, the operation, the cause and what to do. Passwords never appear in it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple, TypedDict

from steadlock import _native
from steadlock._shown import shown


class ClientInfo(NamedTuple):
    """Which program on which machine a client is, as it says itself: for people, since nothing vouches for it."""

    host: str
    """The machine's name."""
    pid: int
    """The process's id there."""
    program: str
    """The program's name, without its folder and its arguments."""
    language: str
    """The language that it uses Steadlock from, and its version: `python 3.11.7`."""
    version: str
    """Steadlock's version."""
    since: datetime
    """When the client was made, in UTC by that machine's clock."""
    label: str
    """What else it says, by its option `client_label`; empty for nothing."""


class Holder(NamedTuple):
    """Who held a lock when the server was last asked."""

    owner: str
    """The owner id as the server has it."""
    remaining: float | None
    """Seconds until the record expires if nothing renews it; `None` if it never does."""
    client: ClientInfo | None = None
    """Which program it is; `None` if that is not known, as of other libraries' holders."""


def holder_of(told: _native.Holder | None) -> Holder | None:
    """The holder that the core told of."""
    if told is None:
        return None
    owner, remaining, info = told
    return Holder(owner, remaining, None if info is None else _client_info(*info))


def _client_info(host: str, pid: int, program: str, language: str, version: str, since: int, label: str) -> ClientInfo:
    # The writer can be any program, so it can be any number.
    last = datetime.max.replace(tzinfo=UTC)
    made = datetime.fromtimestamp(since, UTC) if since < last.timestamp() else last
    return ClientInfo(host, pid, program, language, version, made, label)


class SteadlockError(Exception):
    """The root of all exceptions of this package."""

    def __init__(
        self,
        message: str,
        *,
        lock_name: str | None = None,
        operation: str = "acquire",
        node: str | None = None,
        retryable: bool = False,
        cause: str | None = None,
        skipped: bool = False,
    ) -> None:
        super().__init__(message)
        self.lock_name = None if lock_name is None else shown(lock_name)
        """The lock's name, if one was involved, without the userinfo of a URL."""
        self.operation = operation
        """What was being done: `connect`, `acquire`, `release`, `extend`, `inspect` or `set_limit`."""
        self.node = node
        """The server that did not answer, or that is set up so that locks cannot work: its address without user and
        password, of several primaries all; `None` if no server has to do with it."""
        self.retryable = retryable
        """Whether the same call may go well later though nobody changes anything."""
        self.cause = cause
        """What the server or the network said, or why nothing came, without advice; of `LockLostError`, how the lease
        was lost. `None` if nothing of that kind is behind it: a bad argument, a closed client, a fork."""
        self.skipped = skipped
        """Whether the lock was skipped: its server is unavailable, and `on_unavailable` is `"skip"`. Only of an
        `UnavailableError`."""


class ClosedError(SteadlockError, RuntimeError):
    """The client was closed."""


class ForkedError(SteadlockError, RuntimeError):
    """The object was made before a `fork` and does not work in the child."""


class InvalidArgumentError(SteadlockError, ValueError):
    """An argument is out of its range. Nothing was sent."""


class LockLostError(SteadlockError, RuntimeError):
    """The lease ended before its holder was done with it."""

    def __init__(
        self,
        message: str,
        *,
        lock_name: str | None = None,
        operation: str = "acquire",
        node: str | None = None,
        retryable: bool = False,
        cause: str | None = None,
        skipped: bool = False,
        reason: str | None = None,
    ) -> None:
        super().__init__(
            message,
            lock_name=lock_name,
            operation=operation,
            node=node,
            retryable=retryable,
            cause=cause,
            skipped=skipped,
        )
        self.reason = reason
        """Why: `expired`, `removed`, `stolen`, `max_hold` or `closed`, if it is known; by a
        release that was the first to notice, `expired` or `stolen`."""


class LockTimeoutError(SteadlockError, TimeoutError):
    """Timed out; another owner holds the lock."""

    def __init__(
        self,
        message: str,
        *,
        lock_name: str | None = None,
        operation: str = "acquire",
        node: str | None = None,
        retryable: bool = False,
        cause: str | None = None,
        skipped: bool = False,
        holder: Holder | None = None,
    ) -> None:
        super().__init__(
            message,
            lock_name=lock_name,
            operation=operation,
            node=node,
            retryable=retryable,
            cause=cause,
            skipped=skipped,
        )
        self.holder = holder
        """Who held the lock at the server's last answer, if that is known."""


class MisconfiguredError(SteadlockError, RuntimeError):
    """The server, or the program around the client, is set up in a way that cannot work."""


class NotOwnerError(SteadlockError, RuntimeError):
    """The calling thread or task does not hold the lock it wants to release or extend."""


class UnavailableError(SteadlockError, ConnectionError):
    """The server did not answer in time, could not be reached, or cannot serve for now; or the lock was skipped
    meanwhile, if it is `skipped`."""


class _Common(TypedDict):
    """What every exception knows beside its message."""

    lock_name: str | None
    operation: str
    node: str | None
    retryable: bool
    cause: str | None
    skipped: bool


_BY_KIND: dict[str, type[SteadlockError]] = {
    "Closed": ClosedError,
    "Forked": ForkedError,
    "InvalidArgument": InvalidArgumentError,
    "LockLost": LockLostError,
    "LockTimeout": LockTimeoutError,
    "Misconfigured": MisconfiguredError,
    "NotOwner": NotOwnerError,
    "Unavailable": UnavailableError,
}


def _from_core(
    kind: str,
    text: str,
    cause: str | None,
    lock_name: str | None,
    operation: str,
    holder: _native.Holder | None,
    reason: str | None,
    node: str | None,
    retryable: bool,
    skipped: bool,
) -> SteadlockError:
    """The exception for an error of the core."""
    found = _BY_KIND.get(kind, SteadlockError)
    common: _Common = {
        "lock_name": lock_name,
        "operation": operation,
        "node": node,
        "retryable": retryable,
        "cause": cause,
        "skipped": skipped,
    }
    if found is LockTimeoutError:
        return LockTimeoutError(text, **common, holder=holder_of(holder))
    if found is LockLostError:
        return LockLostError(text, **common, reason=reason)
    return found(text, **common)


def is_not_granted(error: BaseException) -> bool:
    """Whether it says that a lock was not granted, for callers to whom that is `None` or `False`."""
    return isinstance(error, LockTimeoutError) or (isinstance(error, UnavailableError) and error.skipped)


_native.make_errors_by(_from_core)
