"""Tests of the metrics of a client, in the format of Prometheus."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from servers import RedisServer
from test_forks import in_child

import steadlock
from steadlock import aio


def number(text: str, name: str, **labels: str) -> float:
    """Returns the sum of a metric's samples that have these labels."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(
        sample.value for sample in samples if sample.name == name and labels.items() <= dict(sample.labels).items()
    )


def reaches(text: Callable[[], str], name: str, least: float, **labels: str) -> None:
    """Waits until a number has reached `least`."""
    end = time.monotonic() + 20
    while number(text(), name, **labels) < least:
        assert time.monotonic() < end, text()
        time.sleep(0.01)


def test_a_client_counts_its_calls(url: str) -> None:
    with steadlock.connect(url, metrics=True, key_prefix="shop:") as client:
        with client.lock("stock:42"):
            assert number(client.metrics(), "steadlock_held", kind="lock", group="stock") == 1
            assert not attempt_in_another_thread(client)
        with client.semaphore("report", 3):
            pass
    text = client.metrics()
    acquisitions = "steadlock_acquisitions_total"
    assert number(text, acquisitions, kind="lock", group="stock", outcome="granted") == 1
    assert number(text, acquisitions, kind="lock", group="stock", outcome="timed_out") == 1
    assert number(text, acquisitions, kind="semaphore", group="none", outcome="granted") == 1
    assert number(text, "steadlock_wait_seconds_count", group="stock") == 2
    assert number(text, "steadlock_wait_seconds_sum", group="stock") >= 0.25
    assert number(text, "steadlock_hold_seconds_count") == 2
    assert number(text, "steadlock_held") == number(text, "steadlock_waiting") == 0
    assert "stock:" not in text
    assert "shop" not in text


def attempt_in_another_thread(client: steadlock.Client) -> bool:
    """Returns whether another thread gets the lock within 250 ms."""
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(client.lock("stock:42").acquire(timeout=0.25)))
    thread.start()
    thread.join()
    return got[0]


async def test_an_aio_client_counts_its_calls(url: str) -> None:
    async with aio.connect(url, metrics=True) as client:

        async def other() -> None:
            await client.lock("stock:42").acquire()

        async with client.lock("stock:42"):
            waiter = asyncio.create_task(other())
            async with asyncio.timeout(20):
                # No notification reports a changed count, so this code polls.
                while number(client.metrics(), "steadlock_waiting", group="stock") < 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
    text = client.metrics()
    for outcome in ("granted", "cancelled"):
        assert number(text, "steadlock_acquisitions_total", kind="lock", group="stock", outcome=outcome) == 1
    assert number(text, "steadlock_hold_seconds_count", kind="lock", group="stock") == 1


def test_losses_and_reconnects_are_counted(own_server: RedisServer) -> None:
    with steadlock.connect(own_server.url, metrics=True, lease=4) as client:
        lease = client.lock("stock:1").try_acquire()
        reaches(client.metrics, "steadlock_renewals_total", 1, outcome="renewed", group="stock")
        own_server.kill()
        own_server.start()
        reaches(client.metrics, "steadlock_losses_total", 1, kind="lock", group="stock", reason="removed")
        reaches(client.metrics, "steadlock_reconnects_total", 1, link="calls")
        assert lease is not None
        assert lease.lost_reason == "removed"


def test_groups_beyond_the_cap_count_as_other() -> None:
    with steadlock.connect("memory://", metrics=True, metrics_groups=2) as client:
        for group in "abcd":
            with client.lock(f"{group}:1"):
                pass
        counts = {
            group: number(client.metrics(), "steadlock_acquisitions_total", group=group, outcome="granted")
            for group in ("a", "b", "c", "d", "other")
        }
    assert counts == {"a": 1, "b": 1, "c": 0, "d": 0, "other": 2}


def test_metrics_that_are_off_name_the_option() -> None:
    with steadlock.connect("memory://") as client, pytest.raises(steadlock.InvalidArgumentError, match="metrics"):
        client.metrics()


def test_invalid_options_are_refused() -> None:
    for groups in (0, -1, 10_001, 10**400):
        with pytest.raises(steadlock.InvalidArgumentError, match="groups"):
            steadlock.connect("memory://", metrics=True, metrics_groups=groups)
    with pytest.raises(steadlock.InvalidArgumentError, match="metrics are off"):
        steadlock.connect("memory://", metrics_groups=10)
    for metrics, most in ((1, None), (True, 1.5), (True, True), (True, "10")):
        with pytest.raises(TypeError, match="metrics"):
            steadlock.connect("memory://", metrics=metrics, metrics_groups=most)  # type: ignore[arg-type]


def test_the_child_of_a_fork_counts_from_zero(server: RedisServer) -> None:
    with steadlock.connect(server.url, metrics=True) as client:

        def granted() -> float:
            return number(client.metrics(), "steadlock_acquisitions_total", outcome="granted")

        with client.lock("stock:1"):
            pass

        def work() -> None:
            assert granted() == 0
            with client.lock("stock:2"):
                pass
            assert granted() == 1

        in_child(work)
        assert granted() == 1
