"""Runs the demo with both versions of Spring Boot and both databases, and checks that no program or file stays behind.

Also tests the health and metrics of the service, and that the checks of the demo find each problem.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from buyers import ALREADY, BOUGHT, BUSY, SOLD_OUT, Answers, buy, connection, send_order
from display import Voucher, find_problems
from processes import HERE, Service, free_port, postgresql, postgresql_programs, redis_server, service
from run import REQUESTS, STOCK, voucher

BOOTS = ["3", "4"]
TIMEOUT = 30.0


@pytest.fixture
def place() -> Iterator[Path]:
    """Yields a folder that the database's user can pass through. At the end, the folder must be empty."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder
        assert list(folder.iterdir()) == []


class Demo:
    """A run of the demo. Each of its programs has `place` in its command, its environment or its working directory."""

    def __init__(self, place: Path, *options: str) -> None:
        self.place = place
        env = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(HERE / "run.py"), *options],
            env=env | {"TMPDIR": str(place)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()

    def until(self, text: str) -> None:
        """Reads the output until it contains `text`."""
        assert self.process.stdout
        while text not in self.output:
            line = self.process.stdout.readline()
            assert line, f"the demo ended without {text!r}: {self.output}"
            self.output += line

    def end(self) -> int:
        """Waits for the end of the run, and returns its exit status."""
        rest, _ = self.process.communicate(timeout=300)
        self.output += rest
        print(self.output)
        return self.process.returncode

    def programs(self) -> list[int]:
        """Returns the ids of all running processes of this run, even of those whose parents have ended."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            traces = ""
            # redis-server overwrites its command and its environment. For a program of another user, such as the
            # database, only the command may be readable.
            with contextlib.suppress(OSError):
                traces += (folder / "cmdline").read_text(errors="replace")
                traces += str((folder / "cwd").readlink())
                traces += (folder / "environ").read_text(errors="replace")
            if str(self.place) in traces:
                found.append(int(folder.name))
        return found


@pytest.mark.parametrize(("boot", "database"), [("4", "postgresql"), ("3", "h2")])
def test_only_the_lock_outside_the_transaction_lets_nobody_buy_twice(boot: str, database: str, place: Path) -> None:
    with Demo(place, "--boot", boot, "--database", database) as demo:
        assert demo.end() == 0
        double = re.findall(r"double orders +(\d+)", demo.output)
        assert len(double) == 3
        without, inside, outside = map(int, double)
        assert without > 0
        assert inside > 0
        assert outside == 0
        assert demo.programs() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_early_leaves_no_process_and_no_file(number: signal.Signals, place: Path) -> None:
    with Demo(place) as demo:
        demo.until("no lock: http")
        # At least the runner, redis-server, the database and two instances.
        assert len(demo.programs()) >= 5
        demo.process.send_signal(number)
        assert demo.end() == 130
        assert demo.programs() == []


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        # As in a run, the user of the database must be able to pass through the folder.
        Path(name).chmod(0o711)
        yield Path(name)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_for(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not reached():
        assert time.monotonic() < deadline, f"not within {TIMEOUT:.0f} s: {what}"
        time.sleep(0.1)


def health(instance: Service) -> str:
    status, body = get(f"{instance.url}/actuator/health")
    health = str(json.loads(body)["status"])
    assert (status == 200) == (health == "UP")
    return health


@pytest.mark.parametrize("boot", BOOTS)
def test_health_follows_redis_and_prometheus_gets_the_user_locks(boot: str, folder: Path) -> None:
    # The port must stay free while Redis is down, so it is outside the range of all other tests.
    port = free_port(9_000, 10_000)
    with service("one", folder, boot, {"steadlock.url": f"redis://127.0.0.1:{port}"}) as instance:
        with redis_server(folder, port):
            instance.wait_until_up()
            assert health(instance) == "UP"
            assert buy([instance.url], [7, 8], 2, on_progress=print).counts[BOUGHT] == 2
            wait_for(lambda: granted(instance) == 2, "both grants are in the page")
            page = get(f"{instance.url}/actuator/prometheus")[1]
            assert re.search(r'^steadlock_wait_seconds_count\{.*group="user"', page, re.MULTILINE)
            assert re.search(r'^steadlock_waiting\{.*group="user"', page, re.MULTILINE)
        wait_for(lambda: health(instance) == "DOWN", "health is down without Redis")
        with redis_server(folder, port):
            wait_for(lambda: health(instance) == "UP", "health is up with Redis again")


def granted(instance: Service) -> float:
    """Returns how often locks of users were granted, according to the metrics."""
    page = get(f"{instance.url}/actuator/prometheus")[1]
    found = re.findall(
        r'^steadlock_acquisitions_total\{.*group="user".*outcome="granted".*\} (.+)$', page, re.MULTILINE
    )
    return sum(map(float, found))


def test_each_result_has_its_status_and_its_body(folder: Path) -> None:
    properties = {"steadlock.url": "memory://", "seckill.stock": "1"}
    with service("one", folder, "4", properties) as instance:
        instance.wait_until_up()

        def order(user: str | None, voucher: int = 1) -> tuple[int, str]:
            headers = {"X-User": user} if user is not None else {}
            request = urllib.request.Request(
                f"{instance.url}/vouchers/{voucher}/orders", method="POST", headers=headers
            )
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, str(json.loads(error.read())["title"])

        status, body = order("7")
        assert status == 201
        bought = json.loads(body)
        assert bought["user"] == 7
        assert bought["token"] > 0
        assert int(bought["id"]) > 2**53, "the id is too large for a JavaScript number, so it is a string"
        assert order("7") == (409, ALREADY)
        assert order("8") == (410, SOLD_OUT)
        assert order("8", voucher=2) == (404, "no such voucher")
        assert order(None)[0] == 400
        assert order("nobody")[0] == 400
        assert voucher(instance.url) == Voucher(1, 0, 1, 0)


def test_a_sale_whose_token_is_below_the_highest_seen_of_its_user_is_refused(folder: Path) -> None:
    # Higher than any token of this century.
    later = 2**53 - 1
    with postgresql(folder) as databases, redis_server(folder) as redis:
        url, user = databases("fenced")
        properties = {"steadlock.url": redis, "spring.datasource.url": url, "spring.datasource.username": user}
        with service("one", folder, "4", properties) as instance:
            instance.wait_until_up()
            statement = f"INSERT INTO user_fences (user_id, token) VALUES (7, {later})"
            where = url.removeprefix("jdbc:").replace("//", f"//{user}@")
            subprocess.run([postgresql_programs() / "psql", "-q", "-c", statement, where], check=True)
            with connection(instance.url) as shop:
                status, body, _ = send_order(shop, 7)
                assert (status, body["title"]) == (412, "superseded")
                assert voucher(instance.url).orders == 0
                # The check compares only tokens of the same user.
                status, body, _ = send_order(shop, 8)
                assert status == 201
                assert 0 < int(str(body["token"])) < later


def test_an_unknown_variant_stops_the_start_and_names_the_property(folder: Path) -> None:
    with service("one", folder, "4", {"steadlock.url": "memory://", "seckill.variant": "sideways"}) as instance:
        assert instance.process.wait(TIMEOUT) == 1
    assert "seckill.variant" in instance.log.read_text()


def good(variant: str = "outside") -> tuple[Answers, Voucher]:
    counts = Counter({BOUGHT: STOCK, BUSY: 900, ALREADY: 300, SOLD_OUT: REQUESTS - STOCK - 1200})
    return Answers(counts), Voucher(STOCK, 0, STOCK, 0 if variant == "outside" else 3)


def test_the_check_accepts_good_runs() -> None:
    for variant in ("none", "inside", "outside"):
        assert find_problems(variant, *good(variant), REQUESTS) == []


def test_the_check_notices_a_double_order() -> None:
    answers, _ = good()
    assert find_problems("outside", answers, Voucher(STOCK, 0, STOCK, 1), REQUESTS) == ["1 double orders"]


def test_the_check_notices_a_double_order_that_only_the_constraint_found() -> None:
    answers, sold = good()
    answers.found_late = 1
    assert find_problems("outside", answers, sold, REQUESTS) == ["1 double orders were found only by the constraint"]


def test_the_check_notices_that_no_damage_was_found() -> None:
    answers, _ = good()
    assert find_problems("none", answers, Voucher(STOCK, 0, STOCK, 0), REQUESTS) == [
        "no double order occurred, so the demo shows nothing"
    ]


def test_the_check_notices_a_wrong_stock() -> None:
    answers, _ = good()
    answers.counts[BOUGHT] += 1
    answers.counts[BUSY] -= 1
    assert find_problems("outside", answers, Voucher(STOCK, 0, STOCK + 1, 0), REQUESTS) == [
        f"of {STOCK} vouchers {STOCK + 1} were sold and 0 are left"
    ]


@pytest.mark.parametrize("answer", [BUSY, ALREADY, SOLD_OUT])
def test_the_check_notices_an_order_without_an_answer(answer: str) -> None:
    answers, sold = good()
    missing = answers.counts.pop(answer)
    answers.counts[SOLD_OUT if answer == BUSY else BUSY] += missing
    assert find_problems("outside", answers, sold, REQUESTS) == [f"no answer was: {answer}"]


def test_the_check_notices_an_unknown_answer() -> None:
    answers, sold = good()
    answers.counts[BUSY] -= 1
    answers.unexpected.append("500 {}")
    assert find_problems("outside", answers, sold, REQUESTS) == ["unexpected: 500 {}"]
