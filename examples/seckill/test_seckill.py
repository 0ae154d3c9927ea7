"""Runs the demo, and checks that its audit finds the damage of a broken lock. test_agreement.py tests the metrics."""

import json
import os
import subprocess
import sys
from pathlib import Path

import redis

from audit import audit_sales
from redis_server import free_port, redis_server

HERE = Path(__file__).resolve().parent
LANGUAGES = ["python", "node", "jvm"]


def demo(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    command = [sys.executable, str(HERE / "run.py")]
    result = subprocess.run(command, env=clean | env, capture_output=True, text=True, timeout=150, check=False)
    print(result.stdout, result.stderr)
    return result


def test_the_stock_is_sold_exactly_on_the_embedded_server() -> None:
    result = demo({})
    assert result.returncode == 0
    assert "oversold      0\ndouble sales  0\n" in result.stdout
    assert "metrics       agree with that" in result.stdout


def test_the_stock_is_sold_exactly_on_a_real_server_and_no_record_is_left() -> None:
    with redis_server() as url, redis.Redis.from_url(url, decode_responses=True) as store:
        result = demo({"REDIS_URL": url})
        assert result.returncode == 0
        assert "oversold      0\ndouble sales  0\n" in result.stdout
        # By design, the fencing token stays for a minute after a release, and the description of a client for 90 s.
        assert all(str(key).endswith((":token", ":client")) for key in store.scan_iter())


def test_a_server_that_cannot_be_reached_ends_the_demo_with_an_error() -> None:
    result = demo({"REDIS_URL": f"redis://user:secret@127.0.0.1:{free_port()}"})
    assert result.returncode == 1
    assert "does not answer" in result.stderr
    assert "secret" not in result.stdout + result.stderr


class Run:
    """A correct run: each sale is to another user, and the languages take turns."""

    def __init__(self) -> None:
        self.left = 0
        self.sales = {
            f"sale-{n}": {"user": f"user-{n}", "language": LANGUAGES[n % 3], "token": n + 1, "left": 5 - n}
            for n in range(6)
        }
        self.orders = {sale["user"]: name for name, sale in self.sales.items()}

    def problems(self) -> list[str]:
        texts = {name: json.dumps(sale) for name, sale in self.sales.items()}
        orders = {str(user): sale for user, sale in self.orders.items()}
        return audit_sales(6, self.left, texts, orders, LANGUAGES).problems


def test_the_audit_accepts_a_good_run() -> None:
    assert Run().problems() == []


def test_the_audit_notices_a_lost_update_of_the_stock() -> None:
    run = Run()
    run.sales["extra"] = {"user": "user-6", "language": "node", "token": 7, "left": 0}
    run.orders["user-6"] = "extra"
    assert run.problems() == [
        "1 more vouchers were sold than there were",
        "the stock did not fall by one with each sale",
    ]


def test_the_audit_notices_a_user_with_two_vouchers() -> None:
    run = Run()
    run.sales["sale-5"]["user"] = "user-4"
    assert "1 vouchers went to users that already had one" in run.problems()


def test_the_audit_notices_a_token_that_does_not_rise() -> None:
    run = Run()
    run.sales["sale-3"]["token"] = 3
    assert run.problems() == ["a fencing token did not rise"]


def test_the_audit_notices_a_language_that_sold_nothing() -> None:
    run = Run()
    for sale in run.sales.values():
        sale["language"] = "node"
    assert run.problems() == ["python sold nothing", "jvm sold nothing"]


def test_the_audit_notices_vouchers_that_were_not_sold() -> None:
    run = Run()
    run.left = 1
    del run.sales["sale-5"], run.orders["user-5"]
    assert "5 of 6 vouchers were sold, and 1 are left in the stock" in run.problems()
