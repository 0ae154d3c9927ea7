"""Measures the server's time for each script, in µs, compared with other lock libraries. See ../README.md."""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import HEAVY_HEAD, MARKDOWN
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))

import libraries  # noqa: E402
import ours  # noqa: E402
from meter import Meter  # noqa: E402
from scenario import Scenario  # noqa: E402

from redis_server import redis_process  # noqa: E402  (found by the line above)

Rounds = list[dict[str, float]]
# Our kinds of locks, each with a kind of another library that does the same work. SAME has our names of the steps that
# other libraries name differently.
PAIRS = [
    ("lock", "Redisson lock"),
    ("fair_lock", "Redisson fair"),
    ("write", "Redisson write"),
    ("read", "Redisson read"),
    ("mutex", "redis-py Lock"),
    ("mutex", "redis-semaphore mutex"),
    ("semaphore", "redis-semaphore semaphore"),
]
SAME = {"extend": "renew"}


def measure(meter: Meter, scenarios: Mapping[str, Scenario], rounds: int) -> dict[str, Rounds]:
    """Returns the time of each step in each round. The scenarios alternate, so a busy moment affects all of them."""
    times: dict[str, Rounds] = {name: [] for name in scenarios}
    for number in range(rounds + 1):
        # The order is reversed each time, because the first scenario would always find colder caches.
        for name in list(scenarios)[:: 1 if number % 2 else -1]:
            one = scenarios[name].run(meter)
            # The first round does not count: it warms the server up and creates the counters of fencing tokens.
            if number > 0:
                times[name].append(one)
    return times


def median(rounds: Rounds, step: str) -> float:
    return statistics.median(one[step] for one in rounds)


def ratio(own: Rounds, others: Rounds, step: str, their_step: str) -> float:
    """Returns the median of the ratios in each round."""
    return statistics.median(one[step] / other[their_step] for one, other in zip(own, others, strict=True))


def steps(scenario: Scenario) -> list[str]:
    return [name for name in dict.fromkeys(step.name for step in scenario.steps) if name]


def compare_with_libraries(meter: Meter, port: int, only: str, rounds: int) -> list[Table]:
    """Returns a table of our scripts and other libraries, and one of our steps that the others do not have."""
    of_ours = {name: scenario for name, scenario in ours.scenarios(meter).items() if only in name}
    pairs = [(kind, other) for kind, other in PAIRS if kind in of_ours]
    of_others = {other: libraries.scenario(port, other) for _, other in pairs}
    times = measure(meter, {**of_ours, **of_others}, rounds)
    title = f"server time of a call in µs, {meter.version}, {rounds} rounds"
    table = Table("kind", "step", title=title)
    for column in ("ours", "no fencing", "other", "", "ratio", "no fencing"):
        table.add_column(column, justify="right" if column else "left")
    only_ours = Table("kind", "step", "ours", title=title)
    for kind, other in pairs:
        own, plain, theirs = times[kind], times.get(f"{kind}, no fencing"), times[other]
        for step in steps(of_others[other]):
            same = SAME.get(step, step)
            figures = [median(of, same) if of else None for of in (own, plain)] + [median(theirs, step)]
            ratios = [ratio(of, theirs, same, step) if of else None for of in (own, plain)]
            table.add_row(kind, step, *_formatted(figures, 1), other, *_formatted(ratios, 2))
    compared = {name for kind, _ in pairs for name in (kind, f"{kind}, no fencing")}
    for kind, scenario in of_ours.items():
        for step in steps(scenario):
            if kind not in compared or step not in libraries.STEPS:
                only_ours.add_row(kind, step, *_formatted([median(times[kind], step)], 1))
    return [table, only_ours]


def _formatted(figures: Sequence[float | None], digits: int) -> list[str]:
    return ["" if figure is None else f"{figure:.{digits}f}" for figure in figures]


def compare_with_before(meter: Meter, before: Path, only: str, rounds: int) -> list[Table]:
    """Returns a table of our scripts and those of another folder."""
    new = {name: scenario for name, scenario in ours.scenarios(meter).items() if only in name}
    old = {f"{name} before": scenario for name, scenario in ours.scenarios(meter, before).items() if only in name}
    # The two versions of each scenario are neighbours, so that both are measured under the same conditions.
    mixed = {key: of[key] for name in new for key, of in ((name, new), (f"{name} before", old))}
    times = measure(meter, mixed, rounds)
    table = Table("kind", "step", title=f"server time of a call in µs, {meter.version}, {rounds} rounds")
    for column in ("before", "now", "ratio"):
        table.add_column(column, justify="right")
    for name, scenario in new.items():
        own, theirs = times[name], times[f"{name} before"]
        for step in steps(scenario):
            figures = [median(theirs, step), median(own, step), ratio(own, theirs, step, step)]
            table.add_row(name, step, *_formatted(figures, 2))
    return [table]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--before", type=Path, help="another core/protocol/lua, in place of other libraries")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args()
    with redis_process() as server:
        meter = Meter(server.port)
        if options.before:
            tables = compare_with_before(meter, options.before, options.only, options.rounds)
        else:
            tables = compare_with_libraries(meter, server.port, options.only, options.rounds)
    for table in tables:
        table.box = MARKDOWN if options.markdown else HEAVY_HEAD
        Console(highlight=False, width=160 if options.markdown else None).print(table)


if __name__ == "__main__":
    main()
