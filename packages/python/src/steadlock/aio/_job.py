"""The jobs of tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

from steadlock import _native
from steadlock._context import current_owner
from steadlock._job import JobBase, LastRun, RunEnd, last_run_of
from steadlock._outcomes import ReleaseOutcome
from steadlock._settings import Duration, optional_milliseconds
from steadlock._synchronized import is_coroutine_function, refuse_generators
from steadlock.aio._connection import Connection
from steadlock.aio._lease import Lease, Owner, acquire
from steadlock.aio._lock import EnteredLock
from steadlock.errors import SkippedError

P = ParamSpec("P")
R = TypeVar("R")


class Run(RunEnd, Lease):
    """A run of a job: a renewed lease whose end says how the job ended. Returned by a `Job`.

    The end of the `async with` block of its job ends it: it succeeded, or failed if the block raised or was cancelled.
    `release` ends it as `succeed` does. A run that the program drops has failed.
    """

    __slots__ = ("_at_least", "_has_succeeded")
    _kind: ClassVar = "steadlock.aio.Run"

    def __init__(
        self, connection: Connection[Lease], native: _native.Lease, owner: Owner, key: _native.LockRef
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

    def succeed(self, at_least: Duration | None = None) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Ends the run: the job did its work. `at_least` replaces that of the job. Idempotent.

        Returns and raises what `Lease.release` does: `expired` and `stolen` mean that another run may have begun
        meanwhile. Raises `InvalidArgumentError` for `at_least` above 24 h; the run has then failed. A cancellation does
        not stop it.
        """
        self._at_least = optional_milliseconds(at_least)
        self._has_succeeded = True
        return self.release()

    def fail(self) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Ends the run: the job failed. It may run again at once, unless the job has `on_failure="keep"`. Idempotent.

        Returns and raises what `Lease.release` does. A cancellation does not stop it.
        """
        self._has_succeeded = False
        return self.release()


class Job(JobBase[Connection[Lease], Lease], EnteredLock):
    """A job, of which at most one run is under way at a time in the whole fleet. Made by `Client.once`; cheap to make,
    and any number of tasks can share it.

    A request never waits: it is granted a run, or it is skipped, because another run is under way or the job is done.
    A run is a renewed lease, so nobody has to guess how long the job takes. If its process dies, the job is free when
    the lease ends (30 s by default), and may run again: no lock can promise that a job runs *exactly* once. Send the
    run's `token` along with what the job writes, or give each run a `key`, and a repetition does no harm.

        report = client.once("report", at_least=600)
        try:
            async with report as run:
                await write_report(fencing_token=run.token)
        except steadlock.SkippedError as skipped:
            log.debug("%s", skipped)

    As a decorator, it returns `None` from a call that is skipped.
    """

    __slots__ = ()
    _makes: ClassVar[type[Lease]] = Run

    if TYPE_CHECKING:

        async def __aenter__(self) -> Run: ...

    async def start(self) -> Run:
        """Begins a run, and returns it. The program ends it by `succeed` or `fail`.

        Raises `SkippedError` if the job must not run now; `UnavailableError`, `MisconfiguredError`,
        `InvalidArgumentError` (a bad name, key or duration), `ClosedError`. If the call is cancelled, a run that is
        granted meanwhile is returned in the background, and counts as not begun.
        """
        return await acquire(self._connection, self._settings, current_owner(), Run)

    async def last_run(self) -> LastRun | None:
        """Asks the server for the last runs of the job, of this or any other process; `None` if there is none within 30
        days.

        Raises `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError`, `ClosedError`.
        """
        connection = self._connection
        submit = connection.native.submit_last_run
        return last_run_of(await connection.mailbox.call("inspect", submit, self._settings.lock))

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R | None]]:
        """Decorates a coroutine function: each call is a run, and returns `None` if it is skipped. The name and the key
        of the job can contain arguments of the call, as in `Client.synchronized`. A call that raises or is cancelled
        has failed.

            @client.once("report:{day}", key="{day}")
            async def report(day: date) -> None: ...
        """
        refuse_generators(function, "once")
        if not is_coroutine_function(function):
            raise TypeError("a client of steadlock.aio decorates coroutine functions only")
        templates = self._templates(function)

        @functools.wraps(function)
        async def run_once(*args: P.args, **kwargs: P.kwargs) -> R | None:
            job = self._for_call(templates, args, kwargs)
            is_entered = False
            try:
                async with job:
                    is_entered = True
                    return await function(*args, **kwargs)
            except SkippedError:
                if is_entered:
                    raise
                return None

        return run_once
