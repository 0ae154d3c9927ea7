"""The common part of leaders and their terms, for threads and for tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from steadlock import _native
from steadlock._lease import LeaseBase
from steadlock._outcomes import Released
from steadlock._shown import type_of
from steadlock.errors import ClientInfo, Holder, LockLostError, SteadlockError, client_info, holder_of, time_of

NOBODY = 0
"""The number that stands for "nobody leads" where an observer says which term it has seen."""

LONG_TERM = 10.0
"""A term that lasted longer than this, in seconds, ends the row of lost terms that lengthens the pauses."""


class Candidate(NamedTuple):
    """A process that waits to lead."""

    owner: str
    """The owner id of its request, by which a leader names its successor."""
    client: ClientInfo | None
    """The program of the candidate; `None` if it is not known."""


class CurrentTerm(NamedTuple):
    """A term, as an observer sees it."""

    number: int
    """The number of the term, which is the fencing token of its leader."""
    since: datetime
    """When the term began, in UTC by the server's clock."""
    holder: Holder
    """The leader, and how many seconds it leads if nothing renews its lease."""


class Leadership(NamedTuple):
    """The present leader, and those that would lead next."""

    term: CurrentTerm | None
    """The present term; `None` if nobody leads."""
    candidates: list[Candidate]
    """The live candidates in their order, at most 100."""

    @property
    def number(self) -> int:
        """The number of the present term; 0 if nobody leads."""
        return NOBODY if self.term is None else self.term.number


def leadership_of(state: _native.State) -> Leadership:
    """Converts the leadership in a state of the core."""
    _, _, _, leadership = state
    term, candidates = leadership or (None, [])
    current = None
    if term is not None:
        number, since, holder = term
        led = holder_of(holder)
        if led is not None:
            current = CurrentTerm(number, time_of(since), led)
    return Leadership(current, [Candidate(owner, client_info(client)) for owner, client in candidates])


def is_over(term: LeaseBase[Any, Any, Any] | None, error: Exception) -> bool:
    """Whether `lead` campaigns again after an error: the term was lost, or could not be had for now (no `term`). Other
    errors are those of the body, or last.
    """
    if term is None:
        return isinstance(error, SteadlockError) and (error.retryable or isinstance(error, LockLostError))
    return term.lost_reason is not None or (isinstance(error, LockLostError) and error.lock_name == term.name)


class TermEnd:
    """The end of a term: the part of a term's lease that names the next leader."""

    __slots__ = ()
    _successor: str | None
    _connection: Any
    _native: _native.Lease

    @property
    def number(self) -> int:
        """The number of the term. It rises from term to term, and is the fencing token."""
        return self._native.token or NOBODY

    def _ending(self) -> tuple[Callable[..., Released], Callable[..., int], tuple[Any, ...]]:
        native = self._connection.native
        return native.resign, native.submit_resign, (self._native.id, self._successor)


def owner_of(candidate: Candidate | None) -> str | None:
    """Returns the owner id of a candidate."""
    if candidate is None:
        return None
    if not isinstance(candidate, Candidate):
        raise TypeError(f"a term is resigned to a Candidate, not to a {type_of(candidate)}")
    return candidate.owner
