"""Tests that each rig starts, has the servers that it describes, and leaves nothing behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

HERE = Path(__file__).resolve().parent
COMMAND = [sys.executable, str(HERE)]
# A key of each shard: their slots are 15495, 3300 and 7365.
KEYS = ["a", "b", "c"]


@dataclass
class Running:
    """The command's process, and the JSON that it printed."""

    process: "subprocess.Popen[str]"
    description: dict[str, Any]

    @property
    def urls(self) -> list[str]:
        return list(self.description["urls"])

    def ports(self, role: str) -> list[int]:
        return [node["port"] for node in self.description["nodes"] if node["role"] == role]

    def connect(self, port: int) -> "redis.Redis":
        secure = {"ssl": True, "ssl_ca_certs": self.description["ca"]} if self.description["ca"] else {}
        return redis.Redis(port=port, decode_responses=True, **secure)

    def is_gone(self) -> bool:
        return not any(is_alive(node["pid"]) for node in self.description["nodes"])


@contextlib.contextmanager
def running(rig: str, server: str = "7.0") -> Iterator[Running]:
    """Runs a rig. At the end its stdin is closed, which must stop it and leave no server behind."""
    command = [*COMMAND, rig, "--server", server, "--json", "--until-stdin-closes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            line = process.stdout.readline()
            assert line, f"{rig} on {server} did not start"
            rig_running = Running(process, json.loads(line))
            yield rig_running
        finally:
            process.stdin.close()
        ended = process.wait(20)
    if ended == 0:
        assert rig_running.is_gone()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def write_and_read(store: "redis.Redis", key: str) -> None:
    assert store.set(key, "mine")
    assert store.get(key) == "mine"


@pytest.mark.parametrize(("rig", "server"), [("standalone", "7.0"), ("standalone", "6.2"), ("tls", "7.0")])
def test_a_single_server_can_be_used(rig: str, server: str) -> None:
    with running(rig, server) as it:
        (port,) = it.ports("primary")
        assert it.urls == [f"{'rediss' if rig == 'tls' else 'redis'}://127.0.0.1:{port}"]
        with it.connect(port) as store:
            write_and_read(store, "a")


def test_a_server_with_tls_refuses_plain_connections() -> None:
    with running("tls") as it, redis.Redis(port=it.ports("primary")[0]) as plain, pytest.raises(redis.ConnectionError):
        plain.ping()


def test_five_servers_are_independent() -> None:
    with running("redlock") as it:
        ports = it.ports("primary")
        assert it.urls == [f"redis://127.0.0.1:{port}" for port in ports]
        assert len(ports) == 5
        for port in ports:
            with it.connect(port) as store:
                assert store.get("a") is None
                write_and_read(store, "a")


@pytest.mark.parametrize(
    ("rig", "server"), [("sentinel", "7.0"), ("sentinel", "8.2"), ("sentinel", "valkey"), ("tls-sentinel", "7.0")]
)
def test_each_sentinel_names_the_primary(rig: str, server: str) -> None:
    scheme = "rediss" if rig == "tls-sentinel" else "redis"
    with running(rig, server) as it:
        (primary,) = it.ports("primary")
        sentinels = it.ports("sentinel")
        assert it.urls == [f"{scheme}+sentinel://{','.join(f'127.0.0.1:{port}' for port in sentinels)}/mymaster"]
        assert len(sentinels) == 3
        assert len(it.ports("replica")) == 2
        for port in sentinels:
            with it.connect(port) as sentinel:
                assert sentinel.sentinel_get_master_addr_by_name("mymaster") == ("127.0.0.1", primary)
        with it.connect(primary) as store:
            write_and_read(store, "a")
            assert store.execute_command("WAIT", 2, 5000) == 2


@pytest.mark.parametrize(
    ("rig", "server"), [("cluster", "7.0"), ("cluster", "8.2"), ("cluster", "valkey"), ("tls-cluster", "7.0")]
)
def test_each_shard_of_a_cluster_accepts_its_keys(rig: str, server: str) -> None:
    with running(rig, server) as it:
        primaries = it.ports("primary")
        scheme = "rediss" if rig == "tls-cluster" else "redis"
        assert it.urls == [f"{scheme}+cluster://{','.join(f'127.0.0.1:{port}' for port in primaries)}"]
        assert len(it.ports("replica")) == 3
        assert len({written_on(it, key) for key in KEYS}) == 3


def written_on(it: Running, key: str) -> int:
    """Returns the port of the one primary that accepts the key, after its replica has the key too."""
    accepted = []
    for port in it.ports("primary"):
        with it.connect(port) as store, contextlib.suppress(redis.exceptions.MovedError):
            write_and_read(store, key)
            assert store.execute_command("WAIT", 1, 5000) == 1
            accepted.append(port)
    (port,) = accepted
    return port


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_removes_its_servers_and_files(number: signal.Signals) -> None:
    with running("tls") as it:
        folder = Path(it.description["ca"]).parents[1]
        it.process.send_signal(number)
        assert it.process.wait(20) == 0
        assert it.is_gone()
        assert not folder.exists()


def test_a_signal_during_the_start_ends_the_command_too(tmp_path: Path) -> None:
    command = [*COMMAND, "cluster", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        until(lambda: len(list(tmp_path.glob("*/*/log"))) == 6, "the servers did not start")
        process.terminate()
        assert process.communicate(timeout=20)[0] == b""
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of a process that was killed")
def test_no_server_outlives_a_killed_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # A killed command cannot remove its folder.
    with running("redlock") as it:
        it.process.kill()
        until(it.is_gone, "a server outlives the command")


def test_a_killed_server_is_gone_and_the_others_stay() -> None:
    with running("redlock") as it:
        first, *others = [node["pid"] for node in it.description["nodes"]]
        os.kill(first, signal.SIGKILL)
        until(lambda: not is_alive(first), "the killed server remains a zombie")
        assert all(map(is_alive, others))


def test_the_log_of_a_server_that_dies_at_its_start_is_printed(tmp_path: Path) -> None:
    """Uses a stand-in for the system's server that prints a version and otherwise fails."""
    program = tmp_path / "server"
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "x v=7.0.0" && exit\necho out of luck\nexit 3\n')
    program.chmod(0o755)
    ended = run("redlock", STEADLOCK_SERVER_SYSTEM=str(program), TMPDIR=str(tmp_path))
    assert ended.returncode == 1
    assert "status 3" in ended.stderr
    assert "out of luck" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == [program]


@pytest.mark.parametrize("rig", ["standalone", "sentinel"])
def test_a_port_that_another_server_uses_is_not_used(rig: str, tmp_path: Path) -> None:
    """The first server that starts finds its port used by a redis-server of another program, which answers as well."""
    program = tmp_path / "server"
    other = f"redis-server --bind 127.0.0.1 --dir {tmp_path} --save ''"
    program.write_text(f"""#!/bin/sh
        [ "$1" != --version ] || exec redis-server --version
        mkdir {tmp_path}/taken 2>/dev/null || exec redis-server "$@"
        {other} --port "$6" --daemonize yes --pidfile {tmp_path}/pid >/dev/null
        # The other server listens before it writes its pid file.
        until [ -s {tmp_path}/pid ]; do sleep 0.01; done
        exec redis-server "$@"
    """)
    program.chmod(0o755)
    command = [*COMMAND, rig, "--json", "--until-stdin-closes"]
    environment = {**os.environ, "STEADLOCK_SERVER_SYSTEM": str(program)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as it:
        assert it.stdout
        description = json.loads(it.stdout.readline())
        other_pid = int((tmp_path / "pid").read_text())
        assert other_pid not in [node["pid"] for node in description["nodes"]]
        for node in description["nodes"]:
            with redis.Redis(port=node["port"]) as store:
                assert store.info("server")["process_id"] == node["pid"]
        it.communicate("")
    os.kill(other_pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "arguments", [[], ["mainframe"], ["standalone", "--server", "5.0"], ["tls", "--server", "8.2"]]
)
def test_unknown_arguments_print_the_usage(arguments: list[str]) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert "usage: " in ended.stderr
    assert ended.stdout == ""


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
