"""The metrics. The core counts; here its numbers are read whenever a meter wants them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from steadlock.opentelemetry._text import Family, Labels, families

NAMES: Final = {
    "steadlock_acquisitions_total": ("steadlock.acquisitions", "{acquisition}"),
    "steadlock_wait_seconds": ("steadlock.wait.duration", "s"),
    "steadlock_hold_seconds": ("steadlock.hold.duration", "s"),
    "steadlock_held": ("steadlock.held", "{lease}"),
    "steadlock_waiting": ("steadlock.waiting", "{caller}"),
    "steadlock_renewals_total": ("steadlock.renewals", "{renewal}"),
    "steadlock_losses_total": ("steadlock.losses", "{lease}"),
    "steadlock_connections_lost_total": ("steadlock.connections.lost", "{connection}"),
    "steadlock_reconnects_total": ("steadlock.reconnects", "{connection}"),
    "steadlock_connect_failures_total": ("steadlock.connect.failures", "{try}"),
    "steadlock_breakers_opened_total": ("steadlock.breakers.opened", "{breaker}"),
    "steadlock_breakers_open": ("steadlock.breakers.open", "{breaker}"),
    "steadlock_fair_queue": ("steadlock.fair.queue", "{caller}"),
}
"""The name and the unit that each metric of the core has in OpenTelemetry."""
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0)
"""The bounds of the histograms, in seconds."""


class Counts:
    """What one client has counted. It is read once for all instruments of a collection."""

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        self._mutex = threading.Lock()
        self._families: dict[str, Family] = {}
        self._given: set[str] = set()

    def of(self, name: str) -> dict[Labels, int]:
        """The numbers of a metric. Who asks for the same one again asks in another collection."""
        with self._mutex:
            if name in self._given or not self._families:
                self._families = families(self._read())
                self._given.clear()
            self._given.add(name)
            return self._families[name].numbers

    def last(self) -> dict[str, Family]:
        """All of them, as they are now."""
        return families(self._read())


class Counting(Protocol):
    """A client, as far as the meter goes."""

    @property
    def counts(self) -> Counts: ...


class Instruments:
    """The instruments of one meter, in which any number of clients count together.

    A meter knows an instrument of each name once, with one callback, for ever; the clients come and go.
    """

    def __init__(self, meter: Meter, text: str) -> None:
        self._mutex = threading.Lock()
        # A client that the program has dropped counts no longer.
        self._clients: WeakSet[Counting] = WeakSet()
        # What clients have counted that are closed: while others count on, a counter must not go back.
        self._before: dict[str, Counter[Labels]] = {}
        core = families(text)
        for name, (otel_name, unit) in NAMES.items():
            family = core[name]
            if family.kind == "histogram":
                continue
            is_counter = family.kind == "counter"
            make = meter.create_observable_counter if is_counter else meter.create_observable_up_down_counter
            make(otel_name, [self._callback(name)], unit, family.meaning)
            if is_counter:
                self._before[name] = Counter()
        self.wait, self.hold = (
            meter.create_histogram(
                NAMES[name][0], NAMES[name][1], core[name].meaning, explicit_bucket_boundaries_advisory=BUCKETS
            )
            for name in ("steadlock_wait_seconds", "steadlock_hold_seconds")
        )

    def add(self, client: Counting) -> None:
        """It counts from now on."""
        with self._mutex:
            self._clients.add(client)

    def remove(self, client: Counting) -> None:
        """It counts no longer. Idempotent."""
        with self._mutex:
            self._clients.discard(client)

    def closed(self, client: Counting) -> None:
        """It was closed, and so counts no longer. Idempotent."""
        with self._mutex:
            if client not in self._clients:
                return
            self._clients.remove(client)
            core = client.counts.last()
            for name, counter in self._before.items():
                counter.update(core[name].numbers)

    def after_fork(self) -> None:
        """In the child of a fork all clients count from zero."""
        self._mutex = threading.Lock()
        for counter in self._before.values():
            counter.clear()

    def _callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: self._observe(name)

    def _observe(self, name: str) -> list[Observation]:
        with self._mutex:
            clients = list(self._clients)
            if not clients:
                return []
            totals = Counter(self._before.get(name))
            for client in clients:
                totals.update(client.counts.of(name))
        return [
            Observation(number, {f"steadlock.{label}": word for label, word in labels})
            for labels, number in totals.items()
        ]


def instruments_of(provider: MeterProvider | None, version: str, text: str) -> Instruments:
    """The instruments of this provider, or of the global one. It has them once for all clients."""
    chosen = metrics.get_meter_provider() if provider is None else provider
    with _mutex:
        known = _known.get(chosen)
        # What was made for the global provider before it was set belongs to the one that is set now.
        if known is None and chosen is metrics.get_meter_provider():
            known = _globals.get("instruments")
        if known is None:
            meter = metrics.get_meter("steadlock", version, provider)
            known = _known[chosen] = Instruments(meter, text)
            if chosen is metrics.get_meter_provider():
                _globals["instruments"] = known
        return known


_mutex = threading.Lock()
_known: WeakKeyDictionary[MeterProvider, Instruments] = WeakKeyDictionary()
_globals: dict[str, Instruments] = {}
