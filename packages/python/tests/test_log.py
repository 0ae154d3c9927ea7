"""Tests of the log when locks are lost, and when servers fail and come back."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from servers import RedisServer, eventually

import steadlock
from steadlock import _log, aio

# The tests restart the server. If the restart took longer than the lease, the reason for the loss would be `expired`.
LEASE = 6
PASSWORD = "sesame-open-and-more"
DEMO = Path(__file__).parents[3] / "examples" / "failover" / "run.py"


@pytest.fixture
def secret_server() -> Iterator[RedisServer]:
    with RedisServer("--requirepass", PASSWORD) as server:
        server.url = server.url.replace("//", f"//:{PASSWORD}@")
        yield server


def record_of(caplog: pytest.LogCaptureFixture, event: str) -> logging.LogRecord | None:
    """Returns the log record of an event."""
    records = [record for record in caplog.records if record.name == "steadlock"]
    return next((record for record in records if vars(record)["event"] == event), None)


def check(caplog: pytest.LogCaptureFixture, server: RedisServer) -> None:
    records = {event: record_of(caplog, event) for event in ("lost", "disconnected", "connected")}
    levels = {event: record and record.levelname for event, record in records.items()}
    assert levels == {"lost": "ERROR", "disconnected": "WARNING", "connected": "INFO"}
    lost = records["lost"]
    assert lost is not None
    assert lost.getMessage().startswith('lock "door" is lost after ')
    fields = vars(lost)
    assert (fields["lock"], fields["reason"]) == ("door", "removed")
    assert fields["server"] == f"127.0.0.1:{server.port}"
    logged_text = "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "sesame" not in logged_text


def test_the_log_reports_a_loss_a_disconnect_and_a_reconnect(
    secret_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "steadlock")
    with steadlock.connect(secret_server.url, lease=LEASE) as client:
        lease = client.lock("door").try_acquire()
        assert lease is not None
        secret_server.kill()
        secret_server.start()
        # The test makes no call that would report the loss.
        eventually(20, lambda: record_of(caplog, "lost") and record_of(caplog, "connected"))
        assert lease.release() == "expired"
    check(caplog, secret_server)


async def test_the_log_reports_a_loss_a_disconnect_and_a_reconnect_in_asyncio(
    secret_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "steadlock")
    async with aio.connect(secret_server.url, lease=LEASE) as client:
        lease = await client.lock("door").try_acquire()
        assert lease is not None
        secret_server.kill()
        secret_server.start()
        await asyncio.to_thread(eventually, 20, lambda: record_of(caplog, "lost") and record_of(caplog, "connected"))
    check(caplog, secret_server)


def test_grants_and_releases_are_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "steadlock")
    with steadlock.connect("memory://") as client, client.lock("door"):
        pass
    eventually(20, lambda: not _log.is_behind())
    assert record_of(caplog, "granted")
    assert record_of(caplog, "released")


def test_ordinary_use_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "steadlock")
    with steadlock.connect("memory://") as client, client.lock("door"):
        pass
    eventually(20, lambda: not _log.is_behind())
    assert [record for record in caplog.records if record.name == "steadlock"] == []


class BlockingHandler(logging.Handler):
    """A handler that blocks until the end of the test, like one with a socket in a network partition."""

    def __init__(self) -> None:
        super().__init__()
        self.is_released = threading.Event()
        self.is_blocked = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.is_blocked.set()
        self.is_released.wait(30)


@pytest.fixture
def blocking_handler() -> Iterator[BlockingHandler]:
    handler, logger = BlockingHandler(), logging.getLogger("steadlock")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    handler.is_released.set()
    eventually(10, lambda: not _log.is_behind())


def test_a_blocking_handler_delays_no_loss_and_no_close(blocking_handler: BlockingHandler) -> None:
    client = steadlock.connect("memory://")
    for name in ("door", "window"):
        lease = client.lock(name, max_hold=0.1).try_acquire(wait=20)
        assert lease is not None
        assert lease.lost.wait(20)
        assert blocking_handler.is_blocked.wait(10)
    started = time.monotonic()
    client.close()
    # The handler blocks for 30 s.
    assert time.monotonic() - started < 15


async def test_a_blocking_handler_delays_no_loss_and_no_close_in_asyncio(blocking_handler: BlockingHandler) -> None:
    client = await aio.connect("memory://")
    for name in ("door", "window"):
        with pytest.raises(steadlock.LockLostError):
            async with asyncio.timeout(20), client.lock(name, max_hold=0.1):
                await asyncio.sleep(30)
        assert await asyncio.to_thread(blocking_handler.is_blocked.wait, 10)
    async with asyncio.timeout(15):
        await client.close()


def test_dropped_lines_are_counted(blocking_handler: BlockingHandler, caplog: pytest.LogCaptureFixture) -> None:
    _log.write([("warn", "the first", {"event": "first"})])
    assert blocking_handler.is_blocked.wait(10)
    _log.write([("info", "ordinary", {"event": "ordinary"})] * 5_000)
    _log.write([("error", "a loss", {"event": "urgent"})] * 5_000)
    caplog.set_level(logging.INFO, "steadlock")
    blocking_handler.is_released.set()
    eventually(10, lambda: not _log.is_behind())
    events = Counter(vars(record)["event"] for record in caplog.records)
    assert events == {"first": 1, "ordinary": 1_000, "urgent": 5_000, "left_out": 1}
    left_out = record_of(caplog, "left_out")
    assert left_out is not None
    assert vars(left_out)["unsaid"] == 4_000


def test_the_log_of_a_client_that_is_never_granted(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "steadlock")
    with steadlock.connect(url) as client:

        def fail() -> None:
            for _ in range(1_000):
                assert client.lock("door").try_acquire() is None

        holder = client.lock("door").try_acquire()
        caplog.clear()
        waiter = threading.Thread(target=fail)
        waiter.start()
        waiter.join()
        assert holder is not None

        def all_logged() -> bool:
            # Counts also the lines that were dropped because the handlers were too slow.
            left_out = [int(vars(record).get("unsaid", 0)) for record in list(caplog.records)]
            return len(left_out) + sum(left_out) > 2_000

        eventually(10, all_logged)
        assert record_of(caplog, "wait_ended")


def test_the_log_of_a_client_that_holds_a_fixed_lease(
    own_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with steadlock.connect(own_server.url) as client:
        assert client.lock("door", lease=60).try_acquire()
        own_server.kill()
        eventually(10, lambda: record_of(caplog, "disconnected"))


def test_the_log_of_the_first_wait_in_an_outage(own_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "steadlock")
    own_server.kill()
    with steadlock.connect(own_server.url, lazy=True) as client:

        def wait() -> None:
            with suppress(steadlock.SteadlockError):
                client.lock("door").acquire(timeout=20)

        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(10, lambda: record_of(caplog, "connect_failing"))
        client.close()
        waiter.join()


def test_the_log_of_a_forked_child(server: RedisServer) -> None:
    with steadlock.connect(server.url) as client:
        child = os.fork()
        if child == 0:
            is_logged = threading.Event()
            handler = logging.Handler()
            handler.emit = lambda record: is_logged.set()  # type: ignore[method-assign]
            logging.getLogger("steadlock").addHandler(handler)
            # The program makes no call that would report the loss.
            client.lock("door", max_hold=0.2).try_acquire(wait=20)
            os._exit(0 if is_logged.wait(10) else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_handler_can_use_the_logging_client(url: str) -> None:
    results: list[bool] = []
    with steadlock.connect(url) as client:

        class Locking(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if not results:
                    results.append(False)
                    with client.lock("log", wait=10) as lease:
                        results[0] = lease.lost is not None

        handler = Locking()
        logging.getLogger("steadlock").addHandler(handler)
        try:
            for number in range(3 * 64):
                assert client.lock(f"door-{number}", max_hold=0.1).try_acquire(wait=20)
            eventually(10, lambda: results and results[0])
        finally:
            logging.getLogger("steadlock").removeHandler(handler)


def test_no_thread_is_started_while_the_log_is_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "steadlock")
    with steadlock.connect("memory://") as client, client.lock("door"):
        assert not client._connection.events._thread.is_running()


def test_threads_that_drain_events_lose_none() -> None:
    with steadlock.connect("memory://") as client:
        leases = [client.lock(f"door-{number}", max_hold=0.1).try_acquire(wait=20) for number in range(200)]
        lost = [lease.lost for lease in leases if lease]
        stop = threading.Event()
        raised: list[BaseException] = []

        def drain() -> None:
            try:
                while not stop.is_set():
                    client._connection.events.deliver()
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=drain) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert all(event.wait(10) for event in lost)
        stop.set()
        for thread in threads:
            thread.join()
        assert raised == []


def test_the_example_of_the_documentation() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    story = [line.split(maxsplit=2)[1:] for line in done.stdout.splitlines()]
    text = "\n".join(" ".join(line) for line in story)
    positions = [
        text.index(wanted)
        for wanted in (
            "WARNING the connection to 127.0.0.1:",
            "INFO connected to 127.0.0.1:",
            'ERROR lock "order:17" is lost after',
            'INFO lock "report" is lost after',
            'WARNING a renewal of lock "stock:42"',
            'ERROR lock "stock:42" is lost after',
        )
    ]
    assert positions == sorted(positions), done.stdout
    assert "sesame" not in text
