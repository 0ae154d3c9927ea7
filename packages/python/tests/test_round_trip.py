"""Tests with a server so far away that a short lease expires before its grant arrives."""

from __future__ import annotations

import asyncio
import queue
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from servers import RedisServer

import steadlock
from steadlock import aio

DELAY_EACH_WAY = 0.06
SHORT = 0.1
LONG = 5
LIMIT = 20
"""No wait may take longer than this many seconds, even on a busy machine."""
REASON = (
    r"it was granted too late to be relied on: the answer took [\d.]+m?s, "
    r"and a lease of 100ms may be relied on for 79ms; the lease must be longer than [\d.]+m?s"
)
WAITS = {"a wait without a bound": None, "a bounded wait": 1, "a single attempt": 0}


async def serve_with_delay(server_port: int, ports: queue.Queue[int], stop: asyncio.Event) -> None:
    """Runs a proxy that passes all data on after the delay."""
    loop = asyncio.get_running_loop()
    writers: list[asyncio.StreamWriter] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1 << 16):
            loop.call_later(DELAY_EACH_WAY, writer.write, chunk)
        loop.call_later(DELAY_EACH_WAY, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", server_port)
        writers.extend([writer, to_server])
        with suppress(ConnectionError):
            await asyncio.gather(forward(reader, to_server), forward(from_server, writer))

    proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
    ports.put(proxy.sockets[0].getsockname()[1])
    await stop.wait()
    proxy.close()
    for writer in writers:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


@pytest.fixture
def distant_url(server: RedisServer) -> Iterator[str]:
    """The URL of a proxy on a separate thread."""
    ports: queue.Queue[int] = queue.Queue()
    stop = asyncio.Event()
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=[serve_with_delay(server.port, ports, stop)])
        thread.start()
        yield f"redis://127.0.0.1:{ports.get(timeout=LIMIT)}"
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def locks(client: Any, name: str, lease: float) -> list[Any]:
    """Returns locks of several kinds, each with a name of its own."""
    return [
        client.lock(f"{name}:lock", lease=lease),
        client.fair_lock(f"{name}:fair", lease=lease),
        client.mutex(f"{name}:mutex", lease=lease),
        client.semaphore(f"{name}:semaphore", 1, lease=lease),
    ]


def assert_advises_longer_lease(error: object, wait: float | None, took: float) -> None:
    assert isinstance(error, steadlock.UnavailableError), error
    assert error.retryable
    assert re.search(REASON, str(error)), error
    assert took >= (wait or 0)


def test_a_lease_shorter_than_the_round_trip_is_refused_with_a_reason(distant_url: str) -> None:
    def wait_for(lock: Any, wait: float | None) -> None:
        start = time.monotonic()
        with pytest.raises(steadlock.UnavailableError) as caught:
            lock.try_acquire(wait=wait)
        assert_advises_longer_lease(caught.value, wait, time.monotonic() - start)

    with steadlock.connect(distant_url) as client, ThreadPoolExecutor(12) as threads:
        waits = [(lock, wait) for name, wait in WAITS.items() for lock in locks(client, name, SHORT)]
        for refused in [threads.submit(wait_for, lock, wait) for lock, wait in waits]:
            refused.result(LIMIT)
        # A longer lease works.
        for lock in locks(client, "a bounded wait", LONG):
            lease = lock.try_acquire(wait=LIMIT)
            assert lease.release() == "released"


async def test_a_lease_shorter_than_the_round_trip_is_refused_in_asyncio(distant_url: str) -> None:
    async def wait_for(lock: Any, wait: float | None) -> None:
        start = time.monotonic()
        with pytest.raises(steadlock.UnavailableError) as caught:
            await lock.try_acquire(wait=wait)
        assert_advises_longer_lease(caught.value, wait, time.monotonic() - start)

    async with aio.connect(distant_url) as client, asyncio.timeout(LIMIT):
        waits = [(lock, wait) for name, wait in WAITS.items() for lock in locks(client, name, SHORT)]
        await asyncio.gather(*(wait_for(lock, wait) for lock, wait in waits))
        # A longer lease works.
        for lock in locks(client, "a bounded wait", LONG):
            lease = await lock.try_acquire(wait=LIMIT)
            assert await lease.release() == "released"
