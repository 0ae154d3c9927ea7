"""Helpers that collect the data of OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

from steadlock.opentelemetry import Instrumentation, instrument

Attributes: TypeAlias = dict[str, Any]
Numbers: TypeAlias = dict[frozenset[tuple[str, Any]], float]
LIMIT = 20
"""The limit for any wait in seconds."""


class Collected(SpanProcessor):
    """Providers of tracers and meters, with their spans and metrics."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ended: list[ReadableSpan] = []
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(self)
        self.tracer = self.tracers.get_tracer("program")

    def instrument(self, client: Any) -> Instrumentation:
        return instrument(client, tracer_provider=self.tracers, meter_provider=self.meters)

    def on_end(self, span: ReadableSpan) -> None:
        with self._changed:
            self._ended.append(span)
            self._changed.notify_all()

    def spans(self, name: str) -> list[ReadableSpan]:
        """Returns the ended spans of this name."""
        with self._changed:
            return [span for span in self._ended if span.name == name]

    def waits(self) -> list[ReadableSpan]:
        return self.spans("steadlock.wait")

    def holds(self) -> list[ReadableSpan]:
        return self.spans("steadlock.hold")

    def hold(self) -> ReadableSpan:
        """Waits for the end of the only hold, and returns its span."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(s.name == "steadlock.hold" for s in self._ended), LIMIT)
        (hold,) = self.holds()
        return hold

    async def hold_of_tasks(self) -> ReadableSpan:
        """Does what `hold` does, without blocking the event loop."""
        async with asyncio.timeout(LIMIT):
            # The end of a span notifies no event loop, so this code polls.
            while not self.holds():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        (hold,) = self.holds()
        return hold

    def outcomes(self) -> list[str]:
        """Returns the outcomes of the waits, in the order of their ends."""
        return [attributes(span)["steadlock.outcome"] for span in self.waits()]

    def metrics(self) -> dict[str, Any]:
        """Returns all metrics by name, as a reader gets them."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        assert {scope.scope.name for scope in scopes} <= {"steadlock"}
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def numbers(self, name: str) -> Numbers:
        """Returns the numbers of a metric by attributes; for a histogram, the counts of its records."""
        metric = self.metrics().get(name)
        return {} if metric is None else numbers_of(metric)


def numbers_of(metric: Any) -> Numbers:
    return {
        frozenset(point.attributes.items()): point.value if hasattr(point, "value") else point.count
        for point in metric.data.data_points
    }


def attributes(span: ReadableSpan) -> Attributes:
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan) -> int | None:
    """Returns the id of the span's parent."""
    return None if span.parent is None else span.parent.span_id


def id_of(span: Any) -> int:
    found: int = span.get_span_context().span_id
    return found


def is_error(span: ReadableSpan) -> bool:
    assert span.status.status_code in (StatusCode.UNSET, StatusCode.ERROR)
    return span.status.status_code is StatusCode.ERROR


def eventually_waits(text: Callable[[], str]) -> None:
    """Waits until a caller of the client waits for a lock."""
    end = time.monotonic() + LIMIT
    while not any(line.startswith("steadlock_waiting") and line.endswith(" 1") for line in text().split("\n")):
        assert time.monotonic() < end, text()
        time.sleep(0.005)
