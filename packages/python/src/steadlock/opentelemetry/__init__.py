"""Reports the spans and metrics of a client to OpenTelemetry.

    import steadlock
    from steadlock.opentelemetry import instrument

    client = steadlock.connect("redis://localhost", metrics=True)
    instrument(client)

This module needs the package `opentelemetry-api`: `pip install "steadlock[opentelemetry]"`. The program sets the target
of spans and metrics with an SDK of OpenTelemetry.
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
from steadlock.opentelemetry._client_telemetry import ClientTelemetry
from steadlock.opentelemetry._instruments import Counts, instruments_of

__all__ = ["Instrumentation", "instrument"]


def instrument(
    client: ClientBase[Any, Any, Any, Any, Any, Any, Any],
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Instrumentation:
    """Starts to report spans and metrics of a client: a `steadlock.Client` or a `steadlock.aio.Client`, of one server
    or of several, which was made with `metrics=True`.

    The default providers are the global ones, even if they are set later. Each acquisition has a span `steadlock.wait`,
    and each granted one also `steadlock.hold`; the parent of both is the span in which the lock was requested. The span
    of the hold ends with its release, in any thread or task, with its loss, or when the client is closed. The metrics
    are those of `Client.metrics`. Clients with the same meter provider are counted together; a closed client adds
    nothing any more. An error of a provider or an exporter does not affect locks; the log reports it once.

    Raises `InvalidArgumentError` if the client was made without `metrics=True`, or is already instrumented.
    """
    if not isinstance(client, ClientBase):
        raise TypeError(f"instrument: expected a client, not a {type_of(client)}")
    connection: ConnectionBase[Any] = client._connection
    core = Counts(connection.native.metric_rows).last()
    if connection.telemetry is not None:
        raise InvalidArgumentError(
            "instrument: the client is instrumented already; uninstrument it first", operation="inspect"
        )
    tracer = trace.get_tracer("steadlock", __version__, tracer_provider)
    telemetry = ClientTelemetry(connection.native, tracer, instruments_of(meter_provider, __version__, core))
    connection.set_telemetry(telemetry)
    telemetry.begin()
    return Instrumentation(connection, telemetry)


class Instrumentation:
    """The spans and metrics of one client. Made by `instrument`."""

    __slots__ = ("_connection", "_telemetry")

    def __init__(self, connection: ConnectionBase[Any], telemetry: ClientTelemetry) -> None:
        self._connection = connection
        self._telemetry = telemetry

    def uninstrument(self) -> None:
        """Stops the reports to OpenTelemetry. Idempotent.

        The spans of held leases end now, without an outcome.
        """
        if self._connection.telemetry is self._telemetry:
            self._connection.set_telemetry(None)
        self._telemetry.stop()
