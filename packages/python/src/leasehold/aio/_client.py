"""The client of a program with asyncio."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterable
from os import PathLike
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from leasehold import _native, _process
from leasehold._client import open_native
from leasehold._context import TaskOwner
from leasehold._factories import Factories
from leasehold._holds import Holds
from leasehold._lease import ReleaseOutcome, outcome_of
from leasehold._settings import Duration, LockSettings, url_list
from leasehold._synchronized import NameTemplate, refuse_generators
from leasehold.aio._lease import Lease
from leasehold.aio._lock import BaseLock, Lock, ReadWriteLock
from leasehold.aio._mailbox import Mailbox, Request
from leasehold.aio._semaphore import Semaphore
from leasehold.errors import LockTimeoutError

P = ParamSpec("P")
R = TypeVar("R")


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
) -> Connecting:
    """Connects to a server: `client = await connect(url)`, or `async with connect(url) as client`.

    Arguments, defaults and errors are those of `leasehold.connect`; errors come when the
    result is awaited.
    """

    def start() -> _native.Client:
        files = (tls_ca_file, tls_cert_file, tls_key_file)
        return open_native(url, None, lease, command_timeout, connect_timeout, retry_interval, key_prefix, files, lazy)

    return Connecting(start, lazy)


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
) -> Connecting:
    """Connects to several independent primaries, of which a majority holds each lock:
    `client = await redlock(urls)`, or `async with redlock(urls) as client`.

    Arguments, defaults, errors and the promise are those of `leasehold.redlock`; errors
    come when the result is awaited.
    """

    def start() -> _native.Client:
        files = (tls_ca_file, tls_cert_file, tls_key_file)
        return open_native(
            None, url_list(urls), lease, command_timeout, connect_timeout, retry_interval, key_prefix, files, lazy
        )

    return Connecting(start, lazy)


class Connecting:
    """A client that is about to connect. Made by `connect` and `redlock`; awaited or entered once."""

    __slots__ = ("_client", "_lazy", "_start")

    def __init__(self, start: Callable[[], _native.Client], lazy: bool) -> None:
        self._start = start
        self._lazy = lazy
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> Client:
        native = self._start()
        mailbox = Mailbox(native)
        try:
            if not self._lazy:
                await mailbox.connected()
        except BaseException:
            mailbox.detach()
            raise
        return Client(native, mailbox)


class Client(Factories[Lock, ReadWriteLock, Semaphore, BaseLock]):
    """One connection to one server, or to each of several primaries, for the tasks of one
    event loop. Made by `connect` and `redlock`.

    As a context manager it closes itself. After a `fork` it works in the child's own
    loop too, which holds none of its parent's locks.
    """

    def __init__(self, native: _native.Client, mailbox: Mailbox) -> None:
        self._native = native
        self._mailbox = mailbox
        self._holds: Holds[Lease] = Holds(native, mailbox.watch_weakly)
        self._closed = False
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
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """Decorates a coroutine function so that it runs under a lock named after its arguments.

            @client.synchronized("user:{user_id}")
            async def pay(user_id: int) -> None: ...

        Raises `LockTimeoutError` after `wait`. The other arguments are those of `lock`.
        """

        def decorate(
            function: Callable[P, Coroutine[Any, Any, R]],
        ) -> Callable[P, Coroutine[Any, Any, R]]:
            refuse_generators(function)
            if not inspect.iscoroutinefunction(function):
                raise TypeError("a client of leasehold.aio decorates coroutine functions only")
            template = NameTemplate(name, function)

            @functools.wraps(function)
            async def synchronized(*args: P.args, **kwargs: P.kwargs) -> R:
                settings = LockSettings.of(
                    "lock", template.name_for(args, kwargs), wait, lease, renew, max_hold, fencing
                )
                async with Lock(self, settings):
                    return await function(*args, **kwargs)

            return synchronized

        return decorate

    async def force_release(self, lock: BaseLock) -> bool:
        """Takes a lock from whoever holds it; says whether anybody did. For operators.

        The holder goes on until its next renewal tells it of the loss. From a semaphore
        all permits are taken, from the read side of a lock all readers.

        Raises `InvalidArgumentError` for several locks as one and for a lock of another
        client, `UnavailableError` if the answer did not come: then look whether it is
        still held; `MisconfiguredError`, `ClosedError`. It goes on when its caller is
        cancelled.
        """
        settings = self._settings_of(lock, "release")
        was_held: bool = await self._mailbox.outcome("release", self._native.submit_force_release, settings.address)
        return was_held

    async def set_limit(self, name: str, limit: int) -> bool:
        """Changes the limit of the semaphore of that name: 1 to 1,000,000. For operators.

        Who holds permits keeps them; while more are held than the new limit allows, none
        is granted. From then on who asks with the old limit gets `MisconfiguredError`.
        Says whether it was changed: while nobody holds a permit there is no limit to
        change, and the next one to take some brings its own.

        Raises `InvalidArgumentError` for a limit out of its range, `UnavailableError` if
        the answer did not come: then ask again, twice is harmless; `MisconfiguredError`,
        `ClosedError`. It goes on when its caller is cancelled.
        """
        address = self._permit_address(name, limit)
        was_held: bool = await self._mailbox.outcome("set_limit", self._native.submit_set_limit, address)
        return was_held

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def close(self) -> None:
        """Closes the connection, within 0.5 s. Twice is harmless.

        Waiting tasks get `ClosedError`; what is held is lost with reason `closed`, and
        then released. A close whose caller is cancelled goes on.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self._mailbox.outcome("release", self._native.submit_close)
        finally:
            self._mailbox.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if sys.is_finalizing() or getattr(self, "_closed", True):
            return
        self._mailbox.detach_soon()
        held = [lease.id for lease in self._holds.all() if lease.is_valid()]
        if held:
            _process.keep_until_exit(self._native, held)
            warnings.warn(
                f"a Leasehold client was dropped while it held {len(held)} lock(s), "
                "which stay held; release them, or close the client",
                ResourceWarning,
                stacklevel=2,
            )

    async def _enter(self, settings: LockSettings, owner: TaskOwner | None) -> Lease:
        """Takes a lock, or raises `LockTimeoutError`."""
        request = self._mailbox.post(
            "acquire",
            self._native.submit_acquire,
            settings.address,
            None if owner is None else owner.number,
            settings.wait,
            settings.lease,
            settings.renew,
            settings.max_hold,
            settings.fencing,
            goes_on=False,
        )
        try:
            got = await request.future
        except BaseException:
            # Cancelled, or dropped with its loop.
            self._mailbox.abandon(request)
            raise
        if isinstance(got, LockTimeoutError):
            raise got
        lease = Lease(self, got, owner, settings.key)
        self._holds.add(lease)
        if owner is not None:
            owner.watch_end()
        return lease

    async def _take(self, settings: LockSettings, owner: TaskOwner | None) -> Lease | None:
        """Takes a lock; `None` if it is another's."""
        try:
            return await self._enter(settings, owner)
        except LockTimeoutError:
            return None

    def _release(self, lease: Lease) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Gives one grant back. In a loop that begins with the call: a task that is cancelled
        before its first step has released too."""
        if asyncio._get_running_loop() is None:
            return self._released(lease, None)
        return self._released(lease, self._post_release(lease))

    def _post_release(self, lease: Lease) -> Request:
        request = self._mailbox.post("release", self._native.submit_release, lease.id)
        self._forget(lease)
        return request

    async def _released(self, lease: Lease, request: Request | None) -> ReleaseOutcome:
        outcome: ReleaseOutcome = await self._mailbox.result(request or self._post_release(lease))
        return outcome_of(outcome, lease.lost_reason)

    def _forget(self, lease: Lease) -> None:
        """The lease is being given back."""
        self._holds.remove(lease)
        self._mailbox.unwatch(lease.id)

    def _lock_of(self, settings: LockSettings) -> Lock:
        return Lock(self, settings)

    def _read_write_of(self, read: Lock, write: Lock) -> ReadWriteLock:
        return ReadWriteLock(read, write)

    def _semaphore_of(self, settings: LockSettings, limit: int) -> Semaphore:
        return Semaphore(self, settings, limit)

    # What `_process` asks for.

    def _after_fork(self) -> None:
        self._mailbox = Mailbox(self._native)
        self._holds = Holds(self._native, self._mailbox.watch_weakly)

    def _stop(self) -> None:
        self._mailbox.end_last_loop()

    def _owners_have_ended(self, numbers: Iterable[int]) -> None:
        self._holds.owners_have_ended(numbers)

    def _stranded(self) -> tuple[_native.Client, list[int]]:
        return self._native, [
            lease.id
            for lease in self._holds.all()
            if lease.is_valid() and not (lease._owner and lease._owner.can_run_at_exit())
        ]
