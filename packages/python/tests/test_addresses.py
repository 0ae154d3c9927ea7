"""Tests of `address_map`, with a node that announces an address without a server. `core/client/tests/addresses` tests
the rest.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from servers import RedisServer, eventually, store_of

import steadlock
from steadlock import aio

ANNOUNCED = "10.255.0.1:7000"


@pytest.fixture(scope="module")
def node() -> Iterator[RedisServer]:
    """A cluster of one node that announces a wrong address."""
    options = ["--cluster-enabled", "yes", "--cluster-announce-ip", "10.255.0.1", "--cluster-announce-port", "7000"]
    with RedisServer(*options) as server, store_of(server) as store:
        store.execute_command("CLUSTER ADDSLOTS", *range(16_384))
        eventually(30, lambda: store.cluster("info")["cluster_state"] == "ok")
        yield server


def url_of(node: RedisServer) -> str:
    return f"redis+cluster://127.0.0.1:{node.port}"


async def test_a_dict_maps_announced_addresses(node: RedisServer) -> None:
    table = {ANNOUNCED: f"127.0.0.1:{node.port}"}
    with steadlock.connect(url_of(node), address_map=table) as client, client.lock("a", wait=10):
        pass
    async with aio.connect(url_of(node), address_map=table) as other, other.lock("a", wait=10):
        pass
    with steadlock.connect(url_of(node)) as client, pytest.raises(steadlock.UnavailableError):
        client.lock("a").acquire(timeout=3)


async def test_a_function_maps_addresses_on_its_own_thread(node: RedisServer) -> None:
    requested = []

    def where(announced: str) -> str:
        requested.append((announced, threading.current_thread() is threading.main_thread()))
        return f"127.0.0.1:{node.port}"

    with steadlock.connect(url_of(node), address_map=where) as client, client.lock("a", wait=10):
        pass
    async with aio.connect(url_of(node), address_map=where) as other, other.lock("a", wait=10):
        pass
    assert set(requested) == {(ANNOUNCED, False)}


@pytest.mark.parametrize(
    ("where", "cause"),
    [
        (lambda _: 1 / 0, "it raised ZeroDivisionError"),
        (lambda _: 7, "neither a str nor None"),
        (lambda _: "\udcff", "neither a str nor None"),
        (sys.exit, "it raised SystemExit"),
        (lambda _: "hunter2@h", "no address"),
        ("hunter2".index, "it raised ValueError"),
    ],
)
def test_a_failing_address_function_fails_the_connection(node: RedisServer, where: Any, cause: str) -> None:
    with steadlock.connect(url_of(node), address_map=where) as client:
        with pytest.raises(steadlock.UnavailableError, match=cause) as raised:
            client.lock("a").acquire(timeout=3)
        assert "hunter2" not in str(raised.value)


EXITS_DURING_ADDRESS_FUNCTION = """
import steadlock, sys, threading, time
called = threading.Event()
def where(announced):
    called.set()
    for _ in range(5_000):
        time.sleep(float(sys.argv[2]))
client = steadlock.connect(sys.argv[1], address_map=where, lazy=True)
threading.Thread(target=client.lock("a").acquire, daemon=True).start()
called.wait()
print("ends", flush=True)
"""


@pytest.mark.parametrize("pause", [0, 0.0001, 0.001, 5], ids=str)
def test_a_program_can_exit_during_an_address_function(node: RedisServer, pause: float) -> None:
    for _ in range(5):
        command = [sys.executable, "-W", "error", "-c", EXITS_DURING_ADDRESS_FUNCTION, url_of(node), str(pause)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


def test_invalid_address_maps_are_refused() -> None:
    for bad in ({"10.0.0.1": "localhost:1"}, {"": "h:1"}, {"h:1": "redis://h:1"}):
        with pytest.raises(steadlock.InvalidArgumentError, match="address_map"):
            steadlock.connect("redis+cluster://127.0.0.1:1", address_map=bad)
        with pytest.raises(steadlock.InvalidArgumentError, match="address_map"):
            steadlock.redlock([f"redis+cluster://127.0.0.1:{port}" for port in (1, 2, 3)], address_map=bad)
    with pytest.raises(steadlock.InvalidArgumentError, match="redis\\+cluster://"):
        steadlock.connect("memory://", address_map={"h:1": "h:2"})
    for wrong in (7, "h:1", [("h:1", "h:2")], {"h:1": 7}, {7: "h:1"}):
        with pytest.raises(TypeError, match="address_map"):
            steadlock.connect("redis+cluster://127.0.0.1:1", address_map=wrong)  # type: ignore[arg-type]
