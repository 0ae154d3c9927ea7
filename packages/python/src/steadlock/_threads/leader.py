"""The leaders of threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, TypeVar

from steadlock import _native
from steadlock._context import Caller, current_caller
from steadlock._leader import LONG_TERM, Candidate, Leadership, TermEnd, is_over, leadership_of, owner_of
from steadlock._lock import NamedLock
from steadlock._outcomes import ReleaseOutcome
from steadlock._settings import INHERIT, Duration, Inherited, LockSettings
from steadlock._threads.connection import Connection
from steadlock._threads.lease import Lease, acquire, held_by
from steadlock._threads.lock import Scope, innermost_of_caller
from steadlock.errors import NotOwnerError

R = TypeVar("R")


class Term(TermEnd, Lease):
    """A term of this process: it leads until it resigns, or the term is lost. Returned by a `Leader`. A term that the
    program drops is resigned.
    """

    __slots__ = ("_successor",)
    _kind: ClassVar = "steadlock.Term"

    def __init__(
        self, connection: Connection[Lease], native: _native.Lease, owner: Caller, key: _native.LockRef
    ) -> None:
        super().__init__(connection, native, owner, key)
        self._successor: str | None = None

    def resign(self, to: Candidate | None = None) -> ReleaseOutcome:
        """Ends the term. The candidate `to` leads next, if it still waits; otherwise the first candidate does.
        Idempotent. Returns and raises what `Lease.release` does.
        """
        self._successor = owner_of(to)
        return self.release()


class Observer:
    """An observer of a leader. Made by `Leader.observe`.

    An observer never misses the last change, however many came meanwhile. It learns of them by a message, and by a poll
    every 500 to 750 ms. Each step raises what `Leader.current` raises; `UnavailableError` comes only from the first, as
    later ones wait as long as it takes. In the main thread, Ctrl-C ends a step within 100 ms; the next step goes on
    from there.
    """

    __slots__ = ("_leader", "_seen")

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._seen: int | None = None

    def __iter__(self) -> Observer:
        return self

    def __next__(self) -> Leadership:
        leadership = self._leader._ask(self._seen)
        self._seen = leadership.number
        return leadership


class Leader(NamedLock[Connection[Lease], Term], Scope):
    """The leadership of a group of processes: at most one of them leads at a time. Made by `Client.leader`; cheap to
    make, and any number of threads can share it.

    A process that wants to lead *campaigns*, and is served in order of arrival. A *term* is a renewed lease, 10 s long
    by default; its number rises from term to term, and is the fencing token. A leader is known by its client id, never
    by its host. When a leader resigns, or closes its client, the next candidate leads within two round trips; when a
    leader dies, the next one leads as soon as the term ends.

        mailer = client.leader("mailer")
        with mailer as term:
            while term.is_valid():
                send_mail(fencing_token=term.number)
    """

    __slots__ = ("_entered",)

    def __init__(self, connection: Connection[Lease], settings: LockSettings) -> None:
        super().__init__(connection, settings)
        self._entered: list[Term] = []

    def campaign(self, wait: Duration | Inherited | None = INHERIT) -> Term:
        """Waits to lead, in order of arrival, and returns the term. The default of `wait` is the leader's; `None` waits
        as long as the server answers.

        Raises `LockTimeoutError` after `wait`, which names the leader; `UnavailableError`, `MisconfiguredError`,
        `InvalidArgumentError`, `ClosedError`. Ctrl-C ends every wait within 100 ms; the campaign is ended in the
        background.
        """
        return acquire(self._connection, self._settings.with_changes(wait), current_caller(), [], Term)

    def lead(self, body: Callable[[Term], R]) -> R:
        """Leads until `body` is done: campaigns, calls `body(term)` in each term, and campaigns again after a term that
        was lost. Returns the value of a body whose term was not lost, after it has resigned.

        Nothing stops a body whose term is lost: it checks `term.is_valid()` in its loop, and returns. Between two
        campaigns there is a pause of 100 ms that grows to 5 s while terms are lost, or cannot be had, one after
        another.

        Raises what the body raises, unless its term was lost; and what `campaign` raises, except `LockTimeoutError` and
        `UnavailableError`, after which it campaigns again.
        """
        failures = 0
        while True:
            term: Term | None = None
            began = time.monotonic()
            try:
                with self as term:
                    began = time.monotonic()
                    return body(term)
            except Exception as error:
                if not is_over(term, error):
                    raise
            if time.monotonic() - began > LONG_TERM:
                failures = 0
            time.sleep(_native.campaign_pause(failures))
            failures += 1

    def current(self) -> Leadership:
        """Asks the server who leads, and who would lead next.

        Raises `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError` (also for a client of `redlock`),
        `ClosedError`.
        """
        return self._ask(None)

    def candidates(self) -> list[Candidate]:
        """Asks the server for the live candidates in their order, at most 100. Raises what `current` raises."""
        return self.current().candidates

    def observe(self) -> Observer:
        """Returns an observer: `for leadership in leader.observe():`. It yields the present leadership, and then each
        change of the term.
        """
        return Observer(self)

    @property
    def lease(self) -> Term | None:
        """The term that the caller holds; `None` if there is none."""
        lease = held_by(self._connection, self._settings.key, current_caller())
        return lease if isinstance(lease, Term) else None

    def __enter__(self) -> Term:
        return acquire(self._connection, self._settings, current_caller(), self._entered, Term)

    def _ask(self, seen: int | None) -> Leadership:
        connection = self._connection
        native = connection.native
        return leadership_of(connection.call(native.leadership, native.submit_leadership, self._settings.lock, seen))

    def _innermost_scope(self) -> Term | None:
        return innermost_of_caller(self._entered)

    def _not_entered(self) -> NotOwnerError:
        return self._not_owner("no scope of it is entered; enter one first")
