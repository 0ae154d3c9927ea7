"""The contender for Python asyncio: `tasks.py "steadlock"|"steadlock, metrics"|"redis-py" URL TASKS`."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

import redis.asyncio as redis

import steadlock.aio

Pair = Callable[[], Awaitable[None]]


async def ours(url: str, tasks: int, *, metrics: bool = False) -> list[Pair]:
    client = await steadlock.aio.connect(url, metrics=metrics)

    def pair_of(name: str) -> Pair:
        lock = client.lock(name)

        async def pair() -> None:
            await lock.acquire()
            await lock.release()

        return pair

    return [pair_of(f"ours-tasks:{task}") for task in range(tasks)]


async def theirs(url: str, tasks: int) -> list[Pair]:
    client = redis.from_url(url)

    def pair_of(name: str) -> Pair:
        lock = client.lock(name, timeout=30)

        async def pair() -> None:
            await lock.acquire()
            await lock.release()

        return pair

    return [pair_of(f"theirs-tasks-{task}") for task in range(tasks)]


LIBRARIES = {"steadlock": ours, "steadlock, metrics": partial(ours, metrics=True), "redis-py": theirs}


async def measure(pairs: list[Pair], seconds: float) -> tuple[int, float]:
    done = 0
    started = time.perf_counter()
    until = started + seconds

    async def work(pair: Pair) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await pair()
            done += 1

    await asyncio.gather(*map(work, pairs))
    return done, time.perf_counter() - started


async def main() -> None:
    library, url, tasks = sys.argv[1:]
    pairs = await LIBRARIES[library](url, int(tasks))
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(*await measure(pairs, float(line)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
