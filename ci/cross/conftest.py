"""Several languages on one lock, on a real redis-server. The programs that contend are in contenders/."""

from collections.abc import Iterator

import pytest
import redis

from programs import Server
from redis_server import redis_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with redis_server() as url, redis.Redis.from_url(url, decode_responses=True) as store:
        yield Server(url, store)
