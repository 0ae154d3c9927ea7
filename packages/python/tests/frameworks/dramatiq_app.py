"""The program of a Dramatiq worker. It makes the client at import, in each process."""

from __future__ import annotations

import dramatiq
import jobs
from counter import URL, store
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=URL))


@dramatiq.actor(max_retries=0)
def guarded() -> None:
    store().rpush("answered", jobs.guarded())


dramatiq.actor(max_retries=0, time_limit=jobs.LIMIT * 1000)(jobs.waits)
dramatiq.actor(max_retries=0, time_limit=jobs.LIMIT * 1000)(jobs.holds)
