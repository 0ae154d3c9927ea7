"""Functions that run under a lock named after their arguments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from test_threads import in_another_thread

import steadlock
from steadlock import aio


@dataclass
class Order:
    number: int


def test_the_name_is_made_from_the_arguments(client: steadlock.Client) -> None:
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


def test_methods_are_guarded_too(client: steadlock.Client) -> None:
    class Account:
        number = 3

        @client.synchronized("account:{self.number}")
        def pay(self) -> bool:
            return client.lock("account:3").owned()

    assert Account().pay()


def test_a_guarded_function_may_call_itself(client: steadlock.Client) -> None:
    @client.synchronized("fixed")
    def descend(depth: int) -> int:
        return depth and descend(depth - 1)

    assert descend(5) == 0


def test_other_threads_wait_and_give_up(client: steadlock.Client) -> None:
    @client.synchronized("door", wait=0.02)
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


def test_what_cannot_be_guarded_is_refused(client: steadlock.Client) -> None:
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


async def test_what_asyncio_cannot_guard_is_refused(aclient: aio.Client) -> None:
    with pytest.raises(TypeError):

        @aclient.synchronized("door")  # type: ignore[arg-type]
        def sell() -> None: ...

    with pytest.raises(TypeError):

        @aclient.synchronized("door")  # type: ignore[arg-type]
        async def generate() -> AsyncIterator[int]:
            yield 1
