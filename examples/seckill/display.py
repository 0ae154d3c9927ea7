"""Prints the progress of a run, and a table at its end."""

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from audit import AuditResult


@dataclass
class Tally:
    """The latest report of a service."""

    sold: int = 0
    refused: int = 0
    grants: int = 0
    longestWaitMs: float = 0.0  # noqa: N815  (the name it has in the services' JSON)


class Display:
    """Shows progress bars on a terminal, and prints one plain line a second otherwise."""

    def __init__(self, languages: list[str], stock: int) -> None:
        self.console = Console(highlight=False)
        self.stock = stock
        self.languages = languages
        self.started = time.monotonic()
        self.last_line = self.started
        self.progress = Progress(
            TextColumn("{task.description:>8}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.bars: dict[str, TaskID] = {name: self.progress.add_task(name, total=stock) for name in languages}
        self.total = self.progress.add_task("total", total=stock)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def print(self, text: str) -> None:
        self.console.print(text)

    def update(self, tallies: dict[str, Tally]) -> None:
        total = sum(tally.sold for tally in tallies.values())
        for name, tally in tallies.items():
            self.progress.update(self.bars[name], completed=tally.sold)
        self.progress.update(self.total, completed=total)
        now = time.monotonic()
        if not self.console.is_terminal and (now - self.last_line >= 1 or total == self.stock):
            self.last_line = now
            parts = "  ".join(f"{name} {tally.sold}" for name, tally in tallies.items())
            self.print(f"{now - self.started:5.1f} s  {parts}  {self.stock - total} left")


def final_table(
    console: Console,
    audit: AuditResult,
    tallies: dict[str, Tally],
    seconds: float,
    granted: dict[str, int],
    metric_problems: list[str],
) -> None:
    """Prints the result: the sales as counted in the store, and the waits and grants as the services measured them.

    `granted` has the grants that the services' metrics count. `metric_problems` has all problems of the metrics.
    """
    table = Table(title="One stock, three languages", show_footer=True)
    grants = sum(tally.grants for tally in tallies.values())
    refused = sum(tally.refused for tally in tallies.values())
    longest = max(tally.longestWaitMs for tally in tallies.values())
    table.add_column("language", footer="total")
    table.add_column("sold", justify="right", footer=f"{sum(audit.sold.values()):,}")
    table.add_column("refused", justify="right", footer=f"{refused:,}")
    table.add_column("lock acquired", justify="right", footer=f"{grants:,}")
    table.add_column("longest wait", justify="right", footer=f"{longest:.0f} ms")
    for language, tally in tallies.items():
        sold = f"{audit.sold[language]:,}"
        table.add_row(language, sold, f"{tally.refused:,}", f"{tally.grants:,}", f"{tally.longestWaitMs:.0f} ms")
    console.print(table)
    console.print(f"oversold      {audit.oversold}")
    console.print(f"double sales  {audit.double_sales}")
    console.print(f"longest wait  {longest:.0f} ms")
    console.print(
        f"hand-overs    {grants / seconds:,.0f} per second ({grants:,} in {seconds:.1f} s; "
        f"{audit.hand_overs:,} sales followed one of another language)",
        soft_wrap=True,
    )
    counted = ", ".join(f"{language} {number:,}" for language, number in granted.items())
    agree = "do not agree" if metric_problems else "agree"
    console.print(f"metrics       {agree} with that: the lock was granted to {counted}", soft_wrap=True)
    for problem in [*audit.problems, *metric_problems]:
        console.print(f"[red]wrong:[/red] {problem}", soft_wrap=True)
