"""Checks that agreement.py finds every problem of the metrics."""

import http.server
import sys
import threading
from collections.abc import Iterator

import pytest

import agreement
import run
from agreement import EXPECTED, NEVER, SERVER, Row, problems
from display import Tally
from scrapes import Page, Scrapes

GRANTED = {"kind": "lock", "group": "seckill", "outcome": "granted"}
SHIFT = {"kind": "mutex", "group": "seckill"}


class Client:
    """The metrics of a client that sold 3 vouchers, turned 2 users away, and found the stock empty once."""

    def __init__(self) -> None:
        self.page = Page({row.name: row.type for row in agreement.table("client")})
        self.page.series = {name: {} for name in self.page.types}
        self.put("steadlock_acquisitions_total", 6, **GRANTED)
        self.put("steadlock_acquisitions_total", 1, **SHIFT, outcome="granted")
        self.put("steadlock_acquisitions_total", 0, **SHIFT, outcome="timed_out")
        self.put("steadlock_wait_seconds_count", 7, **SHIFT)
        self.put("steadlock_hold_seconds_count", 6, **SHIFT)
        self.put("steadlock_held", 1, **SHIFT)
        self.put("steadlock_waiting", 0, **SHIFT)
        self.put("steadlock_renewals_total", 2, **SHIFT, outcome="renewed")
        self.put("steadlock_losses_total", 0, **SHIFT, reason="expired")

    def put(self, series: str, number: float, **labels: str) -> None:
        name = series.removesuffix("_count")
        text = ",".join(f'{label}="{value}"' for label, value in labels.items())
        self.page.series[name][f"{series.removeprefix(name)}{{{text}}}"] = number

    def earlier(self) -> Page:
        """A scrape in the middle of the sale."""
        waiting = {'{kind="lock",group="seckill"}': 7.0}
        return Page(self.page.types, self.page.series | {"steadlock_waiting": waiting})


class Run:
    """A correct run of one language and its server."""

    def __init__(self) -> None:
        self.client = Client()
        self.tally = Tally(sold=3, refused=2, grants=6)
        self.sold = 3
        self.server = Page({row.name: row.type for row in agreement.table("server")})
        self.server.series = {name: {f"{{{EXPECTED[name].label}}}": 1} for name in self.server.types}
        self.server.series["steadlock_server_commands_total"] = {'{command="evalsha"}': 14, '{command="get"}': 11}

    def problems(self) -> list[str]:
        pages = {"node": [self.client.earlier(), self.client.page], SERVER: [self.server]}
        return problems(pages, {"node": self.tally}, {"node": self.sold})


def test_a_good_run_has_no_problems() -> None:
    assert Run().problems() == []


def test_every_metric_of_the_table_has_a_rule() -> None:
    assert set(EXPECTED) == {row.name for part in ("client", "server") for row in agreement.table(part)}


def test_a_new_metric_of_the_table_without_a_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case, table = Run(), agreement.table
    monkeypatch.setattr(agreement, "table", lambda part: [*table(part), Row("steadlock_new", "gauge")])
    assert case.problems()[0] == "steadlock_new is in metrics.json, but not in EXPECTED"
    assert any("node and metrics.json do not have the same metrics" in problem for problem in case.problems())


def test_a_metric_that_the_table_does_not_have_is_noticed() -> None:
    case = Run()
    case.server.types["steadlock_server_new"] = "gauge"
    case.server.series["steadlock_server_new"] = {}
    assert "steadlock_server_new" in case.problems()[0]


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if expected.rule.name == "POSITIVE"])
def test_a_missing_value_is_noticed(name: str) -> None:
    case = Run()
    page = case.server if name in case.server.types else case.client.page
    page.series[name] = dict.fromkeys(page.series[name], 0)
    if name == "steadlock_waiting":
        case.client.earlier = lambda: case.client.page  # type: ignore[method-assign]
    assert any(problem.startswith(EXPECTED[name].of(name) + " of ") for problem in case.problems())


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if expected is NEVER])
def test_a_value_that_should_be_zero_is_noticed(name: str) -> None:
    case = Run()
    case.client.put(name, 1, link="calls")
    assert case.problems() == [f"{name} of node was not zero at every scrape"]


def test_an_unexpected_outcome_is_noticed() -> None:
    case = Run()
    case.client.put("steadlock_renewals_total", 1, **SHIFT, outcome="failed")
    assert case.problems() == ['steadlock_renewals_total of node was not zero apart from outcome="renewed"']


def test_a_counter_that_falls_is_noticed() -> None:
    case = Run()
    earlier = case.client.earlier()
    earlier.series["steadlock_renewals_total"] = {'{kind="mutex",group="seckill",outcome="renewed"}': 3}
    case.client.earlier = lambda: earlier  # type: ignore[method-assign]
    assert case.problems() == ["steadlock_renewals_total of node fell"]


def test_grants_that_differ_from_those_of_the_service_are_noticed() -> None:
    case = Run()
    case.tally.grants = 7
    assert case.problems() == ["node acquired the lock 7 times, and counted 6"]


def test_more_sales_than_grants_are_noticed() -> None:
    case = Run()
    case.sold = 5
    assert case.problems() == ["node sold 5, and was granted the lock 6 times"]


def test_a_wait_or_a_hold_that_was_not_counted_is_noticed() -> None:
    for name in ("steadlock_wait_seconds_count", "steadlock_hold_seconds_count"):
        case = Run()
        case.client.put(name, 5, **SHIFT)
        (problem,) = [problem for problem in case.problems() if "acquisitions" in problem]
        assert problem.startswith("node: 7 acquisitions, ")


def test_a_grant_that_the_server_did_not_make_is_noticed() -> None:
    case = Run()
    case.server.series["steadlock_server_commands_total"]['{command="evalsha"}'] = 11
    assert case.problems() == ["the server ran 11 scripts for 6 grants"]


def test_a_caller_that_waits_for_ever_is_noticed() -> None:
    case = Run()
    case.client.put("steadlock_waiting", 1, **SHIFT)
    assert case.problems() == ["node still waits for a lock at the end"]


@pytest.fixture
def not_metrics() -> Iterator[str]:
    """Yields the URL of a server that answers without metrics."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()


def test_a_page_that_cannot_be_read_is_noticed(not_metrics: str) -> None:
    scrapes = Scrapes()
    scrapes.add("node", not_metrics)
    scrapes.finish(lambda _: False)
    assert scrapes.problems == ["the metrics of node could not be read: ValueError('status 200 with nothing')"]


def test_metrics_that_do_not_agree_fail_the_demo(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setitem(EXPECTED, "steadlock_held", NEVER)
    monkeypatch.setattr("scrapes.TIMEOUT", 0.5)
    monkeypatch.setattr(sys, "argv", ["case.py", "--stock", "200", "--users", "200"])
    assert run.main() == 1
    printed = capfd.readouterr().out
    assert "metrics       do not agree with that" in printed
    assert "wrong: steadlock_held of python was not zero at every scrape" in printed
