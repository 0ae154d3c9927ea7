from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from servers import RedisServer, Store, store_of

import steadlock


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    """A real server without data."""
    with store_of(shared_server) as store:
        store.flushall()
        store.config_resetstat()
    return shared_server


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A real server for a test that stops it."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def store(server: RedisServer) -> Iterator[Store]:
    """An ordinary client of `server`."""
    with store_of(server) as store:
        yield store


@pytest.fixture(params=["memory", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    """The places for locks: the embedded store, and a real server."""
    if request.param == "memory":
        return "memory://"
    server: RedisServer = request.getfixturevalue("server")
    return server.url


@pytest.fixture
def client(url: str) -> Iterator[steadlock.Client]:
    with steadlock.connect(url) as client:
        yield client


@pytest.fixture
async def aclient(url: str) -> AsyncIterator[steadlock.aio.Client]:
    async with steadlock.aio.connect(url) as client:
        yield client


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how many scenarios of the behaviour suite ran."""
    ran = [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]
    counts = Counter(dict(report.user_properties).get("transport") for report in ran)
    del counts[None]
    for transport, count in counts.items():
        terminalreporter.write_line(f"behaviour suite on {transport}: {count} scenarios in threads and in tasks")
