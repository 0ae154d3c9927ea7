"""Tests that no update is lost with one lock and many callers of a web framework or a task queue."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TextIO

import celery
import dramatiq
import pytest
import redis
import rq.job
from dramatiq.brokers.redis import RedisBroker
from servers import ATTEMPTS, RedisServer, Store, eventually, free_port

import steadlock

pytestmark = pytest.mark.timeout(180)

ROUNDS = 1_000
# FastAPI has 40 threads in each worker. If all of them waited for the lock, its holder could not run.
CALLERS = 32
# The limit for any wait in seconds, for a slow machine.
TIMEOUT = 60
# The time limit of a job in seconds. In rq, it includes the import of the job's module.
LIMIT, RQ_LIMIT = 1, 3


@dataclass
class Workers:
    """A class of gunicorn's workers."""

    number: int
    callers: int = CALLERS
    fewest_at_once: int = 1
    """The number of concurrent requests that at least one worker must reach."""
    options: list[str] = field(default_factory=list)


WORKERS = {
    "sync": Workers(number=4),
    "gthread": Workers(number=2, fewest_at_once=4, options=["--threads", "8"]),
    # All greenlets of a worker share one client and one lock.
    "gevent": Workers(number=2, callers=100, fewest_at_once=25),
}


@pytest.mark.parametrize("worker_class", ["sync", "gthread", "gevent"])
@pytest.mark.parametrize(
    ("preload", "lazy"),
    [(False, False), (True, False), (True, True)],
    ids=["client of the worker", "client of the master", "lazy client of the master"],
)
def test_no_update_is_lost_in_gunicorn(
    server: RedisServer, store: Store, worker_class: str, preload: bool, lazy: bool
) -> None:
    workers = WORKERS[worker_class]
    with gunicorn(server, worker_class, preload, lazy) as connections:
        answered, at_once = call_all(connections, ROUNDS, "/guarded")
    assert store.get("count") == str(ROUNDS)
    assert len(answered) == workers.number
    assert at_once >= workers.fewest_at_once


def test_without_the_lock_updates_are_lost(server: RedisServer, store: Store) -> None:
    with gunicorn(server, "gthread", preload=False, lazy=True) as connections:
        call_all(connections, ROUNDS, "/unguarded")
    assert int(store.get("count") or 0) < ROUNDS


@pytest.mark.parametrize("paths", [["/threads"], ["/tasks"], ["/threads", "/tasks"]], ids=" and ".join)
def test_no_update_is_lost_in_fastapi(server: RedisServer, store: Store, paths: list[str]) -> None:
    options = ["--timeout-keep-alive", str(TIMEOUT), "--log-level", "warning"]
    command = ["uvicorn", *options, "--workers", "2", "fastapi_app:app"]
    with serving(server, command, 2, CALLERS, lazy=False) as connections:
        call_all(connections, ROUNDS, *paths)
    assert store.get("count") == str(ROUNDS)
    if "/threads" in paths:
        assert int(store.get("left elsewhere") or 0) > 0


@pytest.mark.parametrize("paths", [["/threads"], ["/tasks"]], ids=" and ".join)
def test_no_update_is_lost_in_django(server: RedisServer, store: Store, paths: list[str]) -> None:
    """An asynchronous view acquires the lock in a thread, so each of its requests waits in a thread."""
    if paths == ["/tasks"]:
        options = ["--timeout-keep-alive", str(TIMEOUT), "--log-level", "warning"]
        command = ["uvicorn", *options, "--workers", "2", "--lifespan", "off", "django_app:asgi"]
        served = serving(server, command, 2, 8, lazy=True)
    else:
        served = gunicorn(server, "gthread", preload=True, lazy=True, app="django_app:wsgi")
    with served as connections:
        call_all(connections, ROUNDS, *paths)
    assert store.get("count") == str(ROUNDS)


@pytest.mark.parametrize(
    ("pool", "lazy"),
    [("prefork", False), ("prefork", True), ("threads", False), ("gevent", False)],
    ids=["client of the master", "lazy client of the master", "threads", "gevent"],
)
def test_no_update_is_lost_in_celery(server: RedisServer, store: Store, pool: str, lazy: bool) -> None:
    with running(server, celery_worker(pool), lazy), celery.Celery(broker=server.url, backend=server.url) as app:
        rounds = celery.group(app.signature("guarded") for _ in range(ROUNDS)).apply_async()
        answered = rounds.get(timeout=TIMEOUT)
    assert store.get("count") == str(ROUNDS)
    assert len(answered) == ROUNDS
    assert len(set(answered)) == (4 if pool == "prefork" else 1)


def test_no_update_is_lost_in_dramatiq(server: RedisServer, store: Store) -> None:
    command = ["dramatiq", "dramatiq_app", "--processes", "2", "--threads", "4"]
    with running(server, command, lazy=True):
        for _ in range(ROUNDS):
            call_dramatiq(server, "guarded")
        eventually(TIMEOUT, lambda: store.llen("answered") == ROUNDS)
    assert store.get("count") == str(ROUNDS)
    assert len(set(store.lrange("answered", 0, -1))) == 2


def test_no_update_is_lost_in_rq(server: RedisServer, store: Store) -> None:
    """Each job is a process that is forked from its worker."""
    jobs = 100
    with running(server, rq_workers(server, 3), lazy=True):
        queued = [call_rq(server, "guarded") for _ in range(jobs)]
        eventually(2 * TIMEOUT, lambda: all(job.get_status() == "finished" for job in queued))
    assert store.get("count") == str(jobs)


TIME_LIMITS = {
    # The exception that ends a job which takes too long.
    "celery": "SoftTimeLimitExceeded",
    "dramatiq": "TimeLimitExceeded",
    "rq": "JobTimeoutException",
}
# How many seconds a queue may be late, because it checks only from time to time.
LATE = 8


@pytest.mark.parametrize("queue", TIME_LIMITS)
@pytest.mark.parametrize("job", ["waits", "holds"])
def test_a_job_over_its_time_limit_leaves_the_lock_free(
    server: RedisServer, store: Store, queue: str, job: str
) -> None:
    worker = {
        "celery": celery_worker("prefork"),
        "dramatiq": ["dramatiq", "dramatiq_app", "--processes", "1", "--threads", "2"],
        "rq": rq_workers(server, 1),
    }[queue]
    with running(server, worker, lazy=True), steadlock.connect(server.url) as client:
        door = client.lock("door")
        with door if job == "waits" else nullcontext():
            match queue:
                case "celery":
                    with celery.Celery(broker=server.url, backend=server.url) as app:
                        app.send_task(job)
                case "dramatiq":
                    call_dramatiq(server, job)
                case _:
                    call_rq(server, job, timeout=RQ_LIMIT)
            eventually(TIMEOUT, lambda: store.llen("ended"))
            (record,) = store.lrange("ended", 0, -1)
            how, seconds = json.loads(record)
        assert how == TIME_LIMITS[queue]
        assert seconds < (RQ_LIMIT if queue == "rq" else LIMIT) + LATE
        # The wait is much shorter than a lease, so no ended job holds the lock or gets it.
        assert door.try_acquire(wait=5) is not None


def test_a_celery_process_releases_its_locks_at_exit(server: RedisServer, store: Store) -> None:
    # Each process ends after one task, with `os._exit`.
    worker = [*celery_worker("prefork"), "--max-tasks-per-child", "1"]
    with running(server, worker, lazy=True), steadlock.connect(server.url) as client:
        with celery.Celery(broker=server.url, backend=server.url) as app:
            app.send_task("leaves").get(timeout=TIMEOUT)
        # The wait is much shorter than a lease, so only a release can free the lock.
        assert client.lock("door").try_acquire(wait=8) is not None


def celery_worker(pool: str) -> list[str]:
    command = ["celery", "--app", "celery_app", "worker", "--pool", pool, "--concurrency", "4"]
    return [*command, "--loglevel", "warning", "--without-mingle", "--without-gossip"]


def rq_workers(server: RedisServer, number: int) -> list[str]:
    return ["rq.cli", "worker-pool", "--url", server.url, "--num-workers", str(number), "--quiet"]


def call_rq(server: RedisServer, job: str, timeout: int = TIMEOUT) -> rq.job.Job:
    with closing(redis.Redis.from_url(server.url)) as connection:
        return rq.Queue(connection=connection).enqueue(f"jobs.{job}", job_timeout=timeout)


def call_dramatiq(server: RedisServer, actor: str) -> None:
    broker = RedisBroker(url=server.url)
    broker.declare_queue("default")
    broker.enqueue(dramatiq.Message(queue_name="default", actor_name=actor, args=(), kwargs={}, options={}))
    broker.close()


@contextmanager
def gunicorn(
    server: RedisServer, worker_class: str, preload: bool, lazy: bool, app: str = "wsgi_app:app"
) -> Iterator[list[HTTPConnection]]:
    workers = WORKERS[worker_class]
    command = ["gunicorn", "--no-control-socket", "--keep-alive", str(TIMEOUT), "--worker-class", worker_class]
    command += ["--workers", str(workers.number), *workers.options, *(["--preload"] if preload else []), app]
    with serving(server, command, workers.number, workers.callers, lazy) as connections:
        yield connections


class EndedError(Exception):
    """The web server has ended by itself."""


@contextmanager
def serving(
    server: RedisServer, command: list[str], workers: int, callers: int, lazy: bool
) -> Iterator[list[HTTPConnection]]:
    """Runs a web server, and yields `callers` connections, the same number to each of its workers."""
    with ExitStack() as stack:
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                connections = stack.enter_context(serving_on(free_port(), server, command, workers, callers, lazy))
                break
            except EndedError:
                # Another program can have taken the port after it was found free.
                if not attempts_left:
                    raise
        yield connections


@contextmanager
def serving_on(
    port: int, server: RedisServer, command: list[str], workers: int, callers: int, lazy: bool
) -> Iterator[list[HTTPConnection]]:
    """Does what `serving` does, on this port. Raises `EndedError` if the server ends before it has all connections."""
    bind = ["--bind", f"127.0.0.1:{port}"] if command[0] == "gunicorn" else ["--port", str(port)]
    found: defaultdict[int, list[HTTPConnection]] = defaultdict(list)

    def are_found() -> bool:
        if process.poll() is not None:
            raise EndedError
        connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        stack.enter_context(closing(connection))
        # A program that has taken the port may speak another protocol.
        with suppress(ConnectionError, HTTPException):
            worker, _ = ask(connection, "/ready")
            if len(found[worker]) < callers // workers:
                found[worker].append(connection)
                return sum(map(len, found.values())) == callers
        connection.close()
        return False

    with running(server, [*command, *bind], lazy) as process, ExitStack() as stack:
        eventually(TIMEOUT, are_found)
        yield [connection for connections in found.values() for connection in connections]


@contextmanager
def running(server: RedisServer, command: list[str], lazy: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a Python module. The process must end on SIGTERM, and must print no traceback."""
    environment = os.environ | {"STEADLOCK_URL": server.url, "STEADLOCK_TEST_LAZY": "yes" if lazy else "no"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=Path(__file__).parent,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield process
            process.terminate()
            assert process.wait(TIMEOUT) in (0, -signal.SIGTERM)
            assert "Traceback" not in read_output(output)
        except BaseException as error:
            error.add_note(f"{command[0]} printed:\n{read_output(output)}")
            raise
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def read_output(output: TextIO) -> str:
    output.seek(0)
    return output.read()


def call_all(connections: list[HTTPConnection], rounds: int, *paths: str) -> tuple[set[int], int]:
    """Makes `rounds` requests by callers with a connection each. Returns the workers that answered, and the highest
    number of concurrent requests of one worker.
    """

    def call(caller: int) -> list[tuple[int, int]]:
        numbers = range(caller, rounds, len(connections))
        return [ask(connections[caller], paths[number % len(paths)]) for number in numbers]

    with ThreadPoolExecutor(len(connections)) as callers:
        answers = [answer for answers in callers.map(call, range(len(connections))) for answer in answers]
    assert len(answers) == rounds
    return {worker for worker, _ in answers}, max(at_once for _, at_once in answers)


def ask(connection: HTTPConnection, path: str) -> tuple[int, int]:
    """Makes a request. Returns the worker that answered, and its number of concurrent requests."""
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    worker, at_once = json.loads(body)
    return worker, at_once
