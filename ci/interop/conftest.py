"""Fixtures for tests of Steadlock and other lock libraries on one redis-server. See README.md."""

from collections.abc import Callable, Iterator

import pytest
import redis

from peers import Library, Peer, peers
from redis_server import redis_server
from server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with redis_server() as url, redis.Redis.from_url(url, decode_responses=True) as store:
        yield Server(url, store)


@pytest.fixture(scope="session")
def start(server: Server) -> Iterator[Callable[[Library], Peer]]:
    """Starts a library's peer, once for all tests."""
    with peers(server.url) as start:
        yield start
