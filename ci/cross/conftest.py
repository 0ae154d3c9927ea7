"""Fixtures for tests of several languages on one lock, on a real redis-server. The contending programs are in
contenders/."""

import re
import subprocess
from collections.abc import Iterator

import pytest
import redis

from programs import ROOT, Server
from redis_server import redis_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with redis_server() as url, redis.Redis.from_url(url, decode_responses=True) as store:
        yield Server(url, store)


@pytest.fixture(scope="session")
def rest() -> Iterator[tuple[Server, str]]:
    """A server by `steadlock serve`, and the URL of its REST API."""
    command = [str(ROOT / "target" / "release" / "steadlock"), "serve", "--port", "0", "--http", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        url, http = "", ""
        while not (url and http):
            line = process.stdout.readline()
            assert line, "steadlock serve has ended"
            url = next(iter(re.findall(r"redis:\S+", line)), url)
            http = next(iter(re.findall(r"http:\S+", line)), http)
        with redis.Redis.from_url(url, decode_responses=True) as store:
            yield Server(url, store), http
        process.terminate()
