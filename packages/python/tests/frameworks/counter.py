"""Adds to a number by a separate read and write. Without a lock around both, updates are lost."""

from __future__ import annotations

import asyncio
import functools
import os
import time

import redis
import redis.asyncio

URL = os.environ["STEADLOCK_URL"]
IS_LAZY = os.environ.get("STEADLOCK_TEST_LAZY") == "yes"
PAUSE = 0.001


@functools.cache
def store() -> redis.Redis:
    """Makes the client at the first use, and so in the worker."""
    return redis.Redis.from_url(URL)


@functools.cache
def store_of_tasks() -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(URL)


def add_one() -> None:
    count = int(store().get("count") or 0)
    time.sleep(PAUSE)
    store().set("count", count + 1)


async def add_one_in_task() -> None:
    count = int(await store_of_tasks().get("count") or 0)
    await asyncio.sleep(PAUSE)
    await store_of_tasks().set("count", count + 1)
