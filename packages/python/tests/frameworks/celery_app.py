"""The program of a Celery worker. It makes the client at import: in the worker's main process, before that forks its
pool.
"""

from __future__ import annotations

import jobs
from celery import Celery
from counter import URL

app = Celery(broker=URL, backend=URL)
app.task(name="guarded")(jobs.guarded)
app.task(name="waits", soft_time_limit=jobs.LIMIT)(jobs.waits)
app.task(name="holds", soft_time_limit=jobs.LIMIT)(jobs.holds)
app.task(name="leaves")(jobs.leaves)
