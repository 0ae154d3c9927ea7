"""Many callers of a web framework or a task queue, one lock, and no lost update."""

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
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import TextIO

import celery
import pytest
from servers import RedisServer, Store, eventually, free_port

pytestmark = pytest.mark.timeout(180)

ROUNDS = 1_000
# FastAPI has 40 threads in each worker: were all of them waiting for the lock, its holder could not go on.
CALLERS = 32
# Seconds, for a slow machine.
PATIENCE = 60


@dataclass
class Workers:
    """A class of gunicorn's workers."""

    number: int
    callers: int = CALLERS
    fewest_at_once: int = 1
    """How many requests one of them must have had at once."""
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
        answered, at_once = ask_all(connections, ROUNDS, "/guarded")
    assert store.get("count") == str(ROUNDS)
    assert len(answered) == workers.number
    assert at_once >= workers.fewest_at_once


def test_without_the_lock_updates_are_lost(server: RedisServer, store: Store) -> None:
    with gunicorn(server, "gthread", preload=False, lazy=True) as connections:
        ask_all(connections, ROUNDS, "/unguarded")
    assert int(store.get("count") or 0) < ROUNDS


@pytest.mark.parametrize("paths", [["/threads"], ["/tasks"], ["/threads", "/tasks"]], ids=" and ".join)
def test_no_update_is_lost_in_fastapi(server: RedisServer, store: Store, paths: list[str]) -> None:
    options = ["--timeout-keep-alive", str(PATIENCE), "--log-level", "warning"]
    command = ["uvicorn", *options, "--workers", "2", "fastapi_app:app"]
    with serving(server, command, 2, CALLERS, lazy=False) as connections:
        ask_all(connections, ROUNDS, *paths)
    assert store.get("count") == str(ROUNDS)
    if "/threads" in paths:
        assert int(store.get("left elsewhere") or 0) > 0


@pytest.mark.parametrize("lazy", [False, True], ids=["client of the master", "lazy client of the master"])
def test_no_update_is_lost_in_celery(server: RedisServer, store: Store, lazy: bool) -> None:
    command = ["celery", "--app", "celery_app", "worker", "--pool", "prefork", "--concurrency", "4"]
    command += ["--loglevel", "warning", "--without-mingle", "--without-gossip"]
    with running(server, command, lazy), celery.Celery(broker=server.url, backend=server.url) as app:
        rounds = celery.group(app.signature("guarded") for _ in range(ROUNDS)).apply_async()
        answered = rounds.get(timeout=PATIENCE)
    assert store.get("count") == str(ROUNDS)
    assert len(answered) == ROUNDS
    assert len(set(answered)) == 4


@contextmanager
def gunicorn(server: RedisServer, worker_class: str, preload: bool, lazy: bool) -> Iterator[list[HTTPConnection]]:
    workers = WORKERS[worker_class]
    command = ["gunicorn", "--no-control-socket", "--keep-alive", str(PATIENCE), "--worker-class", worker_class]
    command += ["--workers", str(workers.number), *workers.options, *(["--preload"] if preload else []), "wsgi_app:app"]
    with serving(server, command, workers.number, workers.callers, lazy) as connections:
        yield connections


@contextmanager
def serving(
    server: RedisServer, command: list[str], workers: int, callers: int, lazy: bool
) -> Iterator[list[HTTPConnection]]:
    """Runs a web server and gives so many connections, as many to each of its workers."""
    port = free_port()
    bind = ["--bind", f"127.0.0.1:{port}"] if command[0] == "gunicorn" else ["--port", str(port)]
    found: defaultdict[int, list[HTTPConnection]] = defaultdict(list)

    def are_found() -> bool:
        assert process.poll() is None, "it has ended"
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        stack.enter_context(closing(connection))
        with suppress(ConnectionError):
            worker, _ = ask(connection, "/ready")
            if len(found[worker]) < callers // workers:
                found[worker].append(connection)
                return sum(map(len, found.values())) == callers
        connection.close()
        return False

    with running(server, [*command, *bind], lazy) as process, ExitStack() as stack:
        eventually(PATIENCE, are_found)
        yield [connection for connections in found.values() for connection in connections]


@contextmanager
def running(server: RedisServer, command: list[str], lazy: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a Python module. It must end when it is told to, and show no traceback."""
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
            assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
            assert "Traceback" not in said(output)
        except BaseException as error:
            error.add_note(f"{command[0]} said:\n{said(output)}")
            raise
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def said(output: TextIO) -> str:
    output.seek(0)
    return output.read()


def ask_all(connections: list[HTTPConnection], rounds: int, *paths: str) -> tuple[set[int], int]:
    """So many requests by callers with a connection each. The workers that answered, and how many requests one of
    them had at once."""

    def call(caller: int) -> list[tuple[int, int]]:
        numbers = range(caller, rounds, len(connections))
        return [ask(connections[caller], paths[number % len(paths)]) for number in numbers]

    with ThreadPoolExecutor(len(connections)) as callers:
        answers = [answer for answers in callers.map(call, range(len(connections))) for answer in answers]
    assert len(answers) == rounds
    return {worker for worker, _ in answers}, max(at_once for _, at_once in answers)


def ask(connection: HTTPConnection, path: str) -> tuple[int, int]:
    """The worker that answered, and how many requests it had at once."""
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    worker, at_once = json.loads(body)
    return worker, at_once
