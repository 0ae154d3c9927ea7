"""The contender in Python with asyncio tasks."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import redis.asyncio as redis
from settings import Settings, entry, parse

import steadlock.aio


async def run(workers: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Prints `ready`, waits for a line, and runs `work` in `workers` tasks."""
    print("ready", flush=True)
    await read_line()
    await asyncio.gather(*(work(worker) for worker in range(workers)))


async def read_line() -> None:
    await asyncio.to_thread(input)


def acquirer(client: steadlock.aio.Client, settings: Settings) -> Callable[[], Awaitable[steadlock.aio.Lease]]:
    """Returns a function that acquires the lock, however long that takes."""
    if settings.kind == "semaphore":
        semaphore = client.semaphore(settings.name, settings.limit)
        return lambda: semaphore.acquire(settings.permits)
    lock = {
        "lock": lambda: client.lock(settings.name),
        "mutex": lambda: client.mutex(settings.name),
        "fair": lambda: client.fair_lock(settings.name),
        "read": lambda: client.read_write_lock(settings.name).read,
        "write": lambda: client.read_write_lock(settings.name).write,
        "multi": lambda: client.multi_lock(client.lock(name) for name in settings.names),
    }[settings.kind]()

    async def acquire() -> steadlock.aio.Lease:
        lease = await lock.try_acquire(wait=None)
        assert lease is not None
        return lease

    return acquire


async def count(settings: Settings) -> None:
    name = settings.name
    store = redis.from_url(settings.url, decode_responses=True)
    async with steadlock.aio.connect(settings.url) as client:
        acquire = acquirer(client, settings)

        async def work(_worker: int) -> None:
            for _ in range(settings.rounds):
                lease = await acquire()
                value = int(await store.get(f"{name}:count") or 0)
                await asyncio.sleep(0.001)
                await store.set(f"{name}:count", value + 1)
                await store.rpush(f"{name}:tokens", lease.token or 0)
                await lease.release()

        await run(settings.workers, work)
    await store.aclose()


async def turns(settings: Settings) -> None:
    store = redis.from_url(settings.url, decode_responses=True)
    log = f"{settings.name}:log"
    grants = [0] * settings.workers
    held = [0.0] * settings.workers
    async with steadlock.aio.connect(settings.url, lease=settings.lease) as client:
        acquire = acquirer(client, settings)

        async def work(worker: int) -> None:
            started = time.monotonic()
            while settings.should_continue(grants[worker], started):
                lease = await acquire()
                granted = time.monotonic()
                identity = f"{os.getpid()}/{worker}/{grants[worker]}"
                if settings.log:
                    await store.xadd(log, entry("enter", identity, lease.remaining()))
                await asyncio.sleep(settings.hold_ms / 1000)
                if settings.log:
                    await store.xadd(log, entry("exit", identity, 0))
                held[worker] += time.monotonic() - granted
                await lease.release()
                grants[worker] += 1

        own = client.fair_lock(f"{settings.name}:{os.getpid()}")
        for _ in range(settings.warm_up):
            async with own:
                pass
        await run(settings.workers, work)
    await store.aclose()
    print(int(sum(held) * 1000), *grants, flush=True)


async def hold(settings: Settings) -> None:
    async with steadlock.aio.connect(settings.url, lease=settings.lease) as client:
        acquire = acquirer(client, settings)

        async def one() -> steadlock.aio.Lease:
            return await acquire()

        leases = await asyncio.gather(*(asyncio.create_task(one()) for _ in range(settings.workers)))
        print("held", flush=True)
        await read_line()
        for lease in leases:
            await lease.release()
        print("released", flush=True)


async def downgrade(settings: Settings) -> None:
    async with steadlock.aio.connect(settings.url, lease=settings.lease) as client:
        lock = client.read_write_lock(settings.name)
        await lock.write.acquire()
        print("held", flush=True)
        await read_line()
        await lock.read.acquire()
        await lock.write.release()
        print("reading", flush=True)
        await read_line()
        await lock.read.release()
        print("released", flush=True)


if __name__ == "__main__":
    settings = parse()
    asyncio.run({"count": count, "turns": turns, "hold": hold, "downgrade": downgrade}[settings.command](settings))
