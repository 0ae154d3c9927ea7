"""Reads `NAME:log`, in which the contenders record when they enter and leave the lock, by the server's clock."""

from dataclasses import dataclass
from typing import Any, cast

from programs import Server


@dataclass(frozen=True)
class Step:
    """A worker that entered or left, with the time and the end of its lease, both in seconds of the server's clock."""

    at: float
    is_enter: bool
    id: str
    until: float

    @property
    def process(self) -> str:
        return self.id.partition("/")[0]


def steps(server: Server, name: str) -> list[Step]:
    entries: list[tuple[str, dict[str, str]]] = cast("Any", server.store.xrange(f"{name}:log"))
    return [
        Step(int(time.partition("-")[0]) / 1000, entry["step"] == "enter", entry["id"], int(entry["until"]) / 1000)
        for time, entry in entries
    ]


def most_holders_at_once(steps: list[Step]) -> int:
    """Returns the largest number of workers inside at once. A worker that never left counts until its lease ends."""
    inside: dict[str, float] = {}
    most = 0
    for step in steps:
        inside = {worker: until for worker, until in inside.items() if until > step.at}
        if step.is_enter:
            inside[step.id] = step.until
        else:
            inside.pop(step.id, None)
        most = max(most, len(inside))
    return most


def longest_gap(steps: list[Step], free_since: float) -> float:
    """Returns the longest time in seconds without a worker inside, from `free_since` until the last worker entered."""
    inside: set[str] = set()
    longest = 0.0
    for step in steps:
        if step.is_enter:
            if not inside:
                longest = max(longest, step.at - free_since)
            inside.add(step.id)
        else:
            inside.discard(step.id)
            free_since = step.at
    return longest
