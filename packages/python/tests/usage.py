"""Code like that of programs, only for type checkers: mypy and pyright check it, and it is never run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar, assert_type

import steadlock
from steadlock import aio

P = ParamSpec("P")
R = TypeVar("R")
client = steadlock.connect("memory://", lease=timedelta(seconds=30), lazy=True)


def every_scope_gives_a_lease() -> None:
    with client.lock("a") as lease:
        assert_type(lease, steadlock.Lease)
        assert_type(lease.token, int | None)
    with client.mutex("a") as lease, client.fair_lock("b") as other:
        assert_type(other, steadlock.Lease)
    with client.read_write_lock("a").read as lease, client.read_write_lock("a").write as lease:
        assert_type(lease, steadlock.Lease)
    with client.semaphore("a", 3) as lease, client.semaphore("a", 3).hold(permits=2, wait=5) as lease:
        assert_type(lease, steadlock.Lease)
    with client.multi_lock([client.lock("a"), client.semaphore("b", 3), client.semaphore("b", 3).permits(2)]) as lease:
        assert_type(lease, steadlock.Lease)
    with client.lock("a").hold(wait=timedelta(seconds=1), lease=None, max_hold=steadlock.INHERIT) as lease:
        assert_type(lease, steadlock.Lease)
    with client as same, steadlock.redlock(["memory://a", "memory://b", "memory://c"]) as several:
        assert_type(same, steadlock.Client)
        assert_type(several, steadlock.Client)


def a_scope_swallows_nothing() -> int:
    # The type checker needs no line after the `with`, because the `with` suppresses no exception.
    with client.lock("a"), client.lock("b").hold(), client.semaphore("c", 3):
        return 1


def exit_stacks(names: list[str]) -> None:
    with ExitStack() as stack:
        assert_type(stack.enter_context(client.lock("a")), steadlock.Lease)
        assert_type(stack.enter_context(client.lock("a").hold(wait=1)), steadlock.Lease)
        assert_type(stack.enter_context(client.semaphore("a", 2)), steadlock.Lease)
        assert_type(stack.enter_context(steadlock.connect("memory://")), steadlock.Client)
        leases = [stack.enter_context(client.lock(name)) for name in names]
        assert_type(leases, list[steadlock.Lease])
        stack.push(client.lock("b"))
        stack.callback(leases[0].release)


def protocols() -> None:
    scope: AbstractContextManager[steadlock.Lease] = client.lock("a")
    scope = client.lock("a").hold()
    scope = client.semaphore("a", 3)
    scope = client.multi_lock([client.lock("a")])
    whatever: AbstractContextManager[object] = client
    either: AbstractContextManager[steadlock.Lease | None] = client.lock("a") if number_of(scope) else nullcontext()
    with scope, whatever, either as lease:
        assert_type(lease, steadlock.Lease | None)


def number_of(*scopes: AbstractContextManager[Any]) -> int:
    return len(scopes)


class LikeThreading(Protocol):
    """The lock interface of a library that also accepts a `threading.Lock`."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...
    def release(self) -> object: ...
    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None, /
    ) -> object: ...


def guarded(lock: LikeThreading) -> None:
    if lock.acquire(timeout=1.5):
        lock.release()


guarded(client.lock("a"))


@contextmanager
def two(name: str) -> Generator[tuple[steadlock.Lease, steadlock.Lease]]:
    with client.lock(name) as one, client.lock(f"{name}:other") as other:
        yield one, other


@client.synchronized("user:{user_id}")
def pay(user_id: int, amount: float = 1.0) -> str:
    return f"{user_id} paid {amount}"


@client.synchronized("user:{user_id}", on_unavailable="skip")
def may_pay(user_id: int) -> str:
    return str(user_id)


assert_type(pay(7, amount=2.0), str)
assert_type(may_pay(7), str | None)


def exclusive(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator of the program."""

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with client.lock(function.__name__):
            return function(*args, **kwargs)

    return run


@exclusive
def report() -> int:
    return 1


assert_type(report(), int)


class Shop:
    """A class that has a lock."""

    def __init__(self, client: steadlock.Client, stock: steadlock.Lock | None = None) -> None:
        self.client: steadlock.Client = client
        self.stock = stock or client.lock("stock", wait=2)
        self.lost: list[steadlock.Lease] = []

    def sell(self) -> steadlock.ReleaseOutcome:
        lease = self.stock.try_acquire(wait=1)
        if lease is None:
            raise steadlock.LockTimeoutError("busy")
        lease.on_lost(self.lost.append)
        lease.on_lost(lambda lost: assert_type(lost.lost_reason, steadlock.LostReason | None))
        lease.extend(timedelta(minutes=1))
        return lease.release()


class Named(steadlock.Lock):
    """A subclass of the program."""

    def __enter__(self) -> steadlock.Lease:
        print(f"enters {self.name}")
        return super().__enter__()


with Named(client._connection, client.lock("a")._settings) as named:
    assert_type(named, steadlock.Lease)


@dataclass
class Job:
    lock: steadlock.Lock | steadlock.Semaphore
    sides: steadlock.ReadWriteLock | None = None

    def run(self) -> int | None:
        with self.lock as lease:
            return lease.token


def errors(job: Job) -> str:
    try:
        job.run()
    except steadlock.LockTimeoutError as error:
        holder = error.holder
        return "" if holder is None or holder.client is None else holder.client.host
    except steadlock.LockLostError as error:
        return error.reason or ""
    except steadlock.SteadlockError as error:
        return error.lock_name or error.operation
    return ""


async def the_same_of_tasks() -> None:
    async with aio.connect("memory://") as client, client.lock("a") as lease, client.lock("b").hold() as other:
        assert_type(client, aio.Client)
        assert_type(lease, aio.Lease)
        assert_type(other, aio.Lease)
        assert_type(await lease.release(), steadlock.ReleaseOutcome)
    client = await aio.connect("memory://")
    async with client.semaphore("a", 3).hold(permits=2) as lease, client.read_write_lock("a").read as other:
        assert_type(lease, aio.Lease)
        assert_type(other, aio.Lease)
    async with client.multi_lock([client.lock("a"), client.semaphore("b", 3)]) as lease, client as same:
        assert_type(same, aio.Client)
    found = await asyncio.wait_for(client.lock("a").try_acquire(), 5)
    assert_type(found, aio.Lease | None)
    assert_type(await client.lock("b").holder(), steadlock.Holder | None)
    task = asyncio.create_task(client.lock("a").acquire(timeout=1))
    assert_type(await task, bool)


async def exit_stacks_of_tasks() -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(aio.connect("memory://"))
        assert_type(client, aio.Client)
        assert_type(await stack.enter_async_context(client.lock("a")), aio.Lease)
        assert_type(await stack.enter_async_context(client.lock("a").hold()), aio.Lease)
        assert_type(await stack.enter_async_context(client.semaphore("a", 1)), aio.Lease)
        stack.push_async_exit(client.lock("b"))
        stack.push_async_callback(client.close)
        scope: AbstractAsyncContextManager[aio.Lease] = client.lock("a")
        scope = client.lock("a").hold()
        scope = client.semaphore("a", 1)
        either: AbstractAsyncContextManager[aio.Lease | None] = nullcontext() if stack else scope
        async with scope, either:
            pass


async def a_scope_of_tasks_swallows_nothing(client: aio.Client) -> int:
    async with client.lock("a"), client.lock("b").hold(), client.semaphore("c", 3):
        return 1


client_of_tasks = aio.connect("memory://", lazy=True)
assert_type(client_of_tasks, aio.LazyClient)


@client_of_tasks.synchronized("user:{user_id}", wait=0, on_busy="skip")
async def pay_unless_busy(user_id: int) -> str:
    return str(user_id)


@client.synchronized("user:{user_id}", wait=0, on_busy="skip")
def pay_if_free(user_id: int) -> str:
    return str(user_id)


assert_type(pay_if_free(7), str | None)


async def awaits_a_lazy_client(lazy: bool) -> None:
    assert_type(await pay_unless_busy(7), str | None)
    assert_type(await client_of_tasks, aio.Client)
    assert_type(await aio.connect("memory://", lazy=True), aio.Client)
    assert_type(await aio.connect("memory://", lazy=lazy), aio.Client)
    async with aio.redlock(["memory://a", "memory://b", "memory://c"], lazy=lazy) as several:
        one_of_several: aio.Client = several
        await one_of_several.close()


async def decorated(client: aio.Client) -> None:
    @client.synchronized("user:{user_id}")
    async def pay(user_id: int) -> str:
        return str(user_id)

    @client.synchronized("user:{user_id}", on_unavailable="skip")
    async def may_pay(user_id: int) -> str:
        return str(user_id)

    call: Callable[[int], Coroutine[Any, Any, str]] = pay
    assert_type(await call(7), str)
    assert_type(await may_pay(7), str | None)


class LikeAsyncio(Protocol):
    """The lock interface of a library that also accepts an `asyncio.Lock`."""

    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None, /
    ) -> object: ...


async def guarded_by(lock: LikeAsyncio) -> None:
    async with lock:
        pass


async def libraries(client: aio.Client) -> None:
    await guarded_by(asyncio.Lock())
    await guarded_by(client.lock("a"))


class NamedOfTasks(aio.Lock):
    """A subclass of the program."""

    async def __aenter__(self) -> aio.Lease:
        return await super().__aenter__()


@asynccontextmanager
async def lifespan(_: object) -> AsyncGenerator[dict[str, aio.Client]]:
    async with aio.connect("memory://") as client:
        yield {"client": client}
