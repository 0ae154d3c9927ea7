"""Runs the libraries of Python: `peer.py LIBRARY URL`, with the line protocol of ../README.md."""

import sys
from collections.abc import Callable
from typing import Protocol

import redis
from redis.exceptions import LockError
from redis.lock import Lock as RedisPyLock

import steadlock

WAIT = 60


class Library(Protocol):
    """The operations of a lock library."""

    def acquire(self, name: str, lease_ms: int, wait: float) -> str: ...

    def unlock(self, name: str) -> str: ...


class RedisPy:
    """`Lock` of redis-py. By default its record has no TTL."""

    def __init__(self, url: str) -> None:
        self.store = redis.Redis.from_url(url)
        self.held: dict[str, RedisPyLock] = {}

    def acquire(self, name: str, lease_ms: int, wait: float) -> str:
        timeout = lease_ms / 1000 if lease_ms else None
        lock = self.store.lock(name, timeout=timeout, sleep=0.02)
        if not lock.acquire(blocking=wait > 0, blocking_timeout=wait or None):
            return "refused"
        self.held[name] = lock
        return "held"

    def unlock(self, name: str) -> str:
        try:
            self.held.pop(name).release()
        except LockError as error:
            return f"gone {error}"
        return "released"


class Steadlock:
    """A lock or a mutex of Steadlock."""

    def __init__(self, kind: str, url: str) -> None:
        client = steadlock.connect(url)
        self.lock = client.lock if kind == "lock" else client.mutex
        self.held: dict[str, steadlock.Lease] = {}

    def acquire(self, name: str, lease_ms: int, wait: float) -> str:
        lease = lease_ms / 1000 if lease_ms else None
        try:
            self.held[name] = self.lock(name).hold(wait=wait, lease=lease).__enter__()
        except steadlock.LockTimeoutError as error:
            return f"refused {error}"
        return "held"

    def unlock(self, name: str) -> str:
        outcome = self.held.pop(name).release()
        return "released" if outcome == "released" else f"gone {outcome}"


LIBRARIES: dict[str, Callable[[str], Library]] = {
    "redis-py": RedisPy,
    "steadlock-mutex": lambda url: Steadlock("mutex", url),
    "steadlock-lock": lambda url: Steadlock("lock", url),
}


def answer(library: Library, command: list[str]) -> str:
    match command:
        case ["try", name, lease_ms]:
            return library.acquire(name, int(lease_ms), 0)
        case ["lock", name, lease_ms]:
            return library.acquire(name, int(lease_ms), WAIT)
        case ["unlock", name]:
            return library.unlock(name)
    return "error unknown command"


def main() -> None:
    library = LIBRARIES[sys.argv[1]](sys.argv[2])
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            reply = answer(library, line.split())
        except Exception as error:  # the test receives every exception as an answer
            reply = f"error {type(error).__name__}: {error}"
        print(reply.replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
