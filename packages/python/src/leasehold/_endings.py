"""How a lease was lost and what a release came to: the words, and which of them stands for which."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

ReleaseOutcome: TypeAlias = Literal["released", "expired", "stolen", "unknown"]
"""How a release ended.

- `released`: the record is gone by our hand, or an outer level still holds it
- `expired`: the record was gone already
- `stolen`: the record is another owner's, and was left alone
- `unknown`: the server did not answer in time; the release is tried on
"""

LostReason: TypeAlias = Literal["expired", "removed", "stolen", "max_hold", "closed"]
"""Why a lease was lost.

- `expired`: its deadline came without a renewal that the server confirmed
- `removed`: the server has no record of it
- `stolen`: the server's record is another owner's
- `max_hold`: the longest hold that was asked for has passed
- `closed`: the client was closed
"""

_OF_LOST: Final[dict[tuple[ReleaseOutcome, LostReason], ReleaseOutcome]] = {
    ("released", "expired"): "expired",
    ("released", "removed"): "expired",
    ("released", "stolen"): "stolen",
    ("released", "max_hold"): "expired",
}
"""A fixed lease that was lost is forgotten by the core, which answers as if all were well."""

_FOUND_OUT: Final[dict[ReleaseOutcome, LostReason]] = {"expired": "expired", "stolen": "stolen"}


def outcome_of(answered: ReleaseOutcome, lost: LostReason | None) -> ReleaseOutcome:
    """What a release came to that the core answered so, of a lease that was lost so."""
    return answered if lost is None else _OF_LOST.get((answered, lost), answered)


def reason_of(outcome: ReleaseOutcome) -> LostReason | None:
    """Why a lease was lost, by a release that was the first to notice."""
    return _FOUND_OUT.get(outcome)
