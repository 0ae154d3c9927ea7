"""The contender in Python with asyncio tasks."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine

import redis.asyncio as redis

import leasehold.aio


async def run(workers: int, work: Callable[[], Awaitable[None]]) -> None:
    """Says `ready`, waits for the word, and runs `work` in that many tasks."""
    print("ready", flush=True)
    await asyncio.to_thread(input)
    await asyncio.gather(*(work() for _ in range(workers)))


async def count(url: str, name: str, workers: int, rounds: int) -> None:
    store = redis.from_url(url, decode_responses=True)
    async with leasehold.aio.connect(url) as client:
        lock = client.lock(name)

        async def work() -> None:
            for _ in range(rounds):
                async with lock as lease:
                    value = int(await store.get(f"{name}:count") or 0)
                    await asyncio.sleep(0.001)
                    await store.set(f"{name}:count", value + 1)
                    await store.rpush(f"{name}:tokens", lease.token or 0)

        await run(workers, work)
    await store.aclose()


async def turns(url: str, name: str, workers: int, seconds: float) -> None:
    grants = 0
    async with leasehold.aio.connect(url) as client:
        lock = client.lock(name)

        async def work() -> None:
            nonlocal grants
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                async with lock:
                    grants += 1

        await run(workers, work)
    print(grants, flush=True)


async def hold(url: str, name: str, lease_ms: int) -> None:
    client = await leasehold.aio.connect(url, lease=lease_ms / 1000)
    await client.lock(name).acquire()
    print("held", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    command, url, name, *numbers = sys.argv[1:]
    commands: dict[str, Callable[..., Coroutine[None, None, None]]] = {"count": count, "turns": turns, "hold": hold}
    asyncio.run(commands[command](url, name, *map(int, numbers)))
