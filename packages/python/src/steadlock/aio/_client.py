"""The client for asyncio."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Generator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, ParamSpec, Self, TypeVar, Unpack, overload

from steadlock import _native
from steadlock._client import ClientBase
from steadlock._not_copyable import CLIENT_COPY_ADVICE, NotCopyable
from steadlock._options import ClientOptions, open_native, refuse_others, url_list, with_options
from steadlock._settings import Duration, LockSettings, OnBusy, OnUnavailable, checked_on_busy, flag
from steadlock._synchronized import NameTemplate, is_coroutine_function, is_skipped, refuse_generators
from steadlock.aio._connection import Connection
from steadlock.aio._job import Job
from steadlock.aio._leader import Leader
from steadlock.aio._lease import Lease
from steadlock.aio._lock import BaseLock, Lock, ReadWriteLock
from steadlock.aio._semaphore import Semaphore
from steadlock.errors import LockTimeoutError, UnavailableError

P = ParamSpec("P")
R = TypeVar("R")


@overload
def connect(
    url: str | None = None,
    *,
    lazy: Literal[False] = False,
    **options: Unpack[ClientOptions],
) -> Connecting: ...
@overload
def connect(
    url: str | None = None,
    *,
    lazy: Literal[True],
    **options: Unpack[ClientOptions],
) -> LazyClient: ...
@overload
def connect(
    url: str | None = None,
    *,
    lazy: bool,
    **options: Unpack[ClientOptions],
) -> Connecting | LazyClient: ...
@with_options
def connect(
    url: str | None = None,
    *,
    lazy: bool = False,
    **options: Unpack[ClientOptions],
) -> Connecting | LazyClient:
    """Connects to a server: `client = await connect(url)`, or `async with connect(url) as client`.

    Arguments, defaults and errors are those of `steadlock.connect`; the errors are raised when the result is awaited.

    With `lazy` this call itself raises the errors of arguments, and returns a client at once. The client connects at
    its first use. A module can make such a client before any event loop runs, and use it for decorators. Awaiting the
    client returns the client itself.

        client = connect(url, lazy=True)

        @client.synchronized("user:{user_id}")
        async def pay(user_id: int) -> None: ...
    """

    refuse_others("connect", options)

    def start() -> _native.Client:
        return open_native(url, None, lazy, options)

    return LazyClient(Connection(start())) if flag(lazy, "lazy") else Connecting(start)


@overload
def redlock(
    urls: Iterable[str],
    *,
    lazy: Literal[False] = False,
    **options: Unpack[ClientOptions],
) -> Connecting: ...
@overload
def redlock(
    urls: Iterable[str],
    *,
    lazy: Literal[True],
    **options: Unpack[ClientOptions],
) -> LazyClient: ...
@overload
def redlock(
    urls: Iterable[str],
    *,
    lazy: bool,
    **options: Unpack[ClientOptions],
) -> Connecting | LazyClient: ...
@with_options
def redlock(
    urls: Iterable[str],
    *,
    lazy: bool = False,
    **options: Unpack[ClientOptions],
) -> Connecting | LazyClient:
    """Connects to several independent primaries, a majority of which holds each lock: `client = await redlock(urls)`,
    or `async with redlock(urls) as client`.

    Arguments, defaults, errors and the guarantee are those of `steadlock.redlock`; the errors are raised when the
    result is awaited. `lazy` is as for `connect`.
    """

    refuse_others("redlock", options)

    def start() -> _native.Client:
        return open_native(None, url_list(urls), lazy, options)

    return LazyClient(Connection(start())) if flag(lazy, "lazy") else Connecting(start)


class Connecting(NotCopyable):
    """A client that has not connected yet. Made by `connect` and `redlock`. Await or enter it once: each time connects
    another client.
    """

    __slots__ = ("_client", "_start")
    _copy_advice = CLIENT_COPY_ADVICE

    def __init__(self, start: Callable[[], _native.Client]) -> None:
        self._start = start
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

    if not TYPE_CHECKING:
        # Type checkers report every missing name themselves.
        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not hasattr(Client, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(
                f"this is not a client yet and has no {name!r}: await it, enter it by `async with`, "
                "or connect with lazy=True, which returns a client at once"
            )

    async def _connect(self) -> Client:
        connection: Connection[Lease] = Connection(self._start())
        try:
            await connection.mailbox.connected()
        except BaseException:
            connection.mailbox.detach()
            raise
        return Client(connection)


class Client(ClientBase[Connection[Lease], Lock, ReadWriteLock, Semaphore, BaseLock, Job, Leader]):
    """A client of one server, or of several primaries, for the tasks of one event loop. Made by `connect` and
    `redlock`.

    As a context manager, it closes at the end. After a `fork` it works in the child's own loop too, except with
    `memory://`; the child holds none of its parent's locks.
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
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R | None]]]: ...
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
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R | None]]]: ...
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
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]: ...
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
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R | None]]]:
        """Decorates a coroutine function: each call holds a lock whose name can contain the arguments of the call.

            @client.synchronized("user:{user_id}")
            async def pay(user_id: int) -> None: ...

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

        def decorate(
            function: Callable[P, Coroutine[Any, Any, R]],
        ) -> Callable[P, Coroutine[Any, Any, R | None]]:
            refuse_generators(function)
            if not is_coroutine_function(function):
                raise TypeError("a client of steadlock.aio decorates coroutine functions only")
            template = NameTemplate(name, function)

            @functools.wraps(function)
            async def synchronized(*args: P.args, **kwargs: P.kwargs) -> R | None:
                key = template.name_for(args, kwargs)
                is_entered = False
                try:
                    async with lock_of(key):
                        is_entered = True
                        return await function(*args, **kwargs)
                except (LockTimeoutError, UnavailableError) as error:
                    if is_entered or not is_skipped(error, skip_if_busy):
                        raise
                    return None

            return synchronized

        return decorate

    async def force_release(self, lock: BaseLock | Job | Leader) -> bool:
        """Removes the record of a lock, so that its holder loses the lock. Returns whether the lock was held. For
        operators.

        The holder continues until its next renewal finds the loss, or with a fixed lease until its deadline. For a
        semaphore, removes the records of all permits; for a read side, those of all readers. A job may run again at
        once, unless its key is done.

        Raises `InvalidArgumentError` for a `multi_lock` and for a lock of another client; `UnavailableError` if no
        reply came (of `redlock`: no majority of replies): then check whether the lock is still held;
        `MisconfiguredError`, `ClosedError`. A cancellation of the caller does not stop it.
        """
        connection, wanted = self._connection, self._own_settings(lock, "release").lock
        was_held: bool = await connection.mailbox.call("release", connection.native.submit_force_release, wanted)
        return was_held

    async def set_limit(self, name: str, limit: int) -> bool:
        """Changes the limit of the semaphore of this name: 1 to 1,000,000. For operators.

        Holders keep their permits, and none is granted while more are held than the new limit allows. From then on,
        calls with the old limit get `MisconfiguredError`. Returns whether the limit was changed: while no permit is
        held there is no limit to change, and the next acquisition sets its own.

        Raises `InvalidArgumentError` for a limit out of its range and for a client of `redlock`; `UnavailableError` if
        no reply came: then call again, because the call is idempotent; `MisconfiguredError`, `ClosedError`. A
        cancellation of the caller does not stop it.
        """
        connection, permit = self._connection, self._permit_of(name, limit)
        was_held: bool = await connection.mailbox.call("set_limit", connection.native.submit_set_limit, permit)
        return was_held

    async def close(self) -> None:
        """Closes the client; waits at most 0.5 s for its servers. Idempotent.

        Waiting tasks get `ClosedError`; held leases are lost with the reason `closed` and then released. A cancellation
        of the caller does not stop the close.
        """
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

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


class LazyClient(Client):
    """A client that connects at its first use. Made by `connect` and `redlock` with `lazy=True`.

    Awaiting it returns the client itself, so `client = await connect(url, lazy=True)` works too.
    """

    def __await__(self) -> Generator[Any, None, Client]:
        return self
        yield  # Never reached; it makes this function a generator. There is nothing to wait for.
