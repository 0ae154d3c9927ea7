"""Tests of the metrics of several processes on one page."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import RedisServer, eventually
from test_forks import in_child
from test_metrics import number

import steadlock
from steadlock import aio
from steadlock.prometheus import SharedMetrics

GRANTED = "steadlock_acquisitions_total"
FAIR = "# HELP steadlock_fair_queue Callers.\n# TYPE steadlock_fair_queue gauge\n"
ENDED = 2**22 + 7
"""A process id that no process has, because it is above the system's maximum."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "metrics"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".prom")


def granted(metrics: SharedMetrics) -> float:
    return number(metrics.text(), GRANTED, outcome="granted")


def test_one_process_returns_the_metrics_of_its_client(folder: Path) -> None:
    with steadlock.connect("memory://", metrics=True) as client:
        metrics = SharedMetrics(client, folder)
        with client.lock("stock:1"), client.semaphore("report", 2):
            assert metrics.text() == client.metrics()
        assert metrics.text() == client.metrics()
        metrics.close()
        metrics.close()
    assert metrics.text() == client.metrics()


async def test_one_process_returns_the_metrics_of_its_aio_client(folder: Path) -> None:
    async with aio.connect("memory://", metrics=True) as client:
        metrics = SharedMetrics(client, str(folder))
        async with client.lock("stock:1"):
            assert number(metrics.text(), "steadlock_held", group="stock") == 1
        metrics.close()


def test_clients_of_one_process_are_summed(folder: Path) -> None:
    with steadlock.connect("memory://", metrics=True) as one, steadlock.connect("memory://", metrics=True) as two:
        metrics = [SharedMetrics(client, folder) for client in (one, two)]
        for client in (one, one, two):
            with client.lock("stock:1"):
                pass
        metrics[1].text()
        assert granted(metrics[0]) == 3
        assert number(metrics[0].text(), "steadlock_hold_seconds_count") == 3
        assert number(metrics[0].text(), "steadlock_hold_seconds_bucket", le="+Inf") == 3
        for each in metrics:
            each.close()


def test_ended_processes_keep_counters_and_lose_gauges(folder: Path, server: RedisServer) -> None:
    with steadlock.connect(server.url, metrics=True) as client:
        metrics = SharedMetrics(client, folder)
        with client.lock("stock:1"):
            pass

        def work() -> None:
            # The child counts from zero, and its page has the counts of all processes.
            assert client.lock(f"other:{os.getpid()}").try_acquire()
            assert number(client.metrics(), GRANTED, outcome="granted") == 1
            text = metrics.text()
            assert number(text, GRANTED, outcome="granted", group="stock") == 1
            assert number(text, "steadlock_held") == 1

        for children in range(1, 4):
            metrics.text()
            in_child(work)
            text = metrics.text()
            assert number(text, GRANTED, outcome="granted", group="other") == children
            assert number(text, GRANTED, outcome="granted", group="stock") == 1
            assert number(text, "steadlock_held") == 0
        # The parent has a file, and all ended processes share one.
        assert [name.partition("-")[0] for name in files(folder)] == [str(os.getpid()), "ended.prom"]
        metrics.close()


WORKER = """
import sys
import steadlock
from steadlock.prometheus import SharedMetrics

client = steadlock.connect("memory://", metrics=True)
metrics = SharedMetrics(client, sys.argv[1], every=0.1)
with client.lock("stock:1"):
    pass
lease = client.lock("stock:2").try_acquire()
print("counted", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_workers_write_periodically_and_at_exit(folder: Path, how: str) -> None:
    with steadlock.connect("memory://", metrics=True) as client:
        metrics = SharedMetrics(client, folder)
        command = [sys.executable, "-c", WORKER, str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdin is not None
            assert worker.stdout.readline() == "counted\n"
            # The worker's own thread writes its metrics.
            eventually(10, lambda: granted(metrics) == 2)
            assert number(metrics.text(), "steadlock_held") == 1
            if how == "kill":
                worker.kill()
            else:
                worker.stdin.close()
            worker.wait(30)
        assert granted(metrics) == 2
        assert number(metrics.text(), "steadlock_held") == 0
        metrics.close()


def test_gauges_of_the_server_are_not_summed(folder: Path) -> None:
    with steadlock.connect("memory://", metrics=True) as client:
        metrics = SharedMetrics(client, folder)
        for name, length in (("1" * 16, 3), ("2" * 16, 5)):
            (folder / f"{os.getpid()}-{name}.prom").write_text(f'{FAIR}steadlock_fair_queue{{queue="a"}} {length}\n')
        assert number(metrics.text(), "steadlock_fair_queue", queue="a") == 5
        metrics.close()


def test_an_interrupted_fold_counts_nothing_twice(folder: Path) -> None:
    counted = '# HELP steadlock_x_total X.\n# TYPE steadlock_x_total counter\nsteadlock_x_total{kind="a b"} 2.5\n'
    with steadlock.connect("memory://", metrics=True) as client:
        metrics = SharedMetrics(client, folder)
        ended = folder / f"{ENDED}-{'a' * 16}.prom"
        ended.write_text(counted)
        assert number(metrics.text(), "steadlock_x_total") == 2.5
        assert not ended.exists()
        # Simulates a process that was killed before it removed the file.
        ended.write_text(counted)
        for _ in range(2):
            assert number(metrics.text(), "steadlock_x_total") == 2.5
        assert not ended.exists()
        (folder / f"{ENDED}-{'b' * 16}.prom").write_text(counted)
        assert number(metrics.text(), "steadlock_x_total") == 5
        metrics.close()


def test_a_file_of_an_earlier_process_with_the_same_id_counts_as_ended(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / f"{os.getpid()}-{'a' * 16}.prom").write_text(
        "# TYPE steadlock_held gauge\nsteadlock_held 7\n# TYPE steadlock_x_total counter\nsteadlock_x_total 2\n"
    )
    with steadlock.connect("memory://", metrics=True) as client:
        metrics = SharedMetrics(client, folder)
        assert number(metrics.text(), "steadlock_held") == 0
        assert number(metrics.text(), "steadlock_x_total") == 2
        metrics.close()


def test_a_process_writes_again_after_its_folder_was_emptied(folder: Path) -> None:
    with steadlock.connect("memory://", metrics=True) as client:
        metrics = SharedMetrics(client, folder, every=0.1)
        for name in files(folder):
            (folder / name).unlink()
        eventually(10, lambda: len(files(folder)) == 1)
        metrics.close()


def test_invalid_use_is_refused(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with steadlock.connect("memory://") as client, pytest.raises(steadlock.InvalidArgumentError, match="metrics"):
        SharedMetrics(client, folder)
    with steadlock.connect("memory://", metrics=True) as client:
        for every in (0, 0.05, 61, float("nan"), float("inf")):
            with pytest.raises(steadlock.InvalidArgumentError, match="every is out of range"):
                SharedMetrics(client, folder, every=every)
        for arguments in (("client", folder), (client, 7), (client, None)):
            with pytest.raises(TypeError):
                SharedMetrics(*arguments)
        for place in (file, file / "below"):
            with pytest.raises(steadlock.MisconfiguredError, match="cannot be used") as caught:
                SharedMetrics(client, place)
            assert caught.value.operation == "inspect"
        metrics = SharedMetrics(client, folder)
        (folder / f"{os.getpid()}-{'c' * 16}.prom").write_text("no metrics at all\n")
        with pytest.raises(steadlock.MisconfiguredError, match="does not contain metrics; empty the folder"):
            metrics.text()
        metrics.close()


def test_shared_metrics_cannot_be_copied(folder: Path) -> None:
    with steadlock.connect("memory://", metrics=True) as client:
        metrics = SharedMetrics(client, folder)
        with pytest.raises(TypeError, match="SharedMetrics cannot be copied or pickled; make one in each process"):
            copy.copy(metrics)
        metrics.close()
