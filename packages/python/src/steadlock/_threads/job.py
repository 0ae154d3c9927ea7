"""The jobs of threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ClassVar, ParamSpec, TypeVar

from steadlock import _native
from steadlock._context import Caller, current_caller
from steadlock._job import JobBase, LastRun, RunEnd, last_run_of
from steadlock._outcomes import ReleaseOutcome
from steadlock._settings import Duration, LockSettings, optional_milliseconds
from steadlock._synchronized import is_coroutine_function, refuse_generators
from steadlock._threads.connection import Connection
from steadlock._threads.lease import Lease, acquire, held_by
from steadlock._threads.lock import Scope, innermost_of_caller
from steadlock.errors import NotOwnerError, SkippedError

P = ParamSpec("P")
R = TypeVar("R")


class Run(RunEnd, Lease):
    """A run of a job: a renewed lease whose end says how the job ended. Returned by a `Job`.

    The end of the `with` block of its job ends it: it succeeded, or failed if the block raised. `release` ends it as
    `succeed` does. A run that the program drops, or that it still has when its process ends, has failed.
    """

    __slots__ = ("_at_least", "_has_succeeded")
    _kind: ClassVar = "steadlock.Run"

    def __init__(
        self, connection: Connection[Lease], native: _native.Lease, owner: Caller, key: _native.LockRef
    ) -> None:
        super().__init__(connection, native, owner, key)
        self._at_least: float | None = None
        self._has_succeeded = True

    def _body_raised(self) -> None:
        self._has_succeeded = False

    def _abandon(self) -> None:
        # A refused `at_least` must not be sent again at the end of the scope.
        self._at_least, self._has_succeeded = None, False
        super()._abandon()

    def succeed(self, at_least: Duration | None = None) -> ReleaseOutcome:
        """Ends the run: the job did its work. `at_least` replaces that of the job. Idempotent.

        Returns and raises what `Lease.release` does: `expired` and `stolen` mean that another run may have begun
        meanwhile. Raises `InvalidArgumentError` for `at_least` above 24 h; the run has then failed.
        """
        self._at_least = optional_milliseconds(at_least)
        self._has_succeeded = True
        return self.release()

    def fail(self) -> ReleaseOutcome:
        """Ends the run: the job failed. It may run again at once, unless the job has `on_failure="keep"`. Idempotent.

        Returns and raises what `Lease.release` does.
        """
        self._has_succeeded = False
        return self.release()


class Job(JobBase[Connection[Lease], Run], Scope):
    """A job, of which at most one run is under way at a time in the whole fleet. Made by `Client.once`; cheap to make,
    and any number of threads can share it.

    A request never waits: it is granted a run, or it is skipped, because another run is under way or the job is done.
    A run is a renewed lease, so nobody has to guess how long the job takes. If its process dies, the job is free when
    the lease ends (30 s by default), and may run again: no lock can promise that a job runs *exactly* once. Send the
    run's `token` along with what the job writes, or give each run a `key`, and a repetition does no harm.

        report = client.once("report", at_least=600)
        try:
            with report as run:
                write_report(fencing_token=run.token)
        except steadlock.SkippedError as skipped:
            log.debug("%s", skipped)

    As a decorator, it returns `None` from a call that is skipped.
    """

    __slots__ = ("_entered",)

    def __init__(self, connection: Connection[Lease], settings: LockSettings) -> None:
        super().__init__(connection, settings)
        self._entered: list[Run] = []

    def start(self) -> Run:
        """Begins a run, and returns it. The program ends it by `succeed` or `fail`.

        Raises `SkippedError` if the job must not run now; `UnavailableError`, `MisconfiguredError`,
        `InvalidArgumentError` (a bad name, key or duration), `ClosedError`. Ctrl-C ends the call within 100 ms; a run
        that is granted meanwhile is returned in the background, and counts as not begun.
        """
        return acquire(self._connection, self._settings, current_caller(), [], Run)

    def last_run(self) -> LastRun | None:
        """Asks the server for the last runs of the job, of this or any other process; `None` if there is none within 30
        days.

        Raises `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError`, `ClosedError`.
        """
        connection = self._connection
        native = connection.native
        return last_run_of(connection.call(native.last_run, native.submit_last_run, self._settings.lock))

    @property
    def lease(self) -> Run | None:
        """The run that the caller has begun and not ended; `None` if there is none."""
        lease = held_by(self._connection, self._settings.key, current_caller())
        return lease if isinstance(lease, Run) else None

    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorates a function: each call is a run, and returns `None` if it is skipped. The name and the key of the
        job can contain arguments of the call, as in `Client.synchronized`. A call that raises has failed.

            @client.once("report:{day}", key="{day}")
            def report(day: date) -> None: ...
        """
        refuse_generators(function, "once")
        if is_coroutine_function(function):
            raise TypeError("a coroutine function needs a client of steadlock.aio")
        templates = self._templates(function)

        @functools.wraps(function)
        def run_once(*args: P.args, **kwargs: P.kwargs) -> R | None:
            job = self._for_call(templates, args, kwargs)
            is_entered = False
            try:
                with job:
                    is_entered = True
                    return function(*args, **kwargs)
            except SkippedError:
                if is_entered:
                    raise
                return None

        return run_once

    def __enter__(self) -> Run:
        return acquire(self._connection, self._settings, current_caller(), self._entered, Run)

    def _innermost_scope(self) -> Run | None:
        return innermost_of_caller(self._entered)

    def _not_entered(self) -> NotOwnerError:
        return self._not_owner("no scope of it is entered; enter one first")
