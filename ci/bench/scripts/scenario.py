"""The measured scenarios: sequences of steps, each with its commands for one lock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meter import Arguments, Meter

# The number of locks that take each step together, each with its own name.
LOCKS = 50


@dataclass(frozen=True)
class Step:
    """One operation, with its commands for a lock's name. Some libraries send several commands."""

    name: str
    commands: Callable[[str], Sequence[Arguments]]
    # The expected first element of the reply to the first command, or `None` if any reply is right.
    reply: object = None


@dataclass(frozen=True)
class Scenario:
    """Steps on locks that are free before the first step and after the last."""

    steps: Sequence[Step]
    # Returns the key of a lock's record. The record must exist after the first step and not after the last.
    record: Callable[[str], str] | None = None

    def run(self, meter: Meter) -> dict[str, float]:
        """Runs the steps, and returns the server's time of each for one lock, in microseconds."""
        times: dict[str, float] = {}
        names = [f"bench:{number:06}" for number in range(LOCKS)]
        for step in self.steps:
            if self.record and step is self.steps[1]:
                self._expect(meter, names, len(names))
            of_names = [step.commands(name) for name in names]
            times[step.name] = 0.0
            # One pipeline has the same command of all locks, so that its row in INFO counts nothing else.
            for number, commands in enumerate(zip(*of_names, strict=True)):
                microseconds, replies = meter.microseconds(commands)
                times[step.name] += microseconds
                if number == 0 and step.reply is not None:
                    _check(step, replies)
        if self.record:
            self._expect(meter, names, 0)
        return times

    def _expect(self, meter: Meter, names: Sequence[str], records: int) -> None:
        assert self.record
        found = meter.count([self.record(name) for name in names])
        if found != records:
            raise RuntimeError(f"{found} records instead of {records}: the commands do not lock, or do not release")


def _check(step: Step, replies: Sequence[object]) -> None:
    for reply in replies:
        first = reply[0] if isinstance(reply, list) else reply
        if first != step.reply:
            raise RuntimeError(f"{step.name}: the server said {reply}")
