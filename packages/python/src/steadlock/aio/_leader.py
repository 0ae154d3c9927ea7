"""The leaders of tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from steadlock import _native
from steadlock._context import current_owner
from steadlock._leader import LONG_TERM, Candidate, Leadership, TermEnd, is_over, leadership_of, owner_of
from steadlock._outcomes import ReleaseOutcome
from steadlock._settings import INHERIT, Duration, Inherited
from steadlock.aio._connection import Connection
from steadlock.aio._lease import Lease, Owner, acquire
from steadlock.aio._lock import EnteredLock

R = TypeVar("R")


class Term(TermEnd, Lease):
    """A term of this process: it leads until it resigns, or the term is lost. Returned by a `Leader`. A term that the
    program drops is resigned.
    """

    __slots__ = ("_successor",)
    _kind: ClassVar = "steadlock.aio.Term"

    def __init__(
        self, connection: Connection[Lease], native: _native.Lease, owner: Owner, key: _native.LockRef
    ) -> None:
        super().__init__(connection, native, owner, key)
        self._successor: str | None = None

    def resign(self, to: Candidate | None = None) -> Coroutine[Any, Any, ReleaseOutcome]:
        """Ends the term. The candidate `to` leads next, if it still waits; otherwise the first candidate does.
        Idempotent. Returns and raises what `Lease.release` does. A cancellation does not stop it.
        """
        self._successor = owner_of(to)
        return self.release()


class Observer:
    """An observer of a leader. Made by `Leader.observe`.

    An observer never misses the last change, however many came meanwhile. It learns of them by a message, and by a poll
    every 500 to 750 ms. Each step raises what `Leader.current` raises; `UnavailableError` comes only from the first, as
    later ones wait as long as it takes. A cancellation or an error ends only the step: the next one goes on from there.
    """

    __slots__ = ("_leader", "_seen")

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._seen: int | None = None

    def __aiter__(self) -> Observer:
        return self

    async def __anext__(self) -> Leadership:
        leadership = await self._leader._ask(self._seen)
        self._seen = leadership.number
        return leadership


class Leader(EnteredLock):
    """The leadership of a group of processes: at most one of them leads at a time. Made by `Client.leader`; cheap to
    make, and any number of tasks can share it.

    A process that wants to lead *campaigns*, and is served in order of arrival. A *term* is a renewed lease, 10 s long
    by default; its number rises from term to term, and is the fencing token. A leader is known by its client id, never
    by its host. When a leader resigns, or closes its client, the next candidate leads within two round trips; when a
    leader dies, the next one leads as soon as the term ends.

        mailer = client.leader("mailer")
        async with mailer as term:
            await send_mails(fencing_token=term.number)

    If the term is lost, the task in the scope is cancelled, and the scope raises `LockLostError`.
    """

    __slots__ = ()
    _makes: ClassVar[type[Lease]] = Term

    if TYPE_CHECKING:

        async def __aenter__(self) -> Term: ...

    async def campaign(self, wait: Duration | Inherited | None = INHERIT) -> Term:
        """Waits to lead, in order of arrival, and returns the term. The default of `wait` is the leader's; `None` waits
        as long as the server answers.

        Raises `LockTimeoutError` after `wait`, which names the leader; `UnavailableError`, `MisconfiguredError`,
        `InvalidArgumentError`, `ClosedError`. A cancelled campaign is ended in the background.
        """
        return await acquire(self._connection, self._settings.with_changes(wait), current_owner(), Term)

    async def lead(self, body: Callable[[Term], Coroutine[Any, Any, R]]) -> R:
        """Leads until `body` is done: campaigns, awaits `body(term)` in each term, and campaigns again after a term
        that was lost. Returns the value of a body whose term was not lost, after it has resigned.

        When a term is lost, the body is cancelled. Between two campaigns there is a pause of 100 ms that grows to 5 s
        while terms are lost, or cannot be had, one after another. A cancellation cancels the body and resigns.

        Raises what the body raises, unless its term was lost; and what `campaign` raises, except `LockTimeoutError` and
        `UnavailableError`, after which it campaigns again.
        """
        failures = 0
        while True:
            term: Term | None = None
            began = time.monotonic()
            try:
                async with self as term:
                    began = time.monotonic()
                    return await body(term)
            except Exception as error:
                if not is_over(term, error):
                    raise
            if time.monotonic() - began > LONG_TERM:
                failures = 0
            await asyncio.sleep(_native.campaign_pause(failures))
            failures += 1

    async def current(self) -> Leadership:
        """Asks the server who leads, and who would lead next.

        Raises `UnavailableError`, `MisconfiguredError`, `InvalidArgumentError` (also for a client of `redlock`),
        `ClosedError`.
        """
        return await self._ask(None)

    async def candidates(self) -> list[Candidate]:
        """Asks the server for the live candidates in their order, at most 100. Raises what `current` raises."""
        return (await self.current()).candidates

    def observe(self) -> Observer:
        """Returns an observer: `async for leadership in leader.observe():`. It yields the present leadership, and then
        each change of the term.
        """
        return Observer(self)

    async def _ask(self, seen: int | None) -> Leadership:
        connection = self._connection
        submit = connection.native.submit_leadership
        return leadership_of(await connection.mailbox.ask("inspect", submit, self._settings.lock, seen))
