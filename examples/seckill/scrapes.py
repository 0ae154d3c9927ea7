"""Scrapes the metrics of the services and the server of a run, as Prometheus does."""

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CONTENT_TYPE = "text/plain; version=0.0.4"
EVERY = 0.2
TIMEOUT = 10.0


@dataclass
class Page:
    """The result of one scrape: the type of each metric, and the number of each of its series."""

    types: dict[str, str] = field(default_factory=dict)
    series: dict[str, dict[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> "Page":
        page, name = cls(), ""
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                page.types[name], page.series[name] = kind, {}
            elif not line.startswith("#"):
                # The series of a metric follow its TYPE line.
                series, _, number = line.rpartition(" ")
                page.series[name][series.removeprefix(name)] = float(number)
        return page

    def sum(self, name: str, label: str = "") -> float:
        """Returns the sum of all series of a metric with `label`. For a histogram, `_count` can be the label."""
        return sum(number for series, number in self.series.get(name, {}).items() if label in series)


Pages = dict[str, list[Page]]
"""The scrapes of each language and of the server."""


class Scrapes:
    """A thread that scrapes every page five times a second."""

    def __init__(self) -> None:
        self.pages: Pages = {}
        self.problems: list[str] = []
        self.addresses: dict[str, str] = {}
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._scrape, daemon=True)
        self.thread.start()

    def add(self, source: str, address: str) -> None:
        self.pages[source] = []
        self.addresses[source] = address

    def finish(self, is_enough: Callable[[Pages], bool]) -> None:
        """Continues until `is_enough` accepts the pages, for ten seconds at most. Then scrapes each page once more."""
        deadline = time.monotonic() + TIMEOUT
        while not is_enough(self.pages) and not self.problems and time.monotonic() < deadline:
            time.sleep(EVERY)
        self.close()
        if not self.problems:
            self._scrape_all()

    def close(self) -> None:
        self.done.set()
        self.thread.join()

    def _scrape(self) -> None:
        while not self.problems and not self.done.wait(EVERY):
            self._scrape_all()

    def _scrape_all(self) -> None:
        for source, address in list(self.addresses.items()):
            try:
                self.pages[source].append(Page.of(read(address)))
            except (OSError, http.client.HTTPException, LookupError, ValueError) as error:
                self.problems.append(f"the metrics of {source} could not be read: {error!r}")


def read(address: str) -> str:
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.netloc, timeout=TIMEOUT)
    try:
        connection.request("GET", where.path)
        answer = connection.getresponse()
        kind = answer.getheader("Content-Type", "nothing")
        if answer.status != 200 or not kind.startswith(CONTENT_TYPE):
            raise ValueError(f"status {answer.status} with {kind}")
        return answer.read().decode()
    finally:
        connection.close()
