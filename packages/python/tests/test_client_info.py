"""Which program on which machine holds a lock, as its client says."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from servers import RedisServer

import leasehold
import leasehold.aio


def is_this_process(info: leasehold.ClientInfo | None, label: str) -> None:
    assert info is not None
    assert info.host == socket.gethostname()
    assert info.pid == os.getpid()
    path = Path(sys.argv[0])
    script = path.parent.name if path.name == "__main__.py" else path.name
    # Of what is no script, as a worker of the tests, the executable.
    assert info.program == (Path(sys.executable).resolve().name if script == "-c" else script)
    assert info.language == f"python {platform.python_version()}"
    assert info.version == leasehold.__version__
    assert abs(datetime.now(UTC) - info.since) < timedelta(minutes=30)
    assert info.label == label


def test_the_holder_has_the_name_of_its_program(server: RedisServer) -> None:
    with (
        leasehold.connect(server.url, client_label="blue") as client,
        leasehold.connect(server.url) as other,
        client.lock("a"),
    ):
        holder = other.lock("a").holder()
        assert holder is not None
        is_this_process(holder.client, "blue")
        with pytest.raises(leasehold.LockTimeoutError) as raised, other.lock("a", wait=0.1):
            raise AssertionError
        assert f"(blue), pid {os.getpid()} on {socket.gethostname()} for another" in str(raised.value)
        assert raised.value.holder is not None
        is_this_process(raised.value.holder.client, "blue")


def test_the_holder_has_the_name_of_its_program_in_asyncio(server: RedisServer) -> None:
    async def main() -> None:
        async with (
            leasehold.aio.connect(server.url, client_label="green") as client,
            leasehold.aio.connect(server.url) as other,
            client.lock("a"),
        ):
            holder = await other.lock("a").holder()
            assert holder is not None
            is_this_process(holder.client, "green")

    asyncio.run(main())


def test_a_client_may_say_nothing(server: RedisServer) -> None:
    with (
        leasehold.connect(server.url, client_info=False) as client,
        leasehold.connect(server.url) as other,
        client.lock("a"),
    ):
        holder = other.lock("a").holder()
        assert holder is not None
        assert holder.client is None


@pytest.mark.parametrize("label", ["a\nb", "x" * 201])
def test_a_label_that_nobody_would_see_is_refused(label: str) -> None:
    with pytest.raises(leasehold.InvalidArgumentError, match="client_label"):
        leasehold.connect("memory://", client_label=label)


def test_what_is_no_option_is_refused() -> None:
    with pytest.raises(leasehold.InvalidArgumentError, match="client_info is off"):
        leasehold.connect("memory://", client_info=False, client_label="x")
    with pytest.raises(TypeError, match="client_label"):
        leasehold.connect("memory://", client_label=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="client_info"):
        leasehold.connect("memory://", client_info=1)  # type: ignore[arg-type]


def test_the_queues_that_one_chooses_are_counted(server: RedisServer) -> None:
    with leasehold.connect(server.url, metrics=True, metrics_queues=["report"]) as client:
        with client.fair_lock("report"):
            pass
        for _ in range(1_000):
            if 'leasehold_fair_queue{queue="report"} 0' in client.metrics():
                break
            assert client.lock("b").holder() is None
        else:
            raise AssertionError(client.metrics())
    for names in ("report", 7, [7]):
        with pytest.raises(TypeError, match="metrics_queues"):
            leasehold.connect("memory://", metrics=True, metrics_queues=names)  # type: ignore[arg-type]
    with pytest.raises(leasehold.InvalidArgumentError, match="metrics_queues"):
        leasehold.connect("memory://", metrics_queues=["report"])
