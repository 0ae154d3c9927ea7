"""The spans of one client, and their durations."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from steadlock import _log, _native
from steadlock._outcomes import LostReason
from steadlock._settings import LockSettings
from steadlock._shown import shown
from steadlock.errors import (
    ClosedError,
    ForkedError,
    InvalidArgumentError,
    LockLostError,
    LockTimeoutError,
    MisconfiguredError,
    NotOwnerError,
    SkippedError,
    SteadlockError,
    UnavailableError,
)
from steadlock.opentelemetry._instruments import Counts, Instruments

GROUPS_KEPT: Final = 1024
"""The number of lock names whose metrics group is cached."""


class ClientTelemetry:
    """The telemetry of one client. It refers to no lease, so that it keeps none alive."""

    def __init__(self, native: _native.Client, tracer: Tracer, instruments: Instruments) -> None:
        self.counts = Counts(native.metric_rows)
        self.instruments = instruments
        self.tracer = tracer
        self._native = native
        self._is_on = True
        self.is_closed = False
        self._has_failed = False
        self._holds: dict[int, _Hold] = {}
        """The spans of the held leases, by the leases' numbers. The code that removes a span must end it."""
        self._deferred: deque[Callable[[], object]] = deque()
        """The stored reports that were not processed yet."""
        self._group = lru_cache(GROUPS_KEPT)(native.metrics_group)

    def begin(self) -> None:
        self.instruments.add(self)

    def stop(self) -> None:
        """Stops measuring."""
        self._is_on = False
        self.catch_up()
        self.call_safely(self.instruments.remove, self)
        for number in list(self._holds):
            hold = self._holds.pop(number, None)
            if hold is not None:
                self.call_safely(hold.span.end)

    def wait(self, settings: LockSettings) -> _Wait:
        self.catch_up()
        wait = _Wait(self, settings)
        self.call_safely(wait.begin)
        return wait

    def hold(self, lease: _native.Lease, wait: _Wait) -> None:
        """Begins the span of a granted lease."""
        attributes: dict[str, str | int | bool] = dict(wait.attributes)
        if lease.token is not None:
            attributes["steadlock.token"] = lease.token
        if lease.degraded:
            attributes["steadlock.degraded"] = True
        span = self.tracer.start_span("steadlock.hold", wait.context, attributes=attributes)
        self._holds[lease.id] = _Hold(span, wait.context, wait.kind, wait.name, time.perf_counter())
        if not self._is_on:
            self.stop()
        # The event of the loss can have come before the grant was recorded.
        reason = lease.lost_reason
        if reason is not None:
            self.ended(lease.id, "lost", reason)
            self.catch_up()

    def ended(self, number: int, outcome: str, reason: LostReason | None) -> None:
        self._deferred.append(partial(self._end, number, outcome, reason, time.time_ns(), time.perf_counter()))

    def dropped(self, number: int) -> None:
        self.ended(number, "unknown", None)
        self._native.ring()

    def defer(self, report: Callable[[], object]) -> None:
        """Stores a call for the next `catch_up`, which comes soon."""
        self._deferred.append(report)
        self._native.ring()

    def is_behind(self) -> bool:
        return bool(self._deferred)

    def catch_up(self) -> None:
        # A report that comes while this thread runs a provider's code is processed after that code.
        while self._deferred and threading.get_ident() not in _threads_in_provider:
            try:
                report = self._deferred.popleft()
            except IndexError:
                return  # Another thread has taken the last one.
            self._call(report)

    def closed(self) -> None:
        self.is_closed = True
        for number in list(self._holds):
            self.ended(number, "lost", "closed")
        self.catch_up()
        self.call_safely(self.instruments.closed, self)

    def after_fork(self) -> None:
        self._holds.clear()
        self._deferred.clear()
        self.counts = Counts(self._native.metric_rows)
        self._group.cache_clear()
        self.instruments.after_fork()

    def labels(self, kind: str, name: str) -> dict[str, str]:
        """Returns the labels for the durations of a lock, the same as in the core."""
        return {"steadlock.kind": kind, "steadlock.group": self._group(name)}

    def _end(self, number: int, outcome: str, reason: LostReason | None, at: int, now: float) -> None:
        """Ends the span of a lease at an earlier time: `at` by the clock of spans, `now` by the clock of durations."""
        hold = self._holds.pop(number, None)
        if hold is None:
            return  # The end was reported before.
        try:
            hold.span.set_attribute("steadlock.outcome", outcome)
            if reason is not None:
                hold.span.set_attribute("steadlock.reason", reason)
            if reason in _ERROR_REASONS:
                hold.span.set_status(Status(StatusCode.ERROR, f"the lease was lost: {reason}"))
            hold.span.end(at)
        finally:
            self.instruments.hold.record(now - hold.since, self.labels(hold.kind, hold.name), hold.context)

    def call_safely(self, call: Callable[..., object], *args: object) -> None:
        """Calls a provider's code. An error of a provider or an exporter does not reach the caller."""
        self._call(call, *args)
        self.catch_up()

    def _call(self, call: Callable[..., object], *args: object) -> None:
        """Calls a provider's code.

        A provider has non-reentrant locks of its own. If a signal handler or a finalizer calls this during another call
        in the same thread, its call is stored, and runs after the other one.
        """
        thread = threading.get_ident()
        if thread in _threads_in_provider:
            self.defer(partial(call, *args))
            return
        try:
            _threads_in_provider.add(thread)
            call(*args)
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                text = (
                    f"OpenTelemetry raised {type(error).__name__}: some spans and metrics are missing; locks still work"
                )
                _log.write([("warn", text, {"event": "telemetry_failed"})])
        finally:
            _threads_in_provider.discard(thread)


class _Wait:
    """The span of one acquisition."""

    __slots__ = (
        "_is_counted",
        "_is_over",
        "_lease",
        "_since",
        "_span",
        "_telemetry",
        "attributes",
        "context",
        "kind",
        "name",
    )

    def __init__(self, telemetry: ClientTelemetry, settings: LockSettings) -> None:
        self._telemetry = telemetry
        self._since = time.perf_counter()
        self._span: Span | None = None
        self._is_over = False
        # Whether the core counts this acquisition. It does not count requests that it refuses before anything is sent,
        # nor requests to a closed client. Their durations are not recorded either, because the limit on metrics groups
        # does not hold for their names.
        self._is_counted = not telemetry.is_closed
        self._lease: int | None = None
        self.context: Context | None = None
        self.name = settings.name
        self.kind = settings.lock[0]
        self.attributes = {"steadlock.kind": self.kind, "steadlock.lock": shown(settings.name)}

    def begin(self) -> None:
        # The span of the hold gets the same parent, wherever the hold begins and ends.
        self.context = context.get_current()
        self._span = self._telemetry.tracer.start_span("steadlock.wait", self.context, attributes=self.attributes)

    def granted(self, lease: _native.Lease) -> None:
        self._telemetry.call_safely(self._end, "degraded" if lease.degraded else "granted", None)
        self._lease = lease.id
        self._telemetry.call_safely(self._telemetry.hold, lease, self)

    def failed(self, error: BaseException) -> None:
        if isinstance(error, GeneratorExit):
            # A garbage collection drops the coroutine, in the middle of any other code.
            self._telemetry.defer(partial(self._end, "cancelled", None))
            return
        self._telemetry.call_safely(self._end, outcome_of(error), error)
        if self._lease is not None:
            self._telemetry.ended(self._lease, "unknown", None)
            self._telemetry.catch_up()

    def _end(self, outcome: str, error: BaseException | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        telemetry = self._telemetry
        seconds = time.perf_counter() - self._since
        try:
            if self._span is not None:
                self._span.set_attribute("steadlock.outcome", outcome)
                if outcome in _ERROR_OUTCOMES:
                    self._span.set_attribute("error.type", type(error).__name__)
                    self._span.set_status(Status(StatusCode.ERROR, str(error)))
                self._span.end()
        finally:
            if self._is_counted and outcome != "refused":
                labels = telemetry.labels(self.kind, self.name) | {"steadlock.outcome": outcome}
                telemetry.instruments.wait.record(seconds, labels, self.context)


def outcome_of(error: BaseException) -> str:
    """Returns the core's name for the outcome of an acquisition that raised this error."""
    if not isinstance(error, SteadlockError):
        return "cancelled"
    if error.skipped:
        return "skipped"
    if isinstance(error, SkippedError) and error.reason is not None:
        return error.reason
    return next((word for kinds, word in _OUTCOMES if isinstance(error, kinds)), "unavailable")


@dataclass(frozen=True, slots=True)
class _Hold:
    span: Span
    context: Context | None
    kind: str
    name: str
    since: float


_OUTCOMES: Final = (
    (LockTimeoutError, "timed_out"),
    (UnavailableError, "unavailable"),
    (MisconfiguredError, "misconfigured"),
    (LockLostError, "lost"),
    (ClosedError, "closed"),
    ((InvalidArgumentError, NotOwnerError, ForkedError), "refused"),
)
_ERROR_OUTCOMES: Final = ("unavailable", "misconfigured", "refused", "lost", "closed")
"""The outcomes of a wait that are errors."""
_threads_in_provider: Final[set[int]] = set()
"""The threads that run a provider's code, called from here."""


def _after_fork() -> None:
    """Forgets the other threads of the parent: a new thread of the child can get the identity of one of them."""
    _threads_in_provider.intersection_update({threading.get_ident()})


os.register_at_fork(after_in_child=_after_fork)
_ERROR_REASONS: Final = ("expired", "removed", "stolen")
"""The reasons for a loss that the program itself did not cause."""
