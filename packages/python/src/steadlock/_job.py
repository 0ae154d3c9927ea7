"""The common part of jobs and their runs, for threads and for tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from steadlock import _native
from steadlock._connection import ConnectionT
from steadlock._lock import LeaseT, NamedLock
from steadlock._outcomes import Released, RunOutcome, RunState
from steadlock._settings import RunTerms
from steadlock._shown import type_of
from steadlock._synchronized import NameTemplate
from steadlock.errors import ClientInfo, client_info, time_of

OnFailure: TypeAlias = Literal["retry", "keep"]
"""The effect of a failed run on later requests.

- `retry`: the job may run again at once, and its key too
- `keep`: the run counts as done, like one that succeeded
"""


class EndedRun(NamedTuple):
    """A run of a job that has ended."""

    at: datetime
    """The time at which the run ended, in UTC by the server's clock."""
    took: float
    """How many seconds the run took."""
    outcome: RunOutcome
    """How the run ended."""
    client: ClientInfo | None
    """The program of the run; `None` if it is not known."""


class LastRun(NamedTuple):
    """The last runs of a job, as the server has them for 30 days."""

    state: RunState
    """The state of the run that began last."""
    started: datetime | None
    """When that run began, in UTC by the server's clock; `None` if that is not known any more."""
    client: ClientInfo | None
    """The program of that run; `None` if it is not known."""
    ended: EndedRun | None
    """The run that ended last; `None` if none has ended."""
    succeeded: datetime | None
    """When a run last succeeded; `None` if none has."""


def last_run_of(state: _native.State) -> LastRun | None:
    """Converts the last runs in a state of the core."""
    _, _, last, _ = state
    if last is None:
        return None
    run, started, client, ended, succeeded = last
    return LastRun(
        run,
        None if started is None else time_of(started),
        client_info(client),
        None if ended is None else EndedRun(time_of(ended[0]), ended[1], ended[2], client_info(ended[3])),
        None if succeeded is None else time_of(succeeded),
    )


class RunEnd:
    """The end of a run: the part of a run's lease that tells the server how the job ended."""

    __slots__ = ()
    _at_least: float | None
    _has_succeeded: bool
    _connection: Any
    _native: _native.Lease

    def _ending(self) -> tuple[Callable[..., Released], Callable[..., int], tuple[Any, ...]]:
        native = self._connection.native
        return native.end_run, native.submit_end_run, (self._native.id, self._has_succeeded, self._at_least)


class JobBase(NamedLock[ConnectionT, LeaseT]):
    """A job."""

    __slots__ = ()

    def _templates(self, function: Callable[..., Any]) -> JobTemplates:
        run = self._settings.run
        key = None if run is None else run.key
        return JobTemplates(self._settings.name, key, function)

    def _for_call(self, templates: JobTemplates, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        """Returns the job of one call of a decorated function."""
        name, key = templates.of_call(args, kwargs)
        settings = self._settings
        run = None if settings.run is None else settings.run._replace(key=key)
        lock = ("once", name)
        return type(self)(self._connection, settings._replace(lock=lock, key=lock, name=name, run=run))


class JobTemplates:
    """The name and the key of a job, which can contain arguments of the decorated function."""

    def __init__(self, name: str, key: str | None, function: Callable[..., Any]) -> None:
        self._name = NameTemplate(name, function, "once")
        self._key = None if key is None else NameTemplate(key, function, "once")

    def of_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str | None]:
        name = self._name.name_for(args, kwargs)
        return name, None if self._key is None else self._key.name_for(args, kwargs)


def run_terms(at_least: float | None, key: str | None, keep: float | None, on_failure: OnFailure | None) -> RunTerms:
    """Makes the terms of a run, with times in milliseconds. The core checks the ranges."""
    if key is not None and not isinstance(key, str):
        raise TypeError(f"the key of a run is a str, not a {type_of(key)}")
    if on_failure is not None and not isinstance(on_failure, str):
        raise TypeError(f"on_failure is a str, not a {type_of(on_failure)}")
    return RunTerms(at_least, key, keep, on_failure)
