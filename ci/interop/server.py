"""The redis-server of the tests: what is on it, and what it was asked."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import redis

#: Each library asks for a lock by one of these, once in each try.
ASKING = ("set", "eval", "evalsha")


@dataclass(frozen=True)
class Server:
    """Where the redis-server is, and a connection to it."""

    url: str
    store: "redis.Redis"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_name(self) -> str:
        return f"stock-{next(self._numbers)}"

    def record(self, key: str) -> object:
        """What a lock has written: its owner and no more, of either layout; `None` if it is free."""
        if self.store.type(key) == "hash":
            return self.store.hgetall(key)
        return self.store.get(key)

    def waits(self, begin: Callable[[], object], tries: int = 2) -> None:
        """Begins a wait, and returns when it has asked the server so often."""
        before = self.asked()
        begin()
        self.until(lambda: self.asked() >= before + tries, "nobody asks for the lock")

    def asked(self) -> int:
        """How often the server was asked for a lock. Scripts that it did not know yet do not count."""
        stats = self.store.info("commandstats")
        of_interest = [stats[f"cmdstat_{name}"] for name in ASKING if f"cmdstat_{name}" in stats]
        return sum(entry["calls"] - entry["failed_calls"] for entry in of_interest)

    def listeners(self, channel: str) -> int:
        return int(self.store.pubsub_numsub(channel)[0][1])

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.005)
