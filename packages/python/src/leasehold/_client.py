"""The client of a program with threads."""

from __future__ import annotations

import functools
import inspect
import select
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from os import PathLike
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar

from leasehold import _native, _process
from leasehold._context import Caller, this_caller
from leasehold._events import Events
from leasehold._factories import Factories
from leasehold._greenlets import READABLE, refuse_eventlet, running_hub
from leasehold._holds import Holds
from leasehold._lease import Lease
from leasehold._lock import BaseLock, Lock, ReadWriteLock
from leasehold._semaphore import Semaphore
from leasehold._settings import Duration, LockSettings, flag, optional_milliseconds, path, retry_bounds, text, url_list
from leasehold._synchronized import NameTemplate, refuse_generators
from leasehold.errors import LockTimeoutError

P = ParamSpec("P")
R = TypeVar("R")
TlsFiles: TypeAlias = tuple[str | PathLike[str] | None, str | PathLike[str] | None, str | PathLike[str] | None]


def connect(
    url: str | None = None,
    *,
    lease: Duration | None = None,
    command_timeout: Duration | None = None,
    connect_timeout: Duration | None = None,
    retry_interval: tuple[Duration, Duration] | None = None,
    key_prefix: str | None = None,
    tls_ca_file: str | PathLike[str] | None = None,
    tls_cert_file: str | PathLike[str] | None = None,
    tls_key_file: str | PathLike[str] | None = None,
    lazy: bool = False,
) -> Client:
    """Connects to a server and gives the client.

    `url` is `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS,
    `redis+unix:///path`, or `memory://`, which excludes nobody outside of the process.
    Without it the environment variable `LEASEHOLD_URL` counts.

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

    With `lazy` nothing is asked before the first use, which connects: a module may make a
    client before its server is up. A use then waits for the connection as it does in an
    outage, within its own `wait`; `MisconfiguredError` comes at the first use and each later one.

    Raises `UnavailableError` if the server cannot be reached, `MisconfiguredError` if it
    refuses the password or is not one that locks can work with, if one side does not accept
    the other's certificate, and for no URL at all;
    `InvalidArgumentError` for a malformed URL or an option out of its range.
    """
    files = (tls_ca_file, tls_cert_file, tls_key_file)
    native = open_native(url, None, lease, command_timeout, connect_timeout, retry_interval, key_prefix, files, lazy)
    if not lazy:
        _wait_connected(native)
    return Client(native)


def redlock(
    urls: Iterable[str],
    *,
    lease: Duration | None = None,
    command_timeout: Duration | None = None,
    connect_timeout: Duration | None = None,
    retry_interval: tuple[Duration, Duration] | None = None,
    key_prefix: str | None = None,
    tls_ca_file: str | PathLike[str] | None = None,
    tls_cert_file: str | PathLike[str] | None = None,
    tls_key_file: str | PathLike[str] | None = None,
    lazy: bool = False,
) -> Client:
    """Connects to several independent primaries, and gives a client whose locks are RedLocks:
    each is held by a majority of the primaries, and goes on while a minority fails.

        with leasehold.redlock(["redis://one", "redis://two", "redis://three"]) as client:
            with client.lock("stock"):
                sell()

    `urls` is an odd number of them, 3 to 15, each as for `connect` and each another server
    that replicates from none of the others; `memory://` needs a name. `LEASEHOLD_URL` does
    not count. The other arguments and their defaults are those of `connect`, for each
    primary; but a waiter asks again after 10 to 200 ms, whatever `retry_interval` says.

    `lock(name)` and `mutex(name)` are the same lock here, in the records of other RedLock
    libraries. It is not reentrant: a thread that holds it and would wait for it again
    gets `InvalidArgumentError` at once. Its leases have no token. Other kinds are refused by
    `acquire` as `InvalidArgumentError`. If no majority can be
    reached, `acquire` raises `UnavailableError` after `wait`, which without a bound is one
    `lease`, and at once for a single try.

    The promise holds while a primary that restarts without its data stays away for as long
    as the longest lease.

    Raises `UnavailableError` if no majority can be reached, `MisconfiguredError` if a
    primary is listed twice, `InvalidArgumentError` for an even number of URLs; and otherwise
    what `connect` raises.
    """
    files = (tls_ca_file, tls_cert_file, tls_key_file)
    native = open_native(
        None, url_list(urls), lease, command_timeout, connect_timeout, retry_interval, key_prefix, files, lazy
    )
    if not lazy:
        _wait_connected(native)
    return Client(native)


class Client(Factories[Lock, ReadWriteLock, Semaphore, BaseLock]):
    """One connection to one server, or to each of several primaries. Made by `connect` and
    `redlock`; used by any number of threads.

    As a context manager it closes itself. After a `fork` it works in the child too,
    which holds none of its parent's locks.
    """

    def __init__(self, native: _native.Client) -> None:
        self._native = native
        self._closed = False
        self._start()
        _process.register(self)

    def synchronized(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        renew: bool = False,
        max_hold: Duration | None = None,
        fencing: bool = True,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorates a function so that it runs under a lock named after its arguments.

            @client.synchronized("user:{user_id}")
            def pay(user_id: int) -> None: ...

        Raises `LockTimeoutError` after `wait`. The other arguments are those of `lock`.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            refuse_generators(function)
            if inspect.iscoroutinefunction(function):
                raise TypeError("a coroutine function needs a client of leasehold.aio")
            template = NameTemplate(name, function)

            @functools.wraps(function)
            def synchronized(*args: P.args, **kwargs: P.kwargs) -> R:
                settings = LockSettings.of(
                    "lock", template.name_for(args, kwargs), wait, lease, renew, max_hold, fencing
                )
                with Lock(self, settings):
                    return function(*args, **kwargs)

            return synchronized

        return decorate

    def force_release(self, lock: BaseLock) -> bool:
        """Takes a lock from whoever holds it; says whether anybody did. For operators.

        The holder goes on until its next renewal tells it of the loss. From a semaphore
        all permits are taken, from the read side of a lock all readers.

        Raises `InvalidArgumentError` for several locks as one and for a lock of another
        client, `UnavailableError` if the answer did not come: then look whether it is
        still held; `MisconfiguredError`, `ClosedError`. After an interrupt it goes on.
        """
        settings = self._settings_of(lock, "release")
        return self._ask(self._native.force_release, self._native.submit_force_release, settings.address)

    def set_limit(self, name: str, limit: int) -> bool:
        """Changes the limit of the semaphore of that name: 1 to 1,000,000. For operators.

        Who holds permits keeps them; while more are held than the new limit allows, none
        is granted. From then on who asks with the old limit gets `MisconfiguredError`.
        Says whether it was changed: while nobody holds a permit there is no limit to
        change, and the next one to take some brings its own.

        Raises `InvalidArgumentError` for a limit out of its range, `UnavailableError` if
        the answer did not come: then ask again, twice is harmless; `MisconfiguredError`,
        `ClosedError`. After an interrupt it goes on.
        """
        return self._ask(self._native.set_limit, self._native.submit_set_limit, self._permit_address(name, limit))

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Closes the connection, within 0.5 s. Twice is harmless.

        Waiting threads get `ClosedError`; what is held is lost with reason `closed`, and
        then released.
        """
        self._closed = True
        hub = running_hub()
        if hub is None:
            self._native.close()
        else:
            self._events.waits.wait(hub, [], self._native.submit_close)
        self._events.deliver()
        self._events.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if sys.is_finalizing() or getattr(self, "_closed", True):
            return
        self._events.stop()
        held = [lease.id for lease in self._holds.all() if lease.is_valid()]
        if held:
            _process.keep_until_exit(self._native, held)
            warnings.warn(
                f"a Leasehold client was dropped while it held {len(held)} lock(s), "
                "which stay held; release them, or close the client",
                ResourceWarning,
                stacklevel=2,
            )

    def _acquire(self, settings: LockSettings) -> Lease | None:
        """Takes a lock; `None` if it is another's."""
        try:
            return self._enter(settings, [])
        except LockTimeoutError:
            return None

    def _enter(self, settings: LockSettings, entered: list[Lease]) -> Lease:
        """Takes a lock and appends its lease to `entered`."""
        refuse_eventlet("acquire")
        owner = this_caller()
        granted: list[_native.Lease] = []
        wanted = (
            settings.address,
            owner.number,
            settings.wait,
            settings.lease,
            settings.renew,
            settings.max_hold,
            settings.fencing,
        )
        hub = running_hub()
        try:
            if hub is None:
                beside = [lease._owner.number for lease in self._held_beside(owner)]
                self._native.acquire(granted, *wanted, beside, owner.interruptible)
            else:
                self._events.waits.wait(hub, granted, self._native.submit_acquire, *wanted, owner=owner.number)
            lease = Lease(self, granted[0], owner, settings.key)
            self._had_turns |= owner.takes_turns
            swept = self._holds.add(lease)
            owner.watch_end()
            entered.append(lease)
            if swept:
                self._events.drop_unheard()
        except BaseException:
            # Ctrl-C may strike between any two lines: a grant that the caller does
            # not get must not stay.
            for native in granted:
                self._native.release_later(native.id)
                self._holds.discard(native.id, settings.key, owner.number)
                entered[:] = [lease for lease in entered if lease._native is not native]
            raise
        return lease

    def _inspect(self, settings: LockSettings) -> _native.State:
        """Who holds a lock, as the server says."""
        return self._ask(self._native.inspect, self._native.submit_inspect, settings.address)

    def _ask(self, call: Callable[..., R], submit: Callable[..., int], *args: Any) -> R:
        """Asks the engine for something and gives the answer: `call` blocks the thread,
        `submit` lets the other greenlets of a hub go on."""
        hub = running_hub()
        if hub is None:
            return call(*args, this_caller().interruptible)
        answer: list[R] = []
        self._events.waits.wait(hub, answer, submit, *args)
        return answer[0]

    def _held_beside(self, caller: Caller) -> list[Lease]:
        """What others hold that take turns with the caller in its thread, and stand still while
        it waits: other tasks of its event loop, other greenlets, the thread around them."""
        if not (caller.takes_turns or self._had_turns):
            return []
        thread = caller.thread

        def is_beside(other: Caller) -> bool:
            by_turns = caller.takes_turns or other.takes_turns
            return by_turns and other is not caller and thread.is_that_of(other)

        return [lease for lease in self._holds.all() if is_beside(lease._owner)]

    def _lease_of(self, key: str, caller: Caller) -> Lease | None:
        """What the caller took last of this lock. What an ended task of its thread has left held
        counts too: in a notebook each cell is a task."""
        lease = self._holds.innermost(key, caller.number)
        if lease is not None:
            return lease
        left = [lease for lease in self._held_beside(caller) if lease._key == key and lease._owner.is_over()]
        return self._holds.innermost(key, left[-1]._owner.number) if left else None

    def _forget(self, lease: Lease) -> None:
        """The lease is being given back."""
        self._holds.remove(lease)
        self._events.unwatch(lease)

    def _lock_of(self, settings: LockSettings) -> Lock:
        return Lock(self, settings)

    def _read_write_of(self, read: Lock, write: Lock) -> ReadWriteLock:
        return ReadWriteLock(read, write)

    def _semaphore_of(self, settings: LockSettings, limit: int) -> Semaphore:
        return Semaphore(self, settings, limit)

    def _start(self) -> None:
        self._events = Events(self._native)
        self._holds: Holds[Lease] = Holds(self._native, self._events.watch_weakly)
        # Whether a task or a greenlet ever held something.
        self._had_turns = False
        self._mutex = threading.Lock()

    # What `_process` asks for.

    def _after_fork(self) -> None:
        self._events.leave_to_parent()
        self._start()

    def _stop(self) -> None:
        self._events.stop()

    def _owners_have_ended(self, numbers: Iterable[int]) -> None:
        self._holds.owners_have_ended(numbers)
        self._events.waits.owners_have_ended(numbers)

    def _stranded(self) -> tuple[_native.Client, list[int]]:
        return self._native, [
            lease.id for lease in self._holds.all() if lease.is_valid() and not lease._owner.can_run_at_exit()
        ]


def open_native(
    url: str | None,
    primaries: list[str] | None,
    lease: Duration | None,
    command_timeout: Duration | None,
    connect_timeout: Duration | None,
    retry_interval: tuple[Duration, Duration] | None,
    key_prefix: str | None,
    files: TlsFiles,
    lazy: bool,
) -> _native.Client:
    """Starts to connect. `files` are those of the authorities, the certificate and its key."""
    refuse_eventlet("connect")
    ca, cert, key = files
    return _native.Client(
        url=text(url, "the URL"),
        primaries=primaries,
        lease_ms=optional_milliseconds(lease),
        command_timeout_ms=optional_milliseconds(command_timeout),
        connect_timeout_ms=optional_milliseconds(connect_timeout),
        retry_interval_ms=retry_bounds(retry_interval),
        key_prefix=text(key_prefix, "key_prefix"),
        tls_ca_file=path(ca, "tls_ca_file"),
        tls_cert_file=path(cert, "tls_cert_file"),
        tls_key_file=path(key, "tls_key_file"),
        lazy=flag(lazy, "lazy"),
    )


def connection_result(completed: list[Any]) -> bool:
    """Whether the first connection was made, as `drain` tells; raises why it was not."""
    for request, _, error in completed:
        if request == _native.Client.CONNECT:
            if error is not None:
                raise error
            return True
    return False


def _wait_connected(native: _native.Client) -> None:
    hub = running_hub()
    # Waiting in `poll` lets Ctrl-C through.
    poller = select.poll()
    poller.register(native.fd, select.POLLIN)
    while True:
        if hub is None:
            poller.poll()
        else:
            hub.wait(hub.loop.io(native.fd, READABLE))
        completed, _ = native.drain()
        if connection_result(completed):
            return
