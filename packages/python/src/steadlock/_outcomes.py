"""The reasons for a loss and the outcomes of a release, with the core's words."""

from __future__ import annotations

from typing import Literal, TypeAlias

ReleaseOutcome: TypeAlias = Literal["released", "expired", "stolen", "unknown"]
"""The outcome of a release.

- `released`: the lock is released, or an outer level still holds it
- `expired`: the server had no record any more, or the lease was lost before as `expired`, `removed` or `max_hold`
- `stolen`: the record belongs to another owner, and was not touched
- `unknown`: the server did not answer in time; the release is retried in the background
"""

LostReason: TypeAlias = Literal["expired", "removed", "stolen", "max_hold", "closed"]
"""The reason for the loss of a lease.

- `expired`: the deadline passed, because the lease was fixed or the server confirmed no renewal
- `removed`: the server has no record of the lease
- `stolen`: the record on the server belongs to another owner, or was replaced by a value that is not such a lock
- `max_hold`: the time of `max_hold` has passed
- `closed`: the client was closed
"""

Released: TypeAlias = tuple[int, ReleaseOutcome, LostReason | None]
"""The number of a released lease, the outcome, and the reason for the loss if the outcome is `expired` or `stolen`."""

SkipReason: TypeAlias = Literal["running", "done", "unavailable"]
"""Why a job was not run."""

RunState: TypeAlias = Literal["running", "ended", "crashed"]
"""The state of the run of a job that began last.

- `running`: the run is under way
- `ended`: the run has ended
- `crashed`: the lease of the run is over, and nobody has reported its end: its process crashed or was cut off
"""

RunOutcome: TypeAlias = Literal["succeeded", "failed", "lost"]
"""How a run of a job ended: `lost` if its lease ended before the run did."""
