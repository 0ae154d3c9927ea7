"""Checks the metrics of a run against the table of all metrics and against the sales.

The table is ci/api/metrics.json. A metric of the table without a row in EXPECTED is a problem too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path

from display import Tally
from scrapes import Page, Pages

TABLE = Path(__file__).resolve().parents[2] / "ci" / "api" / "metrics.json"
SERVER = "server"


class Rule(Enum):
    """The values that a metric must have in a correct run."""

    POSITIVE = "above zero at some scrape"
    NEVER = "zero at every scrape"
    EITHER = "zero or above zero"


@dataclass(frozen=True)
class Expected:
    """A rule for the series of a metric with `label`. All other series of the metric must be zero at every scrape."""

    rule: Rule
    label: str = ""

    def of(self, name: str) -> str:
        return f"{name}{{{self.label}}}" if self.label else name


POSITIVE, NEVER, EITHER = map(Expected, Rule)
EXPECTED = {
    "steadlock_acquisitions_total": Expected(Rule.POSITIVE, 'outcome="granted"'),
    "steadlock_wait_seconds": POSITIVE,
    "steadlock_hold_seconds": POSITIVE,
    "steadlock_held": POSITIVE,
    "steadlock_waiting": POSITIVE,
    "steadlock_renewals_total": Expected(Rule.POSITIVE, 'outcome="renewed"'),
    "steadlock_losses_total": NEVER,
    "steadlock_runs_total": NEVER,
    "steadlock_job_last_success_time_seconds": NEVER,
    "steadlock_connections_lost_total": NEVER,
    "steadlock_reconnects_total": NEVER,
    "steadlock_connect_failures_total": NEVER,
    "steadlock_breakers_opened_total": NEVER,
    "steadlock_breakers_open": NEVER,
    "steadlock_fair_queue": NEVER,
    "steadlock_server_uptime_seconds": POSITIVE,
    "steadlock_server_keys": POSITIVE,
    "steadlock_server_expiring_keys": POSITIVE,
    "steadlock_server_data_bytes": POSITIVE,
    "steadlock_server_data_limit_bytes": POSITIVE,
    # Above zero only if a connection has data in its buffers at the moment of the scrape.
    "steadlock_server_buffer_bytes": EITHER,
    "steadlock_server_scripts": POSITIVE,
    "steadlock_server_clients": POSITIVE,
    "steadlock_server_connections_total": POSITIVE,
    "steadlock_server_commands_total": POSITIVE,
    # The Redis libraries of the services send CLIENT commands that this server does not support.
    "steadlock_server_command_errors_total": Expected(Rule.EITHER, 'command="client"'),
}


@dataclass(frozen=True)
class Row:
    """A metric of the table."""

    name: str
    type: str


def table(part: str) -> list[Row]:
    """Returns all metrics of the part `client` or `server`."""
    return [Row(row["name"], row["type"]) for row in json.loads(TABLE.read_text())[part]]


def granted(pages: Pages, language: str) -> int:
    """Returns how often a language acquired the lock of the vouchers, according to its metrics."""
    last = pages[language][-1] if pages.get(language) else Page()
    return int(last.sum("steadlock_acquisitions_total", 'kind="lock",group="seckill",outcome="granted"'))


def problems(pages: Pages, tallies: Mapping[str, Tally], sold: Mapping[str, int]) -> list[str]:
    """Returns all problems of the metrics."""
    rows = [*table("client"), *table("server")]
    found = [f"{row.name} is in {TABLE.name}, but not in EXPECTED" for row in rows if row.name not in EXPECTED]
    found += [
        f"{name} is in EXPECTED, but not in {TABLE.name}" for name in EXPECTED.keys() - {row.name for row in rows}
    ]
    for source, scrapes in pages.items():
        found += check_scrapes(source, scrapes)
    if not found:
        for language, tally in tallies.items():
            found += check_sales(language, pages, tally, sold[language])
        if SERVER in pages:
            found += check_server(pages[SERVER][-1], sum(granted(pages, language) for language in tallies))
    return found


def check_scrapes(source: str, scrapes: list[Page]) -> list[str]:
    """Checks the scrapes of one service or of the server against the table and the rules. Returns the problems."""
    if not scrapes:
        return [f"{source} gave no metrics"]
    rows = table("server" if source == SERVER else "client")
    if scrapes[-1].types != {row.name: row.type for row in rows}:
        differ = sorted(scrapes[-1].types.items() ^ {(row.name, row.type) for row in rows})
        return [f"{source} and {TABLE.name} do not have the same metrics: {differ}"]
    found = []
    for row in rows:
        expected = EXPECTED.get(row.name, EITHER)
        is_positive = any(page.sum(row.name, expected.label) > 0 for page in scrapes)
        if expected.rule in (Rule.POSITIVE, Rule.NEVER) and is_positive != (expected.rule is Rule.POSITIVE):
            found.append(f"{expected.of(row.name)} of {source} was not {expected.rule.value}")
        if any(page.sum(row.name) != page.sum(row.name, expected.label) for page in scrapes):
            found.append(f"{row.name} of {source} was not zero apart from {expected.label}")
        if row.type != "gauge" and any(
            number > later.series[row.name].get(series, 0)
            for earlier, later in pairwise(scrapes)
            for series, number in earlier.series[row.name].items()
        ):
            found.append(f"{row.name} of {source} fell")
    return found


def check_sales(language: str, pages: Pages, tally: Tally, sold: int) -> list[str]:
    """Checks the last scrape of a language against the grants and sales of its service. Returns the problems."""
    page = pages[language][-1]
    acquisitions = page.sum("steadlock_acquisitions_total")
    waits = page.sum("steadlock_wait_seconds", "_count")
    ended, held = page.sum("steadlock_hold_seconds", "_count"), page.sum("steadlock_held")
    found = []
    if granted(pages, language) != tally.grants:
        found.append(f"{language} acquired the lock {tally.grants} times, and counted {granted(pages, language)}")
    if granted(pages, language) < sold + tally.refused:
        found.append(f"{language} sold {sold}, and was granted the lock {granted(pages, language)} times")
    if not acquisitions == waits == ended + held:
        found.append(f"{language}: {acquisitions:.0f} acquisitions, {waits:.0f} waits, {ended + held:.0f} holds")
    if page.sum("steadlock_waiting"):
        found.append(f"{language} still waits for a lock at the end")
    return found


def check_server(page: Page, grants: int) -> list[str]:
    """Checks the last scrape of the server: each grant ran a script, and so did its release. Returns the problems."""
    scripts = page.sum("steadlock_server_commands_total", 'command="evalsha"')
    return [] if scripts >= 2 * grants else [f"the server ran {scripts:.0f} scripts for {grants} grants"]
