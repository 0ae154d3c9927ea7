"""How a lease was lost and what a release came to, in the core's words."""

from __future__ import annotations

from typing import Literal, TypeAlias

ReleaseOutcome: TypeAlias = Literal["released", "expired", "stolen", "unknown"]
"""How a release ended.

- `released`: the record is gone by our hand, or an outer level still holds it
- `expired`: the record was gone already
- `stolen`: the record is another owner's, and was left alone
- `unknown`: the server did not answer in time; the release is retried
"""

LostReason: TypeAlias = Literal["expired", "removed", "stolen", "max_hold", "closed"]
"""Why a lease was lost.

- `expired`: its deadline came without a renewal that the server confirmed
- `removed`: the server has no record of it
- `stolen`: the server's record is another owner's
- `max_hold`: the longest hold that was asked for has passed
- `closed`: the client was closed
"""

Released: TypeAlias = tuple[int, ReleaseOutcome, LostReason | None]
"""Which lease was released, how that ended, and why the lease was lost if it was `expired` or `stolen`."""
