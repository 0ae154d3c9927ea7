"""Tests that known defects of other lock libraries are found.

Each check passes with the real code, and fails when the defect is put in. The core has such tests for defects in the
core; this file has the defects that can be in a scope.
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


def the_programs_own_error_comes_out() -> None:
    """Loses the lease inside the scope, raises in the body, and checks that the body's error is raised."""
    with steadlock.connect(URL) as client, pytest.raises(ProgramError), client.lock("door", lease=0.1) as lease:
        assert lease.lost.wait(10)
        raise ProgramError


def test_release_error_that_masks_the_programs_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    the_programs_own_error_comes_out()

    leave = steadlock.Lock.__exit__
    monkeypatch.setattr(steadlock.Lock, "__exit__", lambda lock, *_: leave(lock, None, None, None))
    with pytest.raises(steadlock.LockLostError):
        the_programs_own_error_comes_out()


async def the_tasks_own_error_comes_out() -> None:
    async with aio.connect(URL) as client:
        with pytest.raises(ProgramError):
            async with client.lock("door", lease=0.1):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise ProgramError from None


async def test_release_error_that_masks_the_tasks_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    await the_tasks_own_error_comes_out()

    leave = aio_lock.Hold._leave

    def leave_and_mask(
        hold: aio_lock.Hold, kind: type[BaseException] | None, raised: BaseException | None
    ) -> Coroutine[Any, Any, None]:
        return leave(hold, None, raised)

    monkeypatch.setattr(aio_lock.Hold, "_leave", leave_and_mask)
    with pytest.raises(steadlock.LockLostError):
        await the_tasks_own_error_comes_out()


async def tasks_of_one_thread_exclude_each_other() -> None:
    async with aio.connect(URL) as client:
        lock = client.lock("door")

        async def another_task() -> aio.Lease | None:
            return await lock.try_acquire()

        async with lock:
            assert await asyncio.create_task(another_task()) is None, "another task was let in"


async def test_ownership_by_thread_that_crosses_tasks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    await tasks_of_one_thread_exclude_each_other()

    the_task = asyncio.current_task()
    assert the_task is not None
    the_thread = TaskOwner(the_task)
    monkeypatch.setattr(aio_lock, "this_owner", lambda: the_thread)
    with pytest.raises(AssertionError, match="another task was let in"):
        await tasks_of_one_thread_exclude_each_other()


def an_extended_lease_says_how_long_it_lasts() -> None:
    with steadlock.connect(URL) as client:
        lease = client.lock("door", lease=5).try_acquire()
        assert lease is not None
        lease.extend(60)
        assert lease.remaining() > 30, "the lease is stale"


def test_extend_that_leaves_a_stale_lease_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    an_extended_lease_says_how_long_it_lasts()

    extend = steadlock.Lease.extend

    def extend_elsewhere(lease: steadlock.Lease, by: float) -> None:
        until = time.monotonic() + lease.remaining()
        extend(lease, by)
        monkeypatch.setattr(steadlock.Lease, "remaining", lambda _: until - time.monotonic())

    monkeypatch.setattr(steadlock.Lease, "extend", extend_elsewhere)
    with pytest.raises(AssertionError, match="the lease is stale"):
        an_extended_lease_says_how_long_it_lasts()
