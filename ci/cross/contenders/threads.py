"""The contender in Python with threads."""

import os
import threading
import time
from collections.abc import Callable

import redis
from settings import Settings, entry, parse

import steadlock


def run(workers: int, work: Callable[[int], None]) -> None:
    """Prints `ready`, waits for a line, and runs `work` on `workers` threads."""
    print("ready", flush=True)
    input()
    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def acquirer(client: steadlock.Client, settings: Settings) -> Callable[[], steadlock.Lease]:
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

    def acquire() -> steadlock.Lease:
        lease = lock.try_acquire(wait=None)
        assert lease is not None
        return lease

    return acquire


def count(settings: Settings) -> None:
    name = settings.name
    store = redis.Redis.from_url(settings.url, decode_responses=True)
    with steadlock.connect(settings.url) as client:
        acquire = acquirer(client, settings)

        def work(_worker: int) -> None:
            for _ in range(settings.rounds):
                lease = acquire()
                value = int(store.get(f"{name}:count") or 0)
                time.sleep(0.001)
                store.set(f"{name}:count", value + 1)
                store.rpush(f"{name}:tokens", lease.token or 0)
                lease.release()

        run(settings.workers, work)


def turns(settings: Settings) -> None:
    store = redis.Redis.from_url(settings.url, decode_responses=True)
    log = f"{settings.name}:log"
    grants = [0] * settings.workers
    held = [0.0] * settings.workers
    with steadlock.connect(settings.url, lease=settings.lease) as client:
        acquire = acquirer(client, settings)

        def work(worker: int) -> None:
            started = time.monotonic()
            while settings.should_continue(grants[worker], started):
                lease = acquire()
                granted = time.monotonic()
                identity = f"{os.getpid()}/{worker}/{grants[worker]}"
                if settings.log:
                    store.xadd(log, entry("enter", identity, lease.remaining()))
                time.sleep(settings.hold_ms / 1000)
                if settings.log:
                    store.xadd(log, entry("exit", identity, 0))
                held[worker] += time.monotonic() - granted
                lease.release()
                grants[worker] += 1

        own = client.fair_lock(f"{settings.name}:{os.getpid()}")
        for _ in range(settings.warm_up):
            with own:
                pass
        run(settings.workers, work)
    print(int(sum(held) * 1000), *grants, flush=True)


def hold(settings: Settings) -> None:
    with steadlock.connect(settings.url, lease=settings.lease) as client:
        acquire = acquirer(client, settings)
        all_hold = threading.Barrier(settings.workers + 1)
        released = threading.Event()

        def work() -> None:
            lease = acquire()
            all_hold.wait()
            released.wait()
            lease.release()

        threads = [threading.Thread(target=work) for _ in range(settings.workers)]
        for thread in threads:
            thread.start()
        all_hold.wait()
        print("held", flush=True)
        input()
        released.set()
        for thread in threads:
            thread.join()
        print("released", flush=True)


def downgrade(settings: Settings) -> None:
    with steadlock.connect(settings.url, lease=settings.lease) as client:
        lock = client.read_write_lock(settings.name)
        lock.write.acquire()
        print("held", flush=True)
        input()
        lock.read.acquire()
        lock.write.release()
        print("reading", flush=True)
        input()
        lock.read.release()
        print("released", flush=True)


if __name__ == "__main__":
    settings = parse()
    {"count": count, "turns": turns, "hold": hold, "downgrade": downgrade}[settings.command](settings)
