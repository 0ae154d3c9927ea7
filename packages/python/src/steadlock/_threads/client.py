"""The client for threads."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Literal, ParamSpec, Self, TypeVar, Unpack, overload

from steadlock import _log, _native
from steadlock._client import ClientBase
from steadlock._context import running_hub
from steadlock._descriptor import Descriptor
from steadlock._options import ClientOptions, open_native, refuse_others, url_list, with_options
from steadlock._settings import Duration, LockSettings, OnBusy, OnUnavailable, checked_on_busy
from steadlock._synchronized import NameTemplate, is_coroutine_function, is_skipped, refuse_generators
from steadlock._threads.connection import Connection
from steadlock._threads.events import wait_for_events
from steadlock._threads.greenlets import wait_in_hub
from steadlock._threads.job import Job
from steadlock._threads.leader import Leader
from steadlock._threads.lease import Lease
from steadlock._threads.lock import BaseLock, Lock, ReadWriteLock
from steadlock._threads.semaphore import Semaphore
from steadlock.errors import LockTimeoutError, UnavailableError

P = ParamSpec("P")
R = TypeVar("R")


@with_options
def connect(
    url: str | None = None,
    *,
    lazy: bool = False,
    **options: Unpack[ClientOptions],
) -> Client:
    """Connects to a server, and returns the client.

    `url` is `redis://[user:password@]host[:port][/db]`, `redis+sentinel://host,host/service` for the primary that
    sentinels name, or `redis+cluster://host,host` for a cluster, each as `rediss…` for TLS; `redis+unix:///path`, or
    `memory://`, whose locks exclude no other process. `valkey` is accepted in place of `redis`. Default: the
    environment variable `STEADLOCK_URL`.

    With `lazy` the first use connects, so a module can make a client before its server is up. An acquisition then waits
    for the connection as long as its `wait` allows, as in an outage. If locks cannot work with the server, the first
    use and each later one raise `MisconfiguredError`.

    `ClientOptions` documents the other options.

    Raises `UnavailableError` if the server cannot be reached; `MisconfiguredError` if the server refuses the password,
    if locks cannot work with it, if one side does not accept the other's certificate, and without any URL;
    `InvalidArgumentError` for a malformed URL or an option out of its range.
    """
    refuse_others("connect", options)
    return _make_client(open_native(url, None, lazy, options), lazy)


@with_options
def redlock(
    urls: Iterable[str],
    *,
    lazy: bool = False,
    **options: Unpack[ClientOptions],
) -> Client:
    """Connects to several independent primaries, and returns a client whose locks are RedLocks: a majority of the
    primaries holds each lock, so it survives the failure of a minority.

        with steadlock.redlock(["redis://one", "redis://two", "redis://three"]) as client:
            with client.lock("stock"):
                sell()

    `urls` is an odd number of URLs, 3 to 15, each as for `connect`, of different servers none of which is a replica of
    another; `memory://` needs a name. `STEADLOCK_URL` is not used. The other arguments and their defaults are those of
    `connect`, for each primary, with these exceptions: a waiter polls after 10 to 200 ms and ignores `retry_interval`,
    and `on_unavailable="local"` and `metrics_queues` raise `InvalidArgumentError`. `on_unavailable` applies when so
    many breakers are open that the other primaries are no majority.

    `lock(name)` and `mutex(name)` return the same lock here, with the records of other RedLock libraries. The lock is
    not reentrant: a thread that holds it and would wait for it again gets `InvalidArgumentError` at once. Its leases
    have no token. For other kinds `acquire` raises `InvalidArgumentError`. If no majority can be reached, `acquire`
    raises `UnavailableError` after `wait`. If the wait has no bound, it does so after the time of the client's `lease`;
    for a single attempt, as soon as each primary has answered or its response timeout is over (a tenth of the lease, 50
    to 500 ms).

    The guarantee requires that a primary which restarts without its data stays away for as long as the longest lease.

    Raises `UnavailableError` if no majority can be reached, `MisconfiguredError` if a primary is listed twice,
    `InvalidArgumentError` for an even number of URLs, and otherwise the errors of `connect`.
    """
    refuse_others("redlock", options)
    return _make_client(open_native(None, url_list(urls), lazy, options), lazy)


class Client(ClientBase[Connection[Lease], Lock, ReadWriteLock, Semaphore, BaseLock, Job, Leader]):
    """A client of one server, or of several primaries. Made by `connect` and `redlock`; any number of threads can use
    it.

    As a context manager, it closes at the end. After a `fork` it works in the child too, except with `memory://`; the
    child holds none of its parent's locks.
    """

    @overload
    def synchronized(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: OnUnavailable | None = None,
        on_busy: Literal["skip"],
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...
    @overload
    def synchronized(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: Literal["skip"],
        on_busy: OnBusy = "raise",
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...
    @overload
    def synchronized(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: Literal["fail", "local"] | None = None,
        on_busy: Literal["raise"] = "raise",
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def synchronized(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
        on_unavailable: OnUnavailable | None = None,
        on_busy: OnBusy = "raise",
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
        """Decorates a function: each call holds a lock whose name can contain the arguments of the call.

            @client.synchronized("user:{user_id}")
            def pay(user_id: int) -> None: ...

        A call raises `LockTimeoutError` after `wait`. With `on_busy="skip"` it returns `None` instead, and the function
        does not run: with `wait=0`, this happens at once if another owner holds the lock. If the lock is skipped in an
        outage (`on_unavailable="skip"`, here or for the client), the call returns `None` for either value of `on_busy`.
        The other arguments are those of `lock`.
        """

        skip_if_busy = checked_on_busy(on_busy)

        def lock_of(key: str) -> Lock:
            return self.lock(
                key,
                wait=wait,
                lease=lease,
                renew=renew,
                max_hold=max_hold,
                fencing=fencing,
                on_unavailable=on_unavailable,
            )

        def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
            refuse_generators(function)
            if is_coroutine_function(function):
                raise TypeError("a coroutine function needs a client of steadlock.aio")
            template = NameTemplate(name, function)

            @functools.wraps(function)
            def synchronized(*args: P.args, **kwargs: P.kwargs) -> R | None:
                key = template.name_for(args, kwargs)
                is_entered = False
                try:
                    with lock_of(key):
                        is_entered = True
                        return function(*args, **kwargs)
                except (LockTimeoutError, UnavailableError) as error:
                    if is_entered or not is_skipped(error, skip_if_busy):
                        raise
                    return None

            return synchronized

        return decorate

    def force_release(self, lock: BaseLock | Job | Leader) -> bool:
        """Removes the record of a lock, so that its holder loses the lock. Returns whether the lock was held. For
        operators.

        The holder continues until its next renewal finds the loss, or with a fixed lease until its deadline. For a
        semaphore, removes the records of all permits; for a read side, those of all readers. A job may run again at
        once, unless its key is done.

        Raises `InvalidArgumentError` for a `multi_lock` and for a lock of another client; `UnavailableError` if no
        reply came (of `redlock`: no majority of replies): then check whether the lock is still held;
        `MisconfiguredError`, `ClosedError`. An interrupt does not stop it.
        """
        native, wanted = self._connection.native, self._own_settings(lock, "release").lock
        return self._connection.call(native.force_release, native.submit_force_release, wanted)

    def set_limit(self, name: str, limit: int) -> bool:
        """Changes the limit of the semaphore of this name: 1 to 1,000,000. For operators.

        Holders keep their permits, and none is granted while more are held than the new limit allows. From then on,
        calls with the old limit get `MisconfiguredError`. Returns whether the limit was changed: while no permit is
        held there is no limit to change, and the next acquisition sets its own.

        Raises `InvalidArgumentError` for a limit out of its range and for a client of `redlock`; `UnavailableError` if
        no reply came: then call again, because the call is idempotent; `MisconfiguredError`, `ClosedError`. An
        interrupt does not stop it.
        """
        native, permit = self._connection.native, self._permit_of(name, limit)
        return self._connection.call(native.set_limit, native.submit_set_limit, permit)

    def close(self) -> None:
        """Closes the client; waits at most 0.5 s for its servers. Idempotent.

        Waiting threads get `ClosedError`; held leases are lost with the reason `closed` and then released.
        """
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _make_lock(self, settings: LockSettings) -> Lock:
        return Lock(self._connection, settings)

    def _make_read_write_lock(self, read: Lock, write: Lock) -> ReadWriteLock:
        return ReadWriteLock(read, write)

    def _make_semaphore(self, settings: LockSettings) -> Semaphore:
        return Semaphore(self._connection, settings)

    def _make_job(self, settings: LockSettings) -> Job:
        return Job(self._connection, settings)

    def _make_leader(self, settings: LockSettings) -> Leader:
        return Leader(self._connection, settings)


CONNECT_CHECK_INTERVAL = 0.1
"""How often a thread that connects looks for an exception that another thread raises in it, in seconds."""


def _make_client(native: _native.Client, lazy: bool) -> Client:
    if not lazy:
        _wait_connected(native)
    connection: Connection[Lease] = Connection(native)
    # A program that has imported gevent can be about to patch `threading`, and no thread may run before that.
    if "gevent" not in sys.modules:
        connection.events.ensure_delivery()
    return Client(connection)


def _wait_connected(native: _native.Client) -> None:
    hub = running_hub()
    descriptor = Descriptor(native)
    while True:
        if hub is None:
            # An exception that another thread raises in this one occurs between two of these waits.
            wait_for_events(descriptor, CONNECT_CHECK_INTERVAL)
        else:
            wait_in_hub(hub, descriptor)
        completed, _, lines = native.drain()
        _log.write(lines)
        for request, _, error in completed:
            if request == _native.Client.CONNECT:
                if error is not None:
                    raise error
                return
