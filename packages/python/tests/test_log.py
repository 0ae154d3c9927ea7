"""What the log says when locks are lost, and when servers go and come back."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import RedisServer, eventually

import leasehold
from leasehold import aio

LEASE = 0.9
PASSWORD = "sesame-open-and-more"
DEMO = Path(__file__).parents[3] / "examples" / "failover" / "run.py"


@pytest.fixture
def secret_server() -> Iterator[RedisServer]:
    with RedisServer("--requirepass", PASSWORD) as server:
        server.url = server.url.replace("//", f"//:{PASSWORD}@")
        yield server


def told(caplog: pytest.LogCaptureFixture, event: str) -> logging.LogRecord | None:
    """The record of an event, which names it."""
    records = [record for record in caplog.records if record.name == "leasehold"]
    return next((record for record in records if vars(record)["event"] == event), None)


def check(caplog: pytest.LogCaptureFixture, server: RedisServer) -> None:
    records = {event: told(caplog, event) for event in ("lost", "disconnected", "connected")}
    levels = {event: record and record.levelname for event, record in records.items()}
    assert levels == {"lost": "ERROR", "disconnected": "WARNING", "connected": "INFO"}
    lost = records["lost"]
    assert lost is not None
    assert lost.getMessage().startswith('lock "door" is lost after ')
    fields = vars(lost)
    assert (fields["lock"], fields["reason"]) == ("door", "removed")
    assert fields["server"] == f"127.0.0.1:{server.port}"
    everything = "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "sesame" not in everything


def test_the_log_tells_a_loss_a_disconnect_and_a_reconnect(
    secret_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leasehold")
    with leasehold.connect(secret_server.url, lease=LEASE) as client:
        lease = client.lock("door").try_acquire()
        assert lease is not None
        secret_server.kill()
        secret_server.start()
        # Nobody asks the lease about it.
        eventually(10, lambda: told(caplog, "lost") and told(caplog, "connected"))
        assert lease.release() == "expired"
    check(caplog, secret_server)


async def test_so_it_does_in_asyncio(secret_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "leasehold")
    async with aio.connect(secret_server.url, lease=LEASE) as client:
        lease = await client.lock("door").try_acquire()
        assert lease is not None
        secret_server.kill()
        secret_server.start()
        await asyncio.to_thread(eventually, 10, lambda: told(caplog, "lost") and told(caplog, "connected"))
    check(caplog, secret_server)


def test_grants_and_releases_are_told_if_debug_is_enabled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "leasehold")
    with leasehold.connect("memory://") as client, client.lock("door"):
        pass
    assert told(caplog, "granted")
    assert told(caplog, "released")


def test_an_ordinary_day_has_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "leasehold")
    with leasehold.connect("memory://") as client, client.lock("door"):
        pass
    assert [record for record in caplog.records if record.name == "leasehold"] == []


def test_the_day_that_the_documentation_shows() -> None:
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
