"""Tests that the metrics of OpenTelemetry are those of `ci/api/metrics.json`, with the numbers of the core."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from servers import RedisServer, eventually
from telemetry import Collected, Numbers, numbers_of
from test_metrics import reaches
from test_opentelemetry import each_call, in_thread

import steadlock

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[3] / "ci" / "api" / "metrics.json").read_text())
SET_LATER = """
import steadlock
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from steadlock.opentelemetry import instrument

one, two = (steadlock.connect("memory://", metrics=True) for _ in range(2))
instrument(one)
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
instrument(two)
for client in (one, two):
    with client.lock("stock:1"): pass
(scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
(acquisitions,) = [one for one in scope.metrics if one.name == "steadlock.acquisitions"]
assert sum(point.value for point in acquisitions.data.data_points) == 2, acquisitions
one.close(), two.close()
"""


@pytest.fixture
def collected() -> Collected:
    return Collected()


def of_the_core(text: str, row: dict[str, Any]) -> Numbers:
    """Returns the numbers of a row's metric from the core's text for Prometheus."""
    name = row["name"] + ("_count" if row["type"] == "histogram" else "")
    return {
        frozenset((f"steadlock.{label}", word) for label, word in sample.labels.items()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def at_one_moment(collected: Collected, client: steadlock.Client) -> tuple[dict[str, Any], str]:
    """Returns the metrics and the core's text, read without a change in between."""
    while True:
        text = client.metrics()
        found = collected.metrics()
        if client.metrics() == text:
            return found, text


def without(numbers: Numbers, label: str) -> Numbers:
    """Returns the sums of the numbers that differ only in this label."""
    sums: Numbers = {}
    for labels, number in numbers.items():
        key = frozenset(one for one in labels if one[0] != label)
        sums[key] = sums.get(key, 0) + number
    return sums


def test_every_metric_of_the_table_has_its_name_and_unit_and_the_cores_numbers(
    own_server: RedisServer, collected: Collected
) -> None:
    with steadlock.connect(
        own_server.url, metrics=True, metrics_queues=["hot"], breaker_failures=1, command_timeout=1
    ) as client:
        collected.instrument(client)
        with client.fair_lock("hot"):
            eventually(20, lambda: 'steadlock_fair_queue{queue="hot"} 0' in client.metrics())
        for acquire_and_release in each_call(client).values():
            acquire_and_release()
        with client.once("report:daily"):
            pass
        with client.lock('odd "group" of\\two\nlines\x85:1'):
            in_thread(lambda: client.lock('odd "group" of\\two\nlines\x85:1').acquire(timeout=0.25))
            client.lock("report").acquire()
        own_server.kill()
        with client.lock("stock:8", on_unavailable="local"):
            pass
        reaches(client.metrics, "steadlock_connect_failures_total", 1)
        found, text = at_one_moment(collected, client)
    assert set(found) == {row["otel"][0] for row in TABLE["client"]}
    for row in TABLE["client"]:
        name, unit = row["otel"]
        metric = found[name]
        data = json.loads(metric.to_json())["data"]
        assert (metric.unit, metric.description) == (unit, row["meaning"])
        assert data.get("is_monotonic") == {"counter": True, "gauge": False, "histogram": None}[row["type"]]
        numbers = numbers_of(metric)
        labels = {label for point in numbers for label, _ in point}
        extra = {"steadlock.outcome"} if row["name"] == "steadlock_wait_seconds" else set()
        assert labels == {f"steadlock.{label}" for label in row["labels"]} | extra, name
        expected = of_the_core(text, row)
        if row["type"] == "histogram":
            for point in data["data_points"]:
                assert point["explicit_bounds"] == TABLE["buckets"]
            # The core also has an empty histogram for each lock that was requested.
            expected = {point: number for point, number in expected.items() if number}
            numbers = without(numbers, "steadlock.outcome")
        assert numbers == expected, name
    for name in ("acquisitions", "held", "connections.lost", "connect.failures", "breakers.opened", "breakers.open"):
        assert sum(numbers_of(found[f"steadlock.{name}"]).values()) > 0, name


def test_group_names_can_contain_any_character() -> None:
    groups = {"a", 'a"b', "a\\", "a\\n", "a\nb", "a{b}", 'a",kind="', "a\x0b\u2028b", "ä"}
    with steadlock.connect("memory://", metrics=True) as client:
        for group in groups:
            with client.lock(f"{group}:1"):
                pass
        numbers = {metric[0]: metric[-1] for metric in client._connection.native.metric_rows()}
    assert {dict(labels)["group"] for labels in numbers["steadlock.held"]} == groups


def test_times_are_in_seconds(collected: Collected) -> None:
    with steadlock.connect("memory://", metrics=True) as client:
        collected.instrument(client)
        with client.lock("stock:1"):
            in_thread(lambda: client.lock("stock:1").acquire(timeout=0.25))
        found = collected.metrics()
    waited = {
        dict(point.attributes)["steadlock.outcome"]: point.sum
        for point in found["steadlock.wait.duration"].data.data_points
    }
    assert waited["granted"] > 0
    assert 0.25 <= waited["timed_out"] < 20
    (held,) = found["steadlock.hold.duration"].data.data_points
    assert 0.25 <= held.sum < 20
    assert dict(held.attributes) == {"steadlock.kind": "lock", "steadlock.group": "stock"}


def test_groups_beyond_the_cap_are_other_in_histograms_too(collected: Collected) -> None:
    with steadlock.connect("memory://", metrics=True, metrics_groups=2) as client:
        collected.instrument(client)
        for name in ("a:1", "b:1", "c:1", "d:1", "a:2", "c:2"):
            with client.lock(name):
                pass
        (row,) = [row for row in TABLE["client"] if row["name"] == "steadlock_hold_seconds"]
        assert collected.numbers("steadlock.hold.duration") == of_the_core(client.metrics(), row)


def test_refused_calls_add_no_groups(collected: Collected) -> None:
    with steadlock.connect("memory://", metrics=True) as client:
        collected.instrument(client)
        for number in range(5):
            with pytest.raises(steadlock.InvalidArgumentError):
                client.lock(f"{number}:1", lease=1e9).acquire()
        assert not collected.numbers("steadlock.wait.duration")
        assert not collected.numbers("steadlock.acquisitions")
    with pytest.raises(steadlock.ClosedError):
        client.lock("stock:1").acquire()
    assert not collected.numbers("steadlock.wait.duration")
    assert collected.outcomes() == ["refused"] * 5 + ["closed"]


def test_each_collection_reads_the_core_once(collected: Collected) -> None:
    with steadlock.connect("memory://", metrics=True) as client:
        collected.instrument(client)
        telemetry: Any = client._connection.telemetry
        reads: list[Any] = []

        def read() -> Any:
            reads.append(client._connection.native.metric_rows())
            return reads[-1]

        telemetry.counts._read = read
        for turn in (1, 2, 3):
            with client.lock("stock:1"):
                assert sum(collected.numbers("steadlock.acquisitions").values()) == turn
            assert len(reads) == turn


def test_clients_of_one_provider_count_together(collected: Collected) -> None:
    def granted() -> float:
        return sum(collected.numbers("steadlock.acquisitions").values())

    with steadlock.connect("memory://", metrics=True) as one:
        collected.instrument(one)
        with steadlock.connect("memory://", metrics=True) as two:
            collected.instrument(two)
            for client in (one, two, two):
                client.semaphore("stock", 5).acquire()
            assert granted() == 3
            assert sum(collected.numbers("steadlock.held").values()) == 3
        # A counter must not fall while other clients still count.
        assert granted() == 3
        assert sum(collected.numbers("steadlock.held").values()) == 1
    found = collected.metrics()
    assert set(found) <= {"steadlock.wait.duration", "steadlock.hold.duration"}


def test_a_dropped_client_is_not_counted(collected: Collected) -> None:
    client = steadlock.connect("memory://", metrics=True)
    collected.instrument(client)
    with client.lock("stock:1"):
        pass
    assert collected.numbers("steadlock.acquisitions")
    del client
    assert not collected.numbers("steadlock.acquisitions")


def test_the_global_provider_can_be_set_later() -> None:
    done = subprocess.run([sys.executable, "-c", SET_LATER], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
