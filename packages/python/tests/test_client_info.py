"""Tests of the information about clients: a client reports its program and machine, and others read them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from servers import RedisServer, Store
from test_forks import in_child

import steadlock
from steadlock import _options, aio

LANGUAGE = f"python {sys.version.split()[0].rstrip('+')}"
COMMAND = Path(__file__).parents[3] / "target" / "release" / "steadlock"

HOLDER = """
import steadlock, sys
with steadlock.connect(sys.argv[1], client_label="blue") as client, client.lock("door"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def assert_is_this_process(holder: steadlock.Holder | None, label: str = "blue") -> None:
    assert holder is not None
    info = holder.client
    assert info is not None
    assert (info.host, info.pid, info.label) == (socket.gethostname(), os.getpid(), label)
    assert (info.language, info.version) == (LANGUAGE, steadlock.__version__)
    program = _options._program()
    # A worker of pytest-xdist has no script, so its name is that of the executable.
    assert info.program.startswith("python") if program is None else info.program == program
    assert info.since.tzinfo is UTC
    assert timedelta(0) <= datetime.now(UTC) - info.since < timedelta(seconds=60)


def assert_names_this_process(refusal: steadlock.LockTimeoutError) -> None:
    assert_is_this_process(refusal.holder)
    assert f"(blue), pid {os.getpid()} on {socket.gethostname()}" in str(refusal)


@pytest.fixture
def place(url: str) -> str:
    """A URL that several clients can share: `memory://` without a name is private to each client."""
    return f"{url}{uuid.uuid4()}" if url == "memory://" else url


def test_a_holder_is_named(place: str) -> None:
    with steadlock.connect(place, client_label="blue") as theirs, steadlock.connect(place) as ours:
        with theirs.lock("door"):
            assert_is_this_process(ours.lock("door").holder())
            with pytest.raises(steadlock.LockTimeoutError) as refusal, ours.lock("door", wait=0.25):
                pass
            assert_names_this_process(refusal.value)
        with theirs.semaphore("seats", 1).hold():
            assert_is_this_process(ours.semaphore("seats", 1).permits(1).holder())
        with ours.lock("door"):
            assert_is_this_process(theirs.lock("door").holder(), label="")


async def test_a_holder_is_named_in_tasks(place: str) -> None:
    async with aio.connect(place, client_label="blue") as theirs, aio.connect(place) as ours:
        async with theirs.lock("door"):
            assert_is_this_process(await ours.lock("door").holder())
            with pytest.raises(steadlock.LockTimeoutError) as refusal:
                async with ours.lock("door", wait=0.25):
                    pass
            assert_names_this_process(refusal.value)
        async with ours.lock("door"):
            assert_is_this_process(await theirs.lock("door").holder(), label="")


@pytest.fixture
def memories() -> list[str]:
    return [f"memory://{uuid.uuid4()}" for _ in range(3)]


def test_the_holder_of_a_redlock_is_named(memories: list[str]) -> None:
    with (
        steadlock.redlock(memories, client_label="blue") as theirs,
        steadlock.redlock(memories) as ours,
        theirs.lock("door"),
    ):
        assert_is_this_process(ours.lock("door").holder())
        with pytest.raises(steadlock.LockTimeoutError) as refusal, ours.lock("door", wait=0.25):
            pass
        assert_is_this_process(refusal.value.holder)


async def test_the_holder_of_a_redlock_is_named_in_tasks(memories: list[str]) -> None:
    async with (
        aio.redlock(memories, client_label="blue") as theirs,
        aio.redlock(memories) as ours,
        theirs.lock("door"),
    ):
        assert_is_this_process(await ours.lock("door").holder())


def test_a_client_in_a_forked_child_names_the_child(server: RedisServer) -> None:
    with steadlock.connect(server.url, client_label="blue") as client, client.lock("window"):

        def work() -> None:
            with client.lock("door"), steadlock.connect(server.url) as other:
                assert_is_this_process(other.lock("door").holder())

        in_child(work)


@contextlib.contextmanager
def holding(server: RedisServer, *command: str, folder: Path, program: str | None = None) -> Iterator[int]:
    """Runs a program that holds `door`, and yields its process id."""
    with subprocess.Popen(
        [sys.executable, *command, server.url, "--password=hunter2"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if program is not None:
                process.stdin.write(program)
                process.stdin.flush()
            assert process.stdout.readline() == "held\n"
            yield process.pid
        finally:
            process.stdin.close()


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["orders.py"], "orders.py"),
        (["-m", "shop"], "shop"),
        (["-m", "shop.orders"], "orders.py"),
        (["shop"], "shop"),
        (["shop/"], "shop"),
        (["-c", HOLDER], None),
    ],
)
def test_a_program_is_named_by_its_script_or_module(
    server: RedisServer, tmp_path: Path, command: list[str], program: str | None
) -> None:
    (tmp_path / "shop").mkdir()
    for file in ("orders.py", "shop/__init__.py", "shop/__main__.py", "shop/orders.py"):
        (tmp_path / file).write_text("" if file == "shop/__init__.py" else HOLDER)
    with holding(server, *command, folder=tmp_path) as pid, steadlock.connect(server.url) as client:
        holder = client.lock("door").holder()
        assert holder is not None
        assert holder.client is not None
        assert holder.client.pid == pid
        # Without a script the name is that of the executable.
        assert holder.client.program == (program or Path(sys.executable).resolve().name)
        assert "hunter2" not in repr(holder)


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (["/srv/orders.py", "--password=hunter2"], "orders.py"),
        (["/srv/caf\udce9.py"], None),
        (["/"], None),
        (["."], None),
        ([""], None),
        (["-"], None),
        (["-c"], None),
        (["-m"], None),
        ([], None),
        ([None], None),
        (None, None),
    ],
)
def test_unusual_program_arguments_are_handled(
    monkeypatch: pytest.MonkeyPatch, arguments: object, program: str | None
) -> None:
    monkeypatch.setattr(sys, "argv", arguments)
    assert _options._program() == program
    with steadlock.connect("memory://") as client, client.lock("door"):
        pass
    monkeypatch.delattr(sys, "argv")
    assert _options._program() is None


def test_client_info_can_be_switched_off(server: RedisServer, store: Store) -> None:
    with (
        steadlock.connect(server.url, client_info=False) as silent,
        steadlock.connect(server.url) as talking,
        silent.lock("door"),
    ):
        assert store.keys("*:client") == []
        holder = talking.lock("door").holder()
        assert holder is not None
        assert holder.client is None
        with talking.lock("window"):
            assert len(store.keys("*:client")) == 1
            holder = silent.lock("window").holder()
            assert holder is not None
            assert holder.client is None
            with pytest.raises(steadlock.LockTimeoutError) as refusal, silent.lock("window", wait=0.25):
                pass
            assert refusal.value.holder is not None
            assert refusal.value.holder.client is None
            assert str(os.getpid()) not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"client_label": "a\nb"}, steadlock.InvalidArgumentError),
        ({"client_label": "\x1b[2J"}, steadlock.InvalidArgumentError),
        ({"client_label": "x" * 201}, steadlock.InvalidArgumentError),
        ({"client_label": "a\ud800"}, steadlock.InvalidArgumentError),
        ({"client_label": "blue", "client_info": False}, steadlock.InvalidArgumentError),
        ({"client_label": 7}, TypeError),
        ({"client_label": b"blue"}, TypeError),
        ({"client_info": None}, TypeError),
        ({"client_info": "no"}, TypeError),
        ({"client_info": 1}, TypeError),
    ],
)
def test_wrong_options_are_refused(memories: list[str], options: dict[str, Any], error: type[Exception]) -> None:
    async def awaited(start: Callable[[], aio.Connecting]) -> None:
        async with start():
            pass

    attempts: list[Callable[[], object]] = [
        lambda: steadlock.connect("memory://", **options).close(),
        lambda: steadlock.redlock(memories, **options).close(),
        lambda: asyncio.run(awaited(lambda: aio.connect("memory://", **options))),
        lambda: asyncio.run(awaited(lambda: aio.redlock(memories, **options))),
    ]
    for attempt in attempts:
        with pytest.raises(error, match=r"client_(info|label)"):
            attempt()


def test_the_longest_label_is_returned_unchanged() -> None:
    label = "ä" * 200
    with steadlock.connect("memory://", client_label=label) as client, client.lock("door"):
        assert_is_this_process(client.lock("door").holder(), label)


@pytest.mark.parametrize("seconds", [0, 253402300799, 2**40, 2**64 - 1])
def test_any_start_time_on_the_server_is_read_as_a_date(server: RedisServer, store: Store, seconds: int) -> None:
    with steadlock.connect(server.url) as theirs, steadlock.connect(server.url) as ours, theirs.lock("door"):
        (key,) = store.keys("*:client")
        store.set(key, f"host=worker-7\nsince={seconds}")
        holder = ours.lock("door").holder()
        assert holder is not None
        assert holder.client is not None
        assert holder.client.host == "worker-7"
        assert holder.client.since.timestamp() <= seconds


def test_client_info_is_immutable_and_can_be_pickled() -> None:
    since = datetime(2026, 11, 25, tzinfo=UTC)
    info = steadlock.ClientInfo("worker-7", 4121, "orders.py", "python 3.11.7", "0.1.0", since, "blue")
    holder = steadlock.Holder("owner", 1.5, info)
    error = pickle.loads(pickle.dumps(steadlock.LockTimeoutError("text", holder=holder)))
    assert error.holder == holder
    with pytest.raises(AttributeError):
        info.pid = 1  # type: ignore[misc]
    assert steadlock.Holder("owner", None).client is None


@pytest.mark.skipif(not COMMAND.exists(), reason="the command is not built")
def test_the_command_names_a_holder(server: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(HOLDER)
    with holding(server, "orders.py", folder=tmp_path) as pid:
        inspect = [str(COMMAND), "inspect", "door", "--url", server.url, "--json"]
        found = json.loads(subprocess.check_output(inspect, text=True))
        info = found["servers"][0]["holds"][0]["holder"]["info"]
        assert (info["host"], info["pid"], info["program"]) == (socket.gethostname(), pid, "orders.py")
        assert (info["language"], info["version"], info["label"]) == (LANGUAGE, steadlock.__version__, "blue")


def test_chosen_queues_are_counted(server: RedisServer) -> None:
    with steadlock.connect(server.url, metrics=True, metrics_queues=["report"]) as client:
        with client.fair_lock("report"):
            pass
        for _ in range(1_000):
            if 'steadlock_fair_queue{queue="report"} 0' in client.metrics():
                break
            assert client.lock("b").holder() is None
        else:
            raise AssertionError(client.metrics())
    for names in ("report", 7, [7]):
        with pytest.raises(TypeError, match="metrics_queues"):
            steadlock.connect("memory://", metrics=True, metrics_queues=names)  # type: ignore[arg-type]
    with pytest.raises(steadlock.InvalidArgumentError, match="metrics_queues"):
        steadlock.connect("memory://", metrics_queues=["report"])
