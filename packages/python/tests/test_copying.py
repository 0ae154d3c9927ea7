"""Tests that the objects of a client cannot be copied, pickled or passed to another process. The error says what to do
instead.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import steadlock
from steadlock import aio

COPIES: list[Callable[[object], object]] = [
    copy.copy,
    copy.deepcopy,
    *(partial(pickle.dumps, protocol=protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
]


def made_by(client: steadlock.Client | aio.Client) -> Iterator[object]:
    yield client
    yield client.lock("door")
    yield client.mutex("door")
    yield client.fair_lock("door")
    yield client.read_write_lock("door")
    yield client.read_write_lock("door").write
    yield client.semaphore("door", 3)
    yield client.semaphore("door", 3).permits(2)
    yield client.lock("door").hold()
    yield client.semaphore("door", 3).hold()


def check(api: str, something: object) -> None:
    name = type(something).__name__
    instead = {
        "Client": "make another one in each process",
        "LazyClient": "make another one in each process",
        "Lease": "leave the lease to its holder",
    }
    advice = instead.get(name, "make the lock there by a client of that process")
    for make in COPIES:
        with pytest.raises(TypeError) as caught:
            make(something)
        message = str(caught.value)
        assert message.startswith(f"a {api}.{name} cannot be copied or pickled; ")
        assert message.endswith(advice)


def test_objects_for_threads_cannot_be_copied() -> None:
    with steadlock.connect("memory://") as client:
        for something in [*made_by(client), client.multi_lock([client.lock("a")])]:
            check("steadlock", something)
        with client.lock("door") as lease:
            check("steadlock", lease)


async def test_objects_for_tasks_cannot_be_copied() -> None:
    async with aio.connect("memory://") as client:
        for something in [*made_by(client), client.multi_lock([client.lock("a")])]:
            check("steadlock.aio", something)
        async with client.lock("door") as lease:
            check("steadlock.aio", lease)
    check("steadlock.aio", aio.connect("memory://", lazy=True))


async def test_a_connecting_client_cannot_be_copied() -> None:
    connecting = aio.connect("memory://")
    for make in COPIES:
        with pytest.raises(TypeError, match="make another one in each process"):
            make(connecting)


class Named(steadlock.Lock):
    """A program's own lock class, which defines how its objects are copied."""

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (self.name,)


def test_a_subclass_can_define_its_own_copying() -> None:
    with steadlock.connect("memory://") as client:
        lock = client.lock("door")
        copied: object = copy.copy(Named(lock._connection, lock._settings))
        assert copied == "door"


def test_no_object_can_be_sent_to_another_process() -> None:
    context = multiprocessing.get_context("spawn")
    with steadlock.connect("memory://") as client:
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            sent = pool.submit(id, client.lock("door"))
            with pytest.raises(TypeError, match=r"a steadlock\.Lock cannot be copied or pickled; pass its name"):
                sent.result(30)
        process = context.Process(target=id, args=(client,))
        with pytest.raises(TypeError, match=r"a steadlock\.Client cannot be copied or pickled; share this one"):
            process.start()


def failing(kind: type[steadlock.SteadlockError]) -> None:
    raise kind("no", lock_name="door", operation="release", node="h:1", retryable=True, cause="gone", skipped=False)


def test_errors_are_sent_to_another_process_complete() -> None:
    info = steadlock.ClientInfo("h", 1, "p", "python", "1", datetime.now(UTC), "")
    error = steadlock.LockTimeoutError("busy", lock_name="door", holder=steadlock.Holder("me", 1.5, info))
    for back in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(back) is steadlock.LockTimeoutError
        assert (str(back), vars(back)) == ("busy", vars(error))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        sent = pool.submit(failing, steadlock.LockLostError)
        with pytest.raises(steadlock.LockLostError) as caught:
            sent.result(30)
    assert (caught.value.node, caught.value.cause, caught.value.retryable) == ("h:1", "gone", True)


def test_settings_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(steadlock.INHERIT)) is steadlock.INHERIT
    assert copy.deepcopy(steadlock.INHERIT) is steadlock.INHERIT


def test_a_forked_child_needs_no_copy() -> None:
    with steadlock.connect("memory://shared") as client:
        context = multiprocessing.get_context("fork")
        process = context.Process(target=os._exit, args=(int(client.closed),))
        process.start()
        process.join(30)
        assert process.exitcode == 0


def test_tasks_share_one_client() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client:
            locks = [client.lock(f"door-{number}") for number in range(3)]
            assert all(await asyncio.gather(*(lock.acquire() for lock in locks)))

    asyncio.run(main())
