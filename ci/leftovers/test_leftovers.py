"""Tests that leftovers.py finds every process that outlives a command, and kills it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("leftovers.py")
#: Starts a process in a new session, which outlives the shell, and prints its id.
LEAVE_ONE = "setsid sleep 300 >/dev/null 2>&1 & echo $!"

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="leftovers.py reads /proc")


def command(script: str) -> list[str]:
    return [sys.executable, str(PROGRAM), "sh", "-c", script]


def run(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(script), capture_output=True, text=True, check=False)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""


def test_the_commands_status_is_passed_on() -> None:
    assert run("exit 0").returncode == 0
    assert run("exit 3").returncode == 3
    assert run("kill -9 $$").returncode == 128 + signal.SIGKILL


@on_linux
def test_a_process_that_outlives_the_command_is_named_and_ended() -> None:
    ended = run(LEAVE_ONE)
    assert ended.returncode == 1
    assert f"process {ended.stdout.strip()} outlived the command: sleep 300" in ended.stderr
    assert not is_alive(int(ended.stdout))


@on_linux
def test_a_process_is_found_for_any_environment_and_depth() -> None:
    ended = run(f"env -i sh -c '{LEAVE_ONE}' & wait; env -i sh -c 'sh -c \"sleep 301 & sleep 302\" &'")
    assert ended.returncode == 1
    found = [line.partition("command: ")[2] for line in ended.stderr.splitlines() if ": sleep" in line]
    # The lines are in the order of process ids, which is not always the order of the starts.
    assert sorted(found) == ["sleep 300", "sleep 301", "sleep 302"]


@on_linux
def test_a_nested_run_hides_no_leftover() -> None:
    inner = f"{sys.executable} {PROGRAM} true"
    assert run(f"{inner}; {LEAVE_ONE}").returncode == 1


@on_linux
def test_a_failed_command_keeps_its_status_also_with_leftovers() -> None:
    ended = run(f"{LEAVE_ONE}; exit 3")
    assert ended.returncode == 3
    assert not is_alive(int(ended.stdout))


@on_linux
def test_a_process_that_ends_within_the_grace_is_no_leftover() -> None:
    assert run("setsid sleep 0.3 >/dev/null 2>&1 &").returncode == 0


@on_linux
def test_the_process_id_of_an_ended_orphan_is_freed_while_the_command_runs() -> None:
    script = (
        "pid=$(setsid sh -c 'echo $$; exec sleep 0.1 >/dev/null 2>&1' & wait); "
        "while [ -e /proc/$pid ]; do sleep 0.02; done; echo gone"
    )
    assert run(script).stdout == "gone\n"


@on_linux
def test_a_signal_ends_the_command_and_its_processes() -> None:
    with subprocess.Popen(command(f"{LEAVE_ONE}; sleep 300"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
    assert not is_alive(pid)


@on_linux
def test_processes_of_others_are_left_alone() -> None:
    with subprocess.Popen(["sleep", "300"]) as other:
        try:
            assert run("exit 0").returncode == 0
            assert other.poll() is None
        finally:
            other.kill()
