"""What leftovers.py finds when a command has ended."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("leftovers.py")
#: Starts a process in a session of its own that outlives the shell, and prints its id once it runs.
LEAVE_ONE = "setsid sleep 300 >/dev/null 2>&1 & echo $!"

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


def run(script: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(PROGRAM), "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""


def test_the_commands_status_is_passed_on() -> None:
    assert run("exit 0").returncode == 0
    assert run("exit 3").returncode == 3


@on_linux
def test_a_process_that_outlives_the_command_is_named_and_ended() -> None:
    ended = run(LEAVE_ONE)
    assert ended.returncode == 1
    assert f"process {ended.stdout.strip()} outlived the command: sleep 300" in ended.stderr
    assert not is_alive(int(ended.stdout))


@on_linux
def test_a_failed_command_keeps_its_status_whatever_it_leaves() -> None:
    ended = run(f"{LEAVE_ONE}; exit 3")
    assert ended.returncode == 3
    assert not is_alive(int(ended.stdout))


@on_linux
def test_a_process_that_ends_within_the_grace_is_no_leftover() -> None:
    assert run("setsid sleep 0.3 >/dev/null 2>&1 &").returncode == 0


@on_linux
def test_processes_of_others_are_left_alone() -> None:
    with subprocess.Popen(["sleep", "300"]) as other:
        try:
            assert run("exit 0").returncode == 0
            assert other.poll() is None
        finally:
            other.kill()
