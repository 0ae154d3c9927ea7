"""The metrics. The core counts; here its numbers are read whenever a meter wants them."""

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
    """A metric of the core, and its number for each set of labels; for a histogram, how many times it counted."""

    name: str
    unit: str
    kind: str
    meaning: str
    bounds: list[float]
    numbers: dict[Labels, int]


class Counts:
    """What one client has counted. It is read once for all instruments of a collection."""

    def __init__(self, read: Callable[[], list[_native.Metric]]) -> None:
        self._read = read
        self._reading: _Reading | None = None

    def of(self, name: str) -> dict[Labels, int]:
        """The numbers of a metric. Who asks for the same one again asks in another collection."""
        # No lock: of two that read at once, one has read in vain.
        reading = self._reading
        if reading is None or name in reading.given:
            reading = self._reading = _Reading(self.last())
        reading.given.add(name)
        return reading.metrics[name].numbers

    def last(self) -> dict[str, Metric]:
        """All metrics by their names, with their numbers of now."""
        return {metric[0]: Metric(*metric) for metric in self._read()}


@dataclass(slots=True)
class _Reading:
    metrics: dict[str, Metric]
    given: set[str] = field(default_factory=set)


class Counting(Protocol):
    """A client, as far as the meter goes."""

    @property
    def counts(self) -> Counts: ...


class Instruments:
    """The instruments of one meter, in which any number of clients count together.

    A meter knows an instrument of each name once, with one callback, for ever; the clients come and go. No lock is held
    here: a meter calls back from any thread, with locks of its own, and so may a signal handler or a finalizer. Each
    change of what is counted is one step of a dictionary.
    """

    def __init__(self) -> None:
        # By the identity of a client: a reference to it, or what it has counted, if it was closed. While others count
        # on, a counter must not go back. A client that the program has dropped counts no longer.
        self._counted: dict[int, ref[Counting] | dict[str, Counter[Labels]]] = {}
        self._is_adding_up = False
        self._made: dict[str, object] = {}
        self.wait: _Recorder = _Nothing()
        self.hold: _Recorder = _Nothing()

    def make(self, meter: Meter, core: dict[str, Metric]) -> None:
        """Makes what nobody has made yet. Durations are recorded once their instrument is there."""
        for name, metric in core.items():
            mine = object()
            try:
                # One step: of two threads that come at once, one makes it.
                if self._made.setdefault(name, mine) is mine:
                    self._make(meter, metric)
            except BaseException:
                if self._made.get(name) is mine:
                    self._made.pop(name, None)
                raise

    def add(self, client: Counting) -> None:
        """It counts from now on."""
        number = id(client)
        self._counted[number] = ref(client, lambda known: self._is_gone(number, known))

    def remove(self, client: Counting) -> None:
        """It counts no longer. Idempotent."""
        known = self._counted.get(id(client))
        if isinstance(known, ref) and known() is client:
            self._counted.pop(id(client), None)

    def closed(self, client: Counting) -> None:
        """It was closed: what it has counted stays. Idempotent."""
        known = self._counted.get(id(client))
        if not isinstance(known, ref) or known() is not client:
            return
        core = client.counts.last()
        counters = {name: Counter(metric.numbers) for name, metric in core.items() if metric.kind == "counter"}
        self._counted[id(client)] = counters
        # Another client may get its identity.
        self._add_up(id(client), counters)

    def after_fork(self) -> None:
        """In the child of a fork all clients count from zero."""
        for number, known in list(self._counted.items()):
            if not isinstance(known, ref):
                self._counted.pop(number, None)

    def _add_up(self, number: int, counters: dict[str, Counter[Labels]]) -> None:
        """Adds what a closed client has counted to that of those before it."""
        before = self._counted.get(_BEFORE, {})
        if self._is_adding_up or isinstance(before, ref):
            # In the midst of another one's. It stays apart, under a number that nothing else gets.
            self._counted.update({-2 - id(counters): counters, number: {}})
            self._counted.pop(number, None)
            return
        try:
            self._is_adding_up = True
            total = {name: before.get(name, Counter()) + counter for name, counter in counters.items()}
            # One step: nobody counts it twice, or not at all.
            self._counted.update({_BEFORE: total, number: {}})
            self._counted.pop(number, None)
        finally:
            self._is_adding_up = False

    def _is_gone(self, number: int, known: ref[Counting]) -> None:
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
        # Once: a client that is closed meanwhile is in it, or what it has counted.
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


class _Nothing:
    def record(self, amount: float, attributes: Any = None, context: Any = None) -> None: ...


def instruments_of(provider: MeterProvider | None, version: str, core: dict[str, Metric]) -> Instruments:
    """The instruments of this provider, or of the global one. It has them once for all clients."""
    chosen = metrics.get_meter_provider() if provider is None else provider
    is_global = chosen is metrics.get_meter_provider()
    known = _known.get(chosen)
    # What was made for the global provider before it was set belongs to the one that is set now.
    if known is None and is_global:
        known = _globals.get("instruments")
    if known is None:
        # Each of these is one step: of two that come at once, both get what the first one made.
        known = _known.setdefault(chosen, Instruments())
        if is_global:
            known = _globals.setdefault("instruments", known)
    known.make(metrics.get_meter("steadlock", version, provider), core)
    return known


_BEFORE: Final = -1
"""Under which number it stands what closed clients have counted. No client has it."""
_known: WeakKeyDictionary[MeterProvider, Instruments] = WeakKeyDictionary()
_globals: dict[str, Instruments] = {}
