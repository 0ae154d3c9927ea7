"""What a client does, as spans and metrics of OpenTelemetry.

    import steadlock
    from steadlock.opentelemetry import instrument

    client = steadlock.connect("redis://localhost", metrics=True)
    instrument(client)

It needs the package `opentelemetry-api`: `pip install "steadlock[opentelemetry]"`. Where spans and
metrics go is what the program has set up by an SDK of OpenTelemetry.
"""

from __future__ import annotations

from typing import Any

try:
    from opentelemetry import metrics, trace
except ImportError as error:
    raise ModuleNotFoundError(
        'steadlock.opentelemetry needs the package opentelemetry-api: pip install "steadlock[opentelemetry]"',
        name=error.name,
    ) from error

from steadlock._client import ClientBase
from steadlock._connection import ConnectionBase
from steadlock._native import __version__
from steadlock._shown import type_of
from steadlock.errors import InvalidArgumentError
from steadlock.opentelemetry._instruments import Counts, instruments_of
from steadlock.opentelemetry._measuring import Measuring

__all__ = ["Instrumentation", "instrument"]


def instrument(
    client: ClientBase[Any, Any, Any, Any, Any],
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Instrumentation:
    """From now on the client has spans and metrics of OpenTelemetry: a `steadlock.Client` or a
    `steadlock.aio.Client`, of one server or of several, which was made with `metrics=True`.

    Without providers the global ones count, also if they are set later. Each acquisition has the
    spans `steadlock.wait` and `steadlock.hold`, whose parent is the span in which the lock was asked
    for. A hold ends by its release, in whatever thread or task, by its loss, or when the client is
    closed. The metrics are those of `Client.metrics`. Clients with one meter provider are counted
    together; a client that was closed adds nothing any more. Whatever providers and exporters
    raise, locks work as ever; the log says so once.

    Raises `InvalidArgumentError` if the client was made without `metrics=True`, or is instrumented
    already.
    """
    if not isinstance(client, ClientBase):
        raise TypeError(f"instrument: a client is wanted, not a {type_of(client)}")
    connection: ConnectionBase[Any] = client._connection
    core = Counts(connection.native.metric_rows).last()
    if connection.telemetry is not None:
        raise InvalidArgumentError(
            "instrument: the client is instrumented already; uninstrument it first", operation="inspect"
        )
    tracer = trace.get_tracer("steadlock", __version__, tracer_provider)
    measuring = Measuring(connection.native, tracer, instruments_of(meter_provider, __version__, core))
    connection.measure_by(measuring)
    measuring.begin()
    return Instrumentation(connection, measuring)


class Instrumentation:
    """The spans and metrics of one client. Made by `instrument`."""

    __slots__ = ("_connection", "_measuring")

    def __init__(self, connection: ConnectionBase[Any], measuring: Measuring) -> None:
        self._connection = connection
        self._measuring = measuring

    def uninstrument(self) -> None:
        """From now on the client has no spans and no metrics of OpenTelemetry. Idempotent.

        Spans of leases that are held end now, without an outcome.
        """
        if self._connection.telemetry is self._measuring:
            self._connection.measure_by(None)
        self._measuring.stop()
