"""The program of a Celery worker. The worker's main process makes the client at import, before it forks its pool."""

from __future__ import annotations

import jobs
from celery import Celery
from counter import URL

app = Celery(broker=URL, backend=URL)
app.task(name="guarded")(jobs.guarded)
app.task(name="waits", soft_time_limit=jobs.LIMIT)(jobs.waits)
app.task(name="holds", soft_time_limit=jobs.LIMIT)(jobs.holds)
app.task(name="leaves")(jobs.leaves)
