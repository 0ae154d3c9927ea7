"""Tests that a scope raises the body's exception unchanged, with a note if the lock was lost meanwhile."""

# ruff: noqa: PT012 (the scope that raises is the thing under test)

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from servers import RedisServer, Store

import steadlock
from steadlock import aio

Scope = Callable[[Any], Any]
"""Makes an object of a client for `with` or `async with`. Its lease ends after 0.1 s."""

SCOPES: list[Scope] = [
    lambda client: client.lock("door", lease=0.1),
    lambda client: client.mutex("door", lease=0.1),
    lambda client: client.fair_lock("door", lease=0.1),
    lambda client: client.read_write_lock("door", lease=0.1).read,
    lambda client: client.read_write_lock("door", lease=0.1).write,
    lambda client: client.semaphore("door", 3, lease=0.1),
    lambda client: client.multi_lock([client.lock("door"), client.lock("window")], lease=0.1),
    lambda client: client.lock("door").hold(lease=0.1),
    lambda client: client.semaphore("door", 3).hold(lease=0.1),
    lambda client: client.lock("door", max_hold=0.1),
]


def notes_of(error: BaseException | None) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def notes_raised_in(scope: Any, body: Callable[[steadlock.Lease], object], error: Exception) -> list[str]:
    """Raises `error` in a scope after the body. Returns the notes of the raised error."""
    with pytest.raises(type(error)) as raised, scope as lease:
        body(lease)
        raise error
    assert raised.value is error
    return notes_of(error)


async def notes_raised_in_task(
    scope: Any, body: Callable[[aio.Lease], Coroutine[Any, Any, object]], error: Exception
) -> list[str]:
    """Does what `notes_raised_in` does, in a task."""
    with pytest.raises(type(error)) as raised:
        async with scope as lease:
            await body(lease)
            raise error
    assert raised.value is error
    return notes_of(error)


def until_lost(lease: steadlock.Lease) -> None:
    assert lease.lost.wait(10)


async def until_cancelled(lease: aio.Lease) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(30)
    assert lease.lost_reason


@pytest.mark.parametrize("scope", SCOPES)
def test_the_exception_of_the_body_gets_a_note_of_the_loss(url: str, scope: Scope) -> None:
    with steadlock.connect(url) as client:
        (note,) = notes_raised_in(scope(client), until_lost, KeyError("mine"))
        assert "door" in note
        assert "lost" in note


@pytest.mark.parametrize("scope", SCOPES)
async def test_the_exception_of_the_body_gets_a_note_of_the_loss_in_asyncio(url: str, scope: Scope) -> None:
    async with aio.connect(url) as client:
        (note,) = await notes_raised_in_task(scope(client), until_cancelled, KeyError("mine"))
        assert "door" in note
        assert "lost" in note


def test_a_loss_found_by_the_release_adds_a_note(server: RedisServer, store: Store) -> None:
    with steadlock.connect(server.url) as client:
        (note,) = notes_raised_in(client.lock("door"), lambda _: store.flushall(), KeyError("mine"))
    assert "lost" in note


async def test_a_loss_found_by_the_release_adds_a_note_in_asyncio(server: RedisServer, store: Store) -> None:
    async def flush(_: aio.Lease) -> None:
        store.flushall()

    async with aio.connect(server.url) as client:
        (note,) = await notes_raised_in_task(client.lock("door"), flush, KeyError("mine"))
    assert "lost" in note


def test_several_levels_of_one_lock_have_one_note_and_several_locks_have_one_each() -> None:
    def enter_again(lease: steadlock.Lease) -> None:
        with client.lock("door", max_hold=1):
            until_lost(lease)
            raise error

    error = KeyError("mine")
    with steadlock.connect("memory://") as client, contextlib.suppress(KeyError), client.lock("outer", max_hold=1):
        notes_raised_in(client.lock("door", max_hold=1), enter_again, error)
        raise error
    assert ["door" in note for note in notes_of(error)] == [True, False]


def test_a_valid_lease_adds_no_note() -> None:
    with steadlock.connect("memory://") as client:
        assert notes_raised_in(client.lock("door"), lambda _: None, KeyError("mine")) == []


def test_the_exception_of_a_synchronized_function_gets_a_note() -> None:
    with steadlock.connect("memory://") as client:

        @client.synchronized("door", lease=0.5)
        def work() -> None:
            lease = client.lock("door").lease
            assert lease is not None
            until_lost(lease)
            raise KeyError("mine")

        with pytest.raises(KeyError) as caught:
            work()
    assert len(notes_of(caught.value)) == 1


class RefusesNotesError(Exception):
    """An exception that accepts no notes."""

    def add_note(self, note: str, /) -> None:
        raise RuntimeError("none")


def test_an_exception_that_refuses_notes_is_raised_unchanged() -> None:
    with steadlock.connect("memory://") as client:
        assert notes_raised_in(client.lock("door", lease=0.1), until_lost, RefusesNotesError()) == []


async def test_an_exception_that_refuses_notes_is_raised_unchanged_in_asyncio() -> None:
    async with aio.connect("memory://") as client:
        assert await notes_raised_in_task(client.lock("door", lease=0.1), until_cancelled, RefusesNotesError()) == []


def test_exit_accepts_an_exception_type_alone() -> None:
    with steadlock.connect("memory://") as client:
        lock = client.lock("door", lease=0.1)
        assert lock.__enter__().lost.wait(10)
        lock.__exit__(KeyError, None, None)
