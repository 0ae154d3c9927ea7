"""The exceptions of the package. `SteadlockError` is their base class.

The classes are the same in every language of Steadlock. The message of an exception names the operation, the cause and
what to do, and the lock if one was involved. No message contains a password.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple, TypedDict

from steadlock import _native
from steadlock._outcomes import SkipReason
from steadlock._shown import shown


class ClientInfo(NamedTuple):
    """The program and the machine of a client, as the client itself reports them. For people to read: nothing verifies
    the report.
    """

    host: str
    """The machine's name."""
    pid: int
    """The process id on that machine."""
    program: str
    """The program's name, without its folder and its arguments."""
    language: str
    """The language of the program, and its version: `python 3.11.7`."""
    version: str
    """The version of Steadlock."""
    since: datetime
    """The time at which the client was made, in UTC by that machine's clock."""
    label: str
    """The client's `client_label`; empty if it has none."""


class Holder(NamedTuple):
    """The holder of a lock, by the server's last reply."""

    owner: str
    """The owner id in the server's record."""
    remaining: float | None
    """The seconds from the server's reply until the record expires if nothing renews it; `None` if it never expires."""
    client: ClientInfo | None = None
    """The program of the holder; `None` if it is not known, for example for a holder with another library."""


def holder_of(holder: _native.Holder | None) -> Holder | None:
    """Converts a holder of the core."""
    if holder is None:
        return None
    owner, remaining, info = holder
    return Holder(owner, remaining, client_info(info))


def client_info(info: _native.Info | None) -> ClientInfo | None:
    """Converts the information of a client of the core."""
    if info is None:
        return None
    host, pid, program, language, version, since, label = info
    return ClientInfo(host, pid, program, language, version, time_of(since), label)


def time_of(seconds: float) -> datetime:
    """Returns a time that came from the server, where any program can have written it."""
    last = datetime.max.replace(tzinfo=UTC)
    return datetime.fromtimestamp(seconds, UTC) if seconds < last.timestamp() else last


class SteadlockError(Exception):
    """The base class of all exceptions of this package."""

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
        """The operation that failed: `connect`, `acquire`, `release`, `extend`, `inspect` or `set_limit`."""
        self.node = node
        """The server that did not answer, or whose configuration does not work with locks: its address without user and
        password; with several primaries, the addresses of all of them. `None` if the error concerns no server.
        """
        self.retryable = retryable
        """Whether the same call can succeed later without any change to the program or the servers."""
        self.cause = cause
        """The message of the server or of the network, or the reason why no reply came, without advice. For a
        `LockLostError`, how the lease was lost. `None` for an error without such a cause, such as a bad argument, a
        closed client or a fork.
        """
        self.skipped = skipped
        """Whether the lock was skipped because its server was unavailable and `on_unavailable` is `"skip"`. Only an
        `UnavailableError` can have this.
        """


class ClosedError(SteadlockError, RuntimeError):
    """The client was closed."""


class ForkedError(SteadlockError, RuntimeError):
    """The object was made before a `fork`, and does not work in the child."""


class InvalidArgumentError(SteadlockError, ValueError):
    """An argument is out of its range, or the caller would wait for itself. Nothing was sent."""


class LockLostError(SteadlockError, RuntimeError):
    """The lease ended before its holder released it."""

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
        """The reason for the loss, if it is known: `expired`, `removed`, `stolen`, `max_hold` or `closed`. If a release
        was the first to find the loss, it is `expired` or `stolen`.
        """


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
        """The holder of the lock by the server's last reply, if it is known."""


class MisconfiguredError(SteadlockError, RuntimeError):
    """The server, or the program around the client, has a configuration with which the lock cannot work."""


class NotOwnerError(SteadlockError, RuntimeError):
    """The calling thread or task does not hold the lock that it wants to release or extend, or the lease was released
    before.
    """


class SkippedError(SteadlockError, RuntimeError):
    """A job was not run, because another run of it is going on, or it is done, or the server is unavailable."""

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
        reason: SkipReason | None = None,
        since: datetime | None = None,
        took: float | None = None,
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
        self.reason = reason
        """Why the job was not run: `running` (another run is going on), `done` (the job or the key is done), or
        `unavailable` (the server is unavailable, and `on_unavailable` is `"skip"`).
        """
        self.since = since
        """When the other run began, in UTC by the server's clock, if there is one."""
        self.took = took
        """How many seconds the other run took; `None` while it is going on."""
        self.holder = holder
        """The program that runs or ran the job, and for how many seconds others are kept out if nothing renews the
        run.
        """


class UnavailableError(SteadlockError, ConnectionError):
    """The server did not answer in time, could not be reached, or temporarily cannot serve. With `skipped`, the lock
    was skipped for that reason.
    """


class _Common(TypedDict):
    """The fields that every exception has besides its message."""

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
    "Skipped": SkippedError,
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
    skip: _native.Skip | None,
) -> SteadlockError:
    """Makes the exception for an error of the core."""
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
    if found is SkippedError and skip is not None:
        why, since, took = skip
        began = None if since is None else time_of(since)
        return SkippedError(text, **common, reason=why, since=began, took=took, holder=holder_of(holder))
    if found is LockLostError:
        return LockLostError(text, **common, reason=reason)
    return found(text, **common)


def is_not_granted(error: BaseException) -> bool:
    """Whether the error means that a lock was not granted, for callers that return `None` or `False` then."""
    return isinstance(error, LockTimeoutError) or (isinstance(error, UnavailableError) and error.skipped)


_native.make_errors_by(_from_core)
