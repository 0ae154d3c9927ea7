"""The contender for Python threads: `threads.py "steadlock"|"steadlock, metrics"|"redis-py" URL THREADS`."""

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import redis

import steadlock

Pair = Callable[[], None]


def ours(url: str, tasks: int, *, metrics: bool = False) -> list[Pair]:
    client = steadlock.connect(url, metrics=metrics)

    def pair_of(name: str) -> Pair:
        lock = client.lock(name)

        def pair() -> None:
            lock.acquire()
            lock.release()

        return pair

    return [pair_of(f"ours-threads:{task}") for task in range(tasks)]


def theirs(url: str, tasks: int) -> list[Pair]:
    client = redis.Redis.from_url(url)

    def pair_of(name: str) -> Pair:
        lock = client.lock(name, timeout=30)

        def pair() -> None:
            lock.acquire()
            lock.release()

        return pair

    return [pair_of(f"theirs-threads-{task}") for task in range(tasks)]


LIBRARIES = {"steadlock": ours, "steadlock, metrics": partial(ours, metrics=True), "redis-py": theirs}


def measure(pairs: list[Pair], seconds: float) -> tuple[int, float]:
    done = [0] * len(pairs)
    gate = threading.Barrier(len(pairs) + 1)

    def work(task: int) -> None:
        pair = pairs[task]
        gate.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pair()
            done[task] += 1

    threads = [threading.Thread(target=work, args=(task,)) for task in range(len(pairs))]
    for thread in threads:
        thread.start()
    gate.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(done), time.perf_counter() - started


if __name__ == "__main__":
    library, url, tasks = sys.argv[1:]
    pairs = LIBRARIES[library](url, int(tasks))
    print("ready", flush=True)
    for line in sys.stdin:
        print(*measure(pairs, float(line)), flush=True)
