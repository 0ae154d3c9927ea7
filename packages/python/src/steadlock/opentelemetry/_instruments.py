"""The metrics. The core counts; this module reads the numbers when a meter collects them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary, ref

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from steadlock import _native

Labels: TypeAlias = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """A metric of the core, and its number for each set of labels; in a histogram, the number of durations."""

    name: str
    unit: str
    kind: str
    meaning: str
    bounds: list[float]
    numbers: dict[Labels, int]


class Counts:
    """The counts of one client. They are read once for all instruments of a collection."""

    def __init__(self, read: Callable[[], list[_native.Metric]]) -> None:
        self._read = read
        self._reading: _Reading | None = None

    def of(self, name: str) -> dict[Labels, int]:
        """Returns the numbers of a metric. A second request for the same metric belongs to a new collection, so it
        reads again.
        """
        # Needs no lock: if two threads read at the same time, one result is not used.
        reading = self._reading
        if reading is None or name in reading.served:
            reading = self._reading = _Reading(self.last())
        reading.served.add(name)
        return reading.metrics[name].numbers

    def last(self) -> dict[str, Metric]:
        """Reads all metrics, and returns them by their names."""
        return {metric[0]: Metric(*metric) for metric in self._read()}


@dataclass(slots=True)
class _Reading:
    metrics: dict[str, Metric]
    served: set[str] = field(default_factory=set)


class Counting(Protocol):
    """The part of a client that a meter uses."""

    @property
    def counts(self) -> Counts: ...


class Instruments:
    """The instruments of one meter, in which any number of clients count together.

    A meter keeps each instrument and its one callback for ever, while clients come and go. This class has no lock: a
    meter calls back from any thread and holds its own locks meanwhile, and signal handlers and finalizers can call it
    too. Each change of the counted clients is one atomic step of a dictionary.
    """

    def __init__(self) -> None:
        # The counted clients by identity: a reference to the client, or the counts of a closed one. The counts of
        # closed clients stay, because a counter must not fall while other clients still count. A client that the
        # program has dropped is not counted any more.
        self._counted: dict[int, ref[Counting] | dict[str, Counter[Labels]]] = {}
        self._is_adding = False
        self._made: dict[str, object] = {}
        self.wait: _Recorder = _NoopRecorder()
        self.hold: _Recorder = _NoopRecorder()

    def make(self, meter: Meter, core: dict[str, Metric]) -> None:
        """Makes the instruments that do not exist yet. Durations are recorded from then on."""
        for name, metric in core.items():
            marker = object()
            try:
                # One atomic step: if two threads come at the same time, one of them makes the instrument.
                if self._made.setdefault(name, marker) is marker:
                    self._make(meter, metric)
            except BaseException:
                if self._made.get(name) is marker:
                    self._made.pop(name, None)
                raise

    def add(self, client: Counting) -> None:
        """Adds a client."""
        number = id(client)
        self._counted[number] = ref(client, lambda known: self._on_dropped(number, known))

    def remove(self, client: Counting) -> None:
        """Removes a client. Idempotent."""
        known = self._counted.get(id(client))
        if isinstance(known, ref) and known() is client:
            self._counted.pop(id(client), None)

    def closed(self, client: Counting) -> None:
        """Called when a client was closed. Keeps its counts. Idempotent."""
        known = self._counted.get(id(client))
        if not isinstance(known, ref) or known() is not client:
            return
        core = client.counts.last()
        counters = {name: Counter(metric.numbers) for name, metric in core.items() if metric.kind == "counter"}
        self._counted[id(client)] = counters
        # The counts need another key, because another client can get the same identity.
        self._add_to_closed(id(client), counters)

    def after_fork(self) -> None:
        """Called in the child of a fork, where all clients count from zero."""
        # Another thread of the parent may have been adding up.
        self._is_adding = False
        for number, known in list(self._counted.items()):
            if not isinstance(known, ref):
                self._counted.pop(number, None)

    def _add_to_closed(self, number: int, counters: dict[str, Counter[Labels]]) -> None:
        """Adds the counts of a closed client to those of the clients that were closed before."""
        before = self._counted.get(_CLOSED_CLIENTS, {})
        if self._is_adding or isinstance(before, ref):
            # Another call of this method is running. These counts stay separate, under a unique number.
            self._counted.update({-2 - id(counters): counters, number: {}})
            self._counted.pop(number, None)
            return
        try:
            self._is_adding = True
            total = {name: before.get(name, Counter()) + counter for name, counter in counters.items()}
            # One atomic step, so that no reader counts the client twice, or not at all.
            self._counted.update({_CLOSED_CLIENTS: total, number: {}})
            self._counted.pop(number, None)
        finally:
            self._is_adding = False

    def _on_dropped(self, number: int, known: ref[Counting]) -> None:
        if self._counted.get(number) is known:
            self._counted.pop(number, None)

    def _make(self, meter: Meter, metric: Metric) -> None:
        name, unit, kind, meaning, bounds, _ = metric
        if kind == "histogram":
            recorder = meter.create_histogram(name, unit, meaning, explicit_bucket_boundaries_advisory=bounds)
            if name == "steadlock.wait.duration":
                self.wait = recorder
            else:
                self.hold = recorder
            return
        make = meter.create_observable_counter if kind == "counter" else meter.create_observable_up_down_counter
        make(name, [self._callback(name)], unit, meaning)

    def _callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: self._observe(name)

    def _observe(self, name: str) -> list[Observation]:
        # Reads the list once: a client that is closed meanwhile is in it either as a client or with its counts.
        counted = list(self._counted.values())
        totals: Counter[Labels] = Counter()
        is_used = False
        for known in counted:
            if isinstance(known, ref):
                client = known()
                if client is not None:
                    is_used = True
                    totals.update(client.counts.of(name))
            else:
                totals.update(known.get(name, {}))
        if not is_used:
            return []
        return [
            Observation(number, {f"steadlock.{label}": word for label, word in labels})
            for labels, number in totals.items()
        ]


class _Recorder(Protocol):
    def record(self, amount: float, attributes: Any = None, context: Any = None) -> None: ...


class _NoopRecorder:
    def record(self, amount: float, attributes: Any = None, context: Any = None) -> None: ...


def instruments_of(provider: MeterProvider | None, version: str, core: dict[str, Metric]) -> Instruments:
    """Returns the instruments of this provider, or of the global one. All clients share them."""
    chosen = metrics.get_meter_provider() if provider is None else provider
    is_global = chosen is metrics.get_meter_provider()
    known = _by_provider.get(chosen)
    # Instruments that were made before the program set the global provider belong to the provider that is set now.
    if known is None and is_global:
        known = _of_global_provider.get("instruments")
    if known is None:
        # Each of these is one atomic step: if two threads come at the same time, both get the instruments of the first.
        known = _by_provider.setdefault(chosen, Instruments())
        if is_global:
            known = _of_global_provider.setdefault("instruments", known)
    known.make(metrics.get_meter("steadlock", version, provider), core)
    return known


_CLOSED_CLIENTS: Final = -1
"""The number for the counts of closed clients. It is no client's identity."""
_by_provider: WeakKeyDictionary[MeterProvider, Instruments] = WeakKeyDictionary()
_of_global_provider: dict[str, Instruments] = {}
