"""The arguments of a contender in Python: `COMMAND URL NAME [--option value]…`."""

import argparse
import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Settings:
    command: str
    url: str
    name: str
    kind: str
    workers: int
    rounds: int
    seconds: float
    hold_ms: int
    lease_ms: int | None
    permits: int
    limit: int
    log: int
    warm_up: int

    @property
    def names(self) -> list[str]:
        """The names of the members of a multi-lock."""
        return self.name.split(",")

    @property
    def lease(self) -> float | None:
        return None if self.lease_ms is None else self.lease_ms / 1000

    def should_continue(self, rounds: int, started: float) -> bool:
        """Whether a worker starts another round after `rounds` rounds."""
        return rounds < self.rounds and time.monotonic() - started < self.seconds


def parse() -> Settings:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["count", "turns", "hold", "downgrade"])
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("--kind", default="lock")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1_000_000_000)
    parser.add_argument("--seconds", type=float, default=1_000_000)
    parser.add_argument("--hold-ms", type=int, default=0)
    parser.add_argument("--lease-ms", type=int)
    parser.add_argument("--permits", type=int, default=1)
    parser.add_argument("--limit", type=int, default=1)
    parser.add_argument("--log", type=int, default=0)
    parser.add_argument("--warm-up", type=int, default=0)
    return Settings(**vars(parser.parse_args()))


def entry(step: str, identity: str, remaining: float) -> dict[Any, Any]:
    """Returns the entry of `NAME:log` for a worker that enters, with the remaining time of its lease, or leaves."""
    return {"step": step, "id": identity, "until": int((time.time() + remaining) * 1000)}
