"""Tests both runs of the demonstration, and the code of docs/fencing.md."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest
import redis

from run import A_ADDS, B_ADDS, HERE, START, embedded_server, play

GUIDE = (HERE.parent.parent / "docs" / "fencing.md").read_text()


def snippets(language: str) -> list[str]:
    """Returns the guide's blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def url() -> Iterator[str]:
    with embedded_server() as url:
        yield url


def test_without_a_token_a_late_write_overwrites_the_newer_one(url: str) -> None:
    reports: list[str] = []
    assert play(url, fenced=False, report=reports.append) == START + A_ADDS
    assert reports[-2:] == ["A writes 110", "A learns too late that its lease was lost"]


def test_with_a_token_a_late_write_is_refused_and_nothing_is_lost(url: str) -> None:
    reports: list[str] = []
    assert play(url, fenced=True, report=reports.append) == START + A_ADDS + B_ADDS
    assert "A is refused: the account has a higher token; starts again" in reports
    assert "A writes 110" not in reports


def test_the_late_writer_had_checked_its_lease(url: str) -> None:
    reports: list[str] = []
    play(url, fenced=False, report=reports.append)
    assert reports[0].startswith("A has the lock")
    assert reports[0].endswith("its lease is valid")
    assert reports[1] == "A is stopped"


def test_the_demonstration_succeeds() -> None:
    result = subprocess.run(
        [sys.executable, str(HERE / "run.py")], capture_output=True, text=True, timeout=150, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "came to 110: 25 are lost" in result.stdout
    assert "came to 135: nothing is lost" in result.stdout


def test_the_guide_s_sql_accepts_each_token_once_and_refuses_lower_ones() -> None:
    column, update, several = snippets("sql")
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER)")
    database.execute("INSERT INTO account VALUES (7, 100)")
    database.execute(column)
    written = [
        database.execute(update, {"id": 7, "balance": balance, "token": token}).rowcount
        for balance, token in [(110, 5), (125, 9), (111, 8), (126, 9)]
    ]
    assert written == [1, 1, 0, 0]
    assert database.execute("SELECT balance, fence FROM account").fetchone() == (125, 9)

    database.execute("CREATE TABLE fences (name TEXT PRIMARY KEY, token BIGINT)")
    database.execute("INSERT INTO fences VALUES ('account:7', 0)")
    tokens = [5, 5, 4]
    assert [database.execute(several, {"name": "account:7", "token": token}).rowcount for token in tokens] == [1, 1, 0]


def test_the_guide_s_script_refuses_a_lower_token(url: str) -> None:
    (script,) = snippets("lua")
    with redis.Redis.from_url(url, decode_responses=True) as store:
        # The tokens of two grants one microsecond apart, as high as tokens will be in this century.
        low, high = 2**52, 2**52 + 1
        answers = [
            store.eval(script, 2, "{account:7}:data", "{account:7}:fence", data, token)
            for data, token in [("first", low), ("second", high), ("late", low), ("third", high)]
        ]
        assert answers == [1, 1, 0, 1]
        assert store.get("{account:7}:data") == "third"


def test_the_guide_s_class_refuses_a_lower_token() -> None:
    (program,) = snippets("python")
    names: dict[str, object] = {}
    exec(program, names)
    guarded = names["Guarded"]
    assert isinstance(guarded, type)
    value = guarded("old")
    assert [value.write("x", token) for token in (5, 9, 8, 9)] == [True, True, False, True]
