"""The client of a program with threads."""

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
from steadlock._settings import Duration, LockSettings, OnBusy, OnUnavailable, skips_if_busy
from steadlock._threads.connection import Connection
from steadlock._threads.events import wait_for
from steadlock._threads.greenlets import wait_in
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
    """Connects to a server and gives the client.

    `url` is `redis://[user:password@]host[:port][/db]`, `redis+sentinel://host,host/service` for
    the primary that sentinels name, `redis+cluster://host,host` for a cluster, each as `rediss…`
    for TLS; `redis+unix:///path`, or `memory://`, which excludes nobody outside of the process.
    `valkey` may stand for `redis`.
    Without it the environment variable `STEADLOCK_URL` counts.

    `lease` is how long a lock outlives its holder's process: the watchdog renews each
    lock that was given no lease of its own, every third of it. Default 30 s.
    `command_timeout` bounds the wait for an answer (3 s), `connect_timeout` that for a
    connection (5 s). A waiter that nothing wakes asks again after a time between the two of
    `retry_interval` (0.5 s, 0.75 s). `key_prefix` is put before every lock's name. Durations are seconds or
    `timedelta`.

    For `rediss://`, `tls_ca_file` is a PEM file of the authorities to trust instead of the
    system's. To a server that demands a client certificate, `tls_cert_file` is the PEM file
    of yours, and `tls_key_file` that of its private key, not encrypted. The files are read
    again for later connections, so that they can be replaced while the program runs.
    `tls_server_name` is what the certificates of all servers are to be for, instead of the host
    that is connected to: for nodes and sentinels that announce IP addresses.

    `address_map` says where the servers are reached that a cluster's nodes and sentinels
    announce, as behind NAT or out of a Kubernetes cluster: `{"10.0.0.1:6379": "localhost:7001"}`,
    with a port on both sides or on neither, an IPv6 address in brackets. Or it is a function
    that is given the announced `host:port` and gives the one to use, or `None` for "as it is
    announced". It is called before each connection, on a thread of its own, and may block; if
    it raises, that try to connect fails. The addresses of the URL are reached as they stand there.

    With `lazy` nothing is asked before the first use, which connects: a module may make a
    client before its server is up. A use then waits for the connection as it does in an
    outage, within its own `wait`; `MisconfiguredError` comes at the first use and each later one.

    With a circuit breaker for each primary, an acquisition is not attempted while its primary is
    known not to answer. `on_unavailable` says what becomes of it then:

    - `"fail"` (default): it fails at once, as `UnavailableError`
    - `"local"`: it is granted a degraded lease, which excludes others of this client alone and
      has no token; see `Lease.degraded`. Only `lock`, `mutex`, `fair_lock` and several of these as
      one; acquisitions of the other kinds fail
    - `"skip"`: it is not granted. `try_acquire` gives `None`, and `acquire` `False` where it could
      time out; where a call gives a lease or raises, as `with` does, it raises `UnavailableError`
      with `skipped`, and no body runs. A `synchronized` function gives `None` without running

    A lock may have it otherwise. `breaker_failures` is how many failures in a row open the breaker
    (5; 1 to 1,000,000): calls without an answer in time, lost and refused connections, a server
    that says it cannot serve. `breaker_pause` is the time between two probes while it is open
    (10 s); any answer closes it. Each of the three switches the breaker on; default: none.

    With `metrics` the client counts what it does, for `Client.metrics`: by group of locks, which
    is what stands before the first `:` of a name, never by name. `metrics_groups` is how many
    groups are told apart (100; 1 to 10,000), further ones count as `other`. `metrics_queues` names
    fair locks, up to 100, whose queues on the server are counted every 15 s; not of `redlock`.

    The client says on its servers which program on which machine it is, and asks others the same,
    so that `Holder.client`, `LockTimeoutError` and the commands for operators name programs: host,
    process id, program, Python's version, Steadlock's version, since when. That is one call at the
    first use and one in 30 s while it is in use, and is gone after 90 s; anybody who may read
    the server's keys can read it. `client_label` is what else it says, up to 200 characters of one line;
    `client_info=False` switches all of it off.

    Raises `UnavailableError` if the server cannot be reached, `MisconfiguredError` if it
    refuses the password or is not one that locks can work with, if one side does not accept
    the other's certificate, and for no URL at all;
    `InvalidArgumentError` for a malformed URL or an option out of its range.
    """
    refuse_others("connect", options)
    return _client_of(open_native(url, None, lazy, options), lazy)


@with_options
def redlock(
    urls: Iterable[str],
    *,
    lazy: bool = False,
    **options: Unpack[ClientOptions],
) -> Client:
    """Connects to several independent primaries, and gives a client whose locks are RedLocks:
    each is held by a majority of the primaries, and goes on while a minority fails.

        with steadlock.redlock(["redis://one", "redis://two", "redis://three"]) as client:
            with client.lock("stock"):
                sell()

    `urls` is an odd number of them, 3 to 15, each as for `connect` and each another server
    that replicates from none of the others; `memory://` needs a name. `STEADLOCK_URL` does
    not count. The other arguments and their defaults are those of `connect`, for each
    primary; but a waiter asks again after 10 to 200 ms, whatever `retry_interval` says, and
    `on_unavailable` is not `"local"`, which is `InvalidArgumentError`. It counts while so many
    breakers are open that the others are no majority.

    `lock(name)` and `mutex(name)` are the same lock here, in the records of other RedLock
    libraries. It is not reentrant: a thread that holds it and would wait for it again
    gets `InvalidArgumentError` at once. Its leases have no token. Other kinds are refused by
    `acquire` as `InvalidArgumentError`. If no majority can be
    reached, `acquire` raises `UnavailableError` after `wait`, which without a bound is one
    `lease`, and at once for a single attempt.

    The promise holds while a primary that restarts without its data stays away for as long
    as the longest lease.

    Raises `UnavailableError` if no majority can be reached, `MisconfiguredError` if a
    primary is listed twice, `InvalidArgumentError` for an even number of URLs; and otherwise
    what `connect` raises.
    """
    refuse_others("redlock", options)
    return _client_of(open_native(None, url_list(urls), lazy, options), lazy)


class Client(ClientBase[Connection[Lease], Lock, ReadWriteLock, Semaphore, BaseLock]):
    """One connection to one server, or to each of several primaries. Made by `connect` and
    `redlock`; used by any number of threads.

    As a context manager it closes itself. After a `fork` it works in the child too,
    which holds none of its parent's locks.
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
        """Decorates a function so that it runs under a lock named after its arguments.

            @client.synchronized("user:{user_id}")
            def pay(user_id: int) -> None: ...

        Raises `LockTimeoutError` after `wait`. With `on_busy="skip"` the call gives `None` instead,
        and the function does not run: `wait=0` skips it at once if another owner holds the lock. So
        it does, whatever `on_busy` says, if the lock is skipped in an outage
        (`on_unavailable="skip"`, here or of the client). The other arguments are those of `lock`.
        """

        # It needs `inspect`, which takes as long to load as the rest of this package.
        from steadlock._synchronized import NameTemplate, is_coroutine_function, is_skipped, refuse_generators

        if_busy = skips_if_busy(on_busy)

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
                    if is_entered or not is_skipped(error, if_busy):
                        raise
                    return None

            return synchronized

        return decorate

    def force_release(self, lock: BaseLock) -> bool:
        """Takes a lock from its holder; says whether there was one. For operators.

        The holder goes on until its next renewal tells it of the loss. From a semaphore
        all permits are taken, from the read side of a lock all readers.

        Raises `InvalidArgumentError` for several locks as one and for a lock of another
        client, `UnavailableError` if the answer did not come: then look whether it is
        still held; `MisconfiguredError`, `ClosedError`. After an interrupt it goes on.
        """
        native, address = self._connection.native, self._settings_of(lock, "release").address
        return self._connection.ask(native.force_release, native.submit_force_release, address)

    def set_limit(self, name: str, limit: int) -> bool:
        """Changes the limit of the semaphore of that name: 1 to 1,000,000. For operators.

        Who holds permits keeps them; while more are held than the new limit allows, none
        is granted. From then on who asks with the old limit gets `MisconfiguredError`.
        Says whether it was changed: while nobody holds a permit there is no limit to
        change, and the next one to take some brings its own.

        Raises `InvalidArgumentError` for a limit out of its range, `UnavailableError` if
        the answer did not come: then ask again, it is idempotent; `MisconfiguredError`,
        `ClosedError`. After an interrupt it goes on.
        """
        native, address = self._connection.native, self._permit_address(name, limit)
        return self._connection.ask(native.set_limit, native.submit_set_limit, address)

    def close(self) -> None:
        """Closes the connection, within 0.5 s. Idempotent.

        Waiting threads get `ClosedError`; what is held is lost with reason `closed`, and
        then released.
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

    def _lock_of(self, settings: LockSettings) -> Lock:
        return Lock(self._connection, settings)

    def _read_write_of(self, read: Lock, write: Lock) -> ReadWriteLock:
        return ReadWriteLock(read, write)

    def _semaphore_of(self, settings: LockSettings) -> Semaphore:
        return Semaphore(self._connection, settings)


CONNECT_LOOK = 0.1
"""How long an interrupt of another thread may go unnoticed while a client connects, in seconds."""


def _client_of(native: _native.Client, lazy: bool) -> Client:
    if not lazy:
        _wait_connected(native)
    connection: Connection[Lease] = Connection(native)
    # A program that has imported gevent may be about to patch threads, and none is to run yet then.
    if "gevent" not in sys.modules:
        connection.events.watch_for_log()
    return Client(connection)


def _wait_connected(native: _native.Client) -> None:
    hub = running_hub()
    descriptor = Descriptor(native)
    while True:
        if hub is None:
            # An exception that another thread has raised here strikes between two of these.
            wait_for(descriptor, CONNECT_LOOK)
        else:
            wait_in(hub, descriptor)
        completed, _, lines = native.drain()
        _log.write(lines)
        for request, _, error in completed:
            if request == _native.Client.CONNECT:
                if error is not None:
                    raise error
                return
