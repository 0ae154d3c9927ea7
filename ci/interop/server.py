"""The redis-server of the tests: reads its records and counts the attempts that reach it."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import redis

#: Each library sends exactly one of these commands in each attempt.
ATTEMPT_COMMANDS = ("set", "eval", "evalsha")


@dataclass(frozen=True)
class Server:
    """The URL of the redis-server, and a connection to it."""

    url: str
    store: "redis.Redis"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_name(self) -> str:
        return f"stock-{next(self._numbers)}"

    def record(self, key: str) -> object:
        """Returns the record of a lock: a string or a hash that has only the owner, or `None` if the lock is free."""
        if self.store.type(key) == "hash":
            return self.store.hgetall(key)
        return self.store.get(key)

    def begin_wait(self, begin: Callable[[], object], attempts: int = 2) -> None:
        """Begins a wait, and returns when `attempts` of its attempts have reached the server."""
        before = self.attempts_received()
        begin()
        self.until(lambda: self.attempts_received() >= before + attempts, "no attempt reaches the server")

    def attempts_received(self) -> int:
        """Returns the number of attempts at the server. Calls of scripts that it did not know yet do not count."""
        stats = self.store.info("commandstats")
        counts = [stats[f"cmdstat_{name}"] for name in ATTEMPT_COMMANDS if f"cmdstat_{name}" in stats]
        return sum(entry["calls"] - entry["failed_calls"] for entry in counts)

    def subscribers(self, channel: str) -> int:
        return int(self.store.pubsub_numsub(channel)[0][1])

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.005)
