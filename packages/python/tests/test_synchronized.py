"""Tests of `synchronized`: a function runs under a lock, and the lock's name contains the function's arguments."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from test_threads import in_another_thread

import steadlock
from steadlock import aio


@dataclass
class Order:
    number: int


def test_the_lock_name_contains_the_arguments(client: steadlock.Client) -> None:
    @client.synchronized("user:{user_id}")
    def pay(user_id: int, amount: float = 1.0) -> tuple[bool, bool, float]:
        """Pays."""
        return client.lock("user:7").owned(), client.lock("user:8").locked(), amount

    assert pay(7) == (True, False, 1.0)
    assert pay(user_id=7, amount=2) == (True, False, 2)
    assert pay.__name__ == "pay"
    assert pay.__doc__ == "Pays."
    assert not client.lock("user:7").locked()


def test_fields_may_have_attributes_items_and_formats(client: steadlock.Client) -> None:
    @client.synchronized("{{{order.number:03d}}}:{kinds[0]}:{rest}")
    def ship(order: Order, *kinds: str, rest: str = "x") -> bool:
        return client.lock("{042}:big:x").owned()

    assert ship(Order(42), "big", "red")


def test_methods_can_be_guarded(client: steadlock.Client) -> None:
    class Account:
        number = 3

        @client.synchronized("account:{self.number}")
        def pay(self) -> bool:
            return client.lock("account:3").owned()

    assert Account().pay()


def test_a_guarded_function_can_call_itself(client: steadlock.Client) -> None:
    @client.synchronized("fixed")
    def descend(depth: int) -> int:
        return depth and descend(depth - 1)

    assert descend(5) == 0


def test_other_threads_wait_and_time_out(client: steadlock.Client) -> None:
    @client.synchronized("door", wait=0.25)
    def enter() -> None:
        pass

    with client.lock("door"), pytest.raises(steadlock.LockTimeoutError):
        in_another_thread(enter)


def test_wrong_templates_are_refused_at_once(client: steadlock.Client) -> None:
    for template in ("user:{user}", "user:{}", "user:{0}", "user:{user_id"):
        with pytest.raises(steadlock.InvalidArgumentError) as caught:

            @client.synchronized(template)
            def pay(user_id: int) -> None: ...

        assert caught.value.operation == "acquire"


def test_generators_and_coroutine_functions_are_refused(client: steadlock.Client) -> None:
    with pytest.raises(TypeError):

        @client.synchronized("door")
        def generate() -> Iterator[int]:
            yield 1

    with pytest.raises(TypeError):

        @client.synchronized("door")
        async def sell() -> None: ...


async def test_coroutine_functions_are_guarded(aclient: aio.Client) -> None:
    inside = 0

    @aclient.synchronized("user:{user_id}")
    async def pay(user_id: int) -> bool:
        nonlocal inside
        inside += 1
        assert inside == 1
        await asyncio.sleep(0)
        inside -= 1
        return aclient.lock("user:7").owned()

    assert await asyncio.gather(*(pay(7) for _ in range(10))) == [True] * 10


async def test_other_functions_are_refused_in_asyncio(aclient: aio.Client) -> None:
    with pytest.raises(TypeError):

        @aclient.synchronized("door")  # type: ignore[arg-type]
        def sell() -> None: ...

    with pytest.raises(TypeError):

        @aclient.synchronized("door")  # type: ignore[arg-type]
        async def generate() -> AsyncIterator[int]:
            yield 1


def test_a_busy_lock_is_skipped_if_asked_for(client: steadlock.Client) -> None:
    ran: list[int] = []

    @client.synchronized("user:{user_id}", wait=0, on_busy="skip")
    def pay(user_id: int) -> str:
        ran.append(user_id)
        return "paid"

    assert pay(7) == "paid"
    with client.lock("user:7"):
        # The thread that holds the lock re-enters.
        assert pay(7) == "paid"
        assert in_another_thread(lambda: pay(7)) is None
        assert in_another_thread(lambda: pay(8)) == "paid"
    assert ran == [7, 7, 8]


def test_a_call_is_skipped_only_after_its_wait(client: steadlock.Client) -> None:
    @client.synchronized("door", wait=30, on_busy="skip")
    def enter() -> bool:
        return True

    lease = client.lock("door").try_acquire()
    assert lease is not None
    threading.Timer(0.2, lease.release).start()
    assert in_another_thread(enter)


def test_a_timeout_raised_by_the_body_is_not_skipped(client: steadlock.Client) -> None:
    @client.synchronized("door", wait=0, on_busy="skip")
    def enter() -> None:
        raise steadlock.LockTimeoutError("of another lock")

    with pytest.raises(steadlock.LockTimeoutError, match="of another lock"):
        enter()


async def test_a_busy_lock_is_skipped_in_asyncio(aclient: aio.Client) -> None:
    ran: list[int] = []

    @aclient.synchronized("user:{user_id}", wait=0, on_busy="skip")
    async def pay(user_id: int) -> str:
        ran.append(user_id)
        return "paid"

    async with aclient.lock("user:7"):
        assert await asyncio.create_task(pay(7)) is None
        assert await asyncio.create_task(pay(8)) == "paid"
        assert await pay(7) == "paid"
    assert ran == [8, 7]


@pytest.mark.parametrize(("word", "error"), [("no", steadlock.InvalidArgumentError), (None, TypeError), (1, TypeError)])
def test_invalid_on_busy_is_refused(client: steadlock.Client, word: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="on_busy is"):
        client.synchronized("door", on_busy=word)  # type: ignore[call-overload]
