"""The contender in Python with threads."""

import sys
import threading
import time
from collections.abc import Callable

import redis

import leasehold


def run(workers: int, work: Callable[[], None]) -> None:
    """Says `ready`, waits for the word, and runs `work` on that many threads."""
    print("ready", flush=True)
    input()
    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def count(url: str, name: str, workers: int, rounds: int) -> None:
    store = redis.Redis.from_url(url, decode_responses=True)
    with leasehold.connect(url) as client:
        lock = client.lock(name)

        def work() -> None:
            for _ in range(rounds):
                with lock as lease:
                    value = int(store.get(f"{name}:count") or 0)
                    time.sleep(0.001)
                    store.set(f"{name}:count", value + 1)
                    store.rpush(f"{name}:tokens", lease.token or 0)

        run(workers, work)


def turns(url: str, name: str, workers: int, seconds: float) -> None:
    grants = [0]
    with leasehold.connect(url) as client:
        lock = client.lock(name)

        def work() -> None:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                with lock:
                    grants[0] += 1

        run(workers, work)
    print(grants[0], flush=True)


def hold(url: str, name: str, lease_ms: int) -> None:
    client = leasehold.connect(url, lease=lease_ms / 1000)
    client.lock(name).acquire()
    print("held", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    command, url, name, *numbers = sys.argv[1:]
    commands: dict[str, Callable[..., None]] = {"count": count, "turns": turns, "hold": hold}
    commands[command](url, name, *map(int, numbers))
