"""Tests that known defects of other lock libraries are found.

Each check passes with the real code, and fails when the defect is put in. The core has such tests for its own
defects. This file has the defects that a binding can have.
"""

# ruff: noqa: PT012 (the scope that raises is the thing under test)

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

import steadlock
from steadlock import aio
from steadlock._context import TaskOwner
from steadlock.aio import _lock as aio_lock

URL = "memory://"


class ProgramError(Exception):
    """An error of the program itself."""


def check_error_of_the_body_is_raised() -> None:
    """Loses the lease inside the scope, raises in the body, and checks that the body's error is raised."""
    with steadlock.connect(URL) as client, pytest.raises(ProgramError), client.lock("door", lease=0.1) as lease:
        assert lease.lost.wait(10)
        raise ProgramError


def test_finds_a_release_that_masks_the_error_of_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    check_error_of_the_body_is_raised()

    leave = steadlock.Lock.__exit__
    monkeypatch.setattr(steadlock.Lock, "__exit__", lambda lock, *_: leave(lock, None, None, None))
    with pytest.raises(steadlock.LockLostError):
        check_error_of_the_body_is_raised()


async def check_error_of_the_async_body_is_raised() -> None:
    async with aio.connect(URL) as client:
        with pytest.raises(ProgramError):
            async with client.lock("door", lease=0.1):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise ProgramError from None


async def test_finds_a_release_that_masks_the_error_of_the_async_body(monkeypatch: pytest.MonkeyPatch) -> None:
    await check_error_of_the_async_body_is_raised()

    leave = aio_lock.Hold._leave

    def leave_and_mask(
        hold: aio_lock.Hold, kind: type[BaseException] | None, raised: BaseException | None
    ) -> Coroutine[Any, Any, None]:
        return leave(hold, None, raised)

    monkeypatch.setattr(aio_lock.Hold, "_leave", leave_and_mask)
    with pytest.raises(steadlock.LockLostError):
        await check_error_of_the_async_body_is_raised()


async def check_tasks_of_one_thread_exclude_each_other() -> None:
    async with aio.connect(URL) as client:
        lock = client.lock("door")

        async def another_task() -> aio.Lease | None:
            return await lock.try_acquire()

        async with lock:
            assert await asyncio.create_task(another_task()) is None, "another task was let in"


async def test_finds_ownership_by_thread_across_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    await check_tasks_of_one_thread_exclude_each_other()

    the_task = asyncio.current_task()
    assert the_task is not None
    one_owner = TaskOwner(the_task)
    monkeypatch.setattr(aio_lock, "current_owner", lambda: one_owner)
    with pytest.raises(AssertionError, match="another task was let in"):
        await check_tasks_of_one_thread_exclude_each_other()


def check_remaining_of_an_extended_lease() -> None:
    with steadlock.connect(URL) as client:
        lease = client.lock("door", lease=5).try_acquire()
        assert lease is not None
        lease.extend(60)
        assert lease.remaining() > 30, "the lease is stale"


def test_finds_an_extend_with_a_stale_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    check_remaining_of_an_extended_lease()

    extend = steadlock.Lease.extend

    def extend_without_update(lease: steadlock.Lease, by: float) -> None:
        until = time.monotonic() + lease.remaining()
        extend(lease, by)
        monkeypatch.setattr(steadlock.Lease, "remaining", lambda _: until - time.monotonic())

    monkeypatch.setattr(steadlock.Lease, "extend", extend_without_update)
    with pytest.raises(AssertionError, match="the lease is stale"):
        check_remaining_of_an_extended_lease()
