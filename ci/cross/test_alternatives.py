"""Tests the SQL of docs/alternatives.md unchanged, on SQLite and on PostgreSQL."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from programs import OUTPUT_TIMEOUT, ROOT, wait_until

PAGE = (ROOT / "docs" / "alternatives.md").read_text()
STATEMENTS = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
ON_POSTGRES = "-- PostgreSQL\n"
STOCK, BUYERS, ATTEMPTS = 100, 4, 50


def statement(text: str) -> str:
    """Returns the only block of the page that has this text."""
    (found,) = [block for block in STATEMENTS if text in block]
    return str(found)


TABLES = statement("CREATE TABLE voucher")
ORDER_ONCE = statement("ON CONFLICT")
SELL_ONE = statement("AND stock > 0")
CHANGE = statement("AND version = :version")
UNDER_ROW_LOCK = statement("WHERE id = :voucher FOR UPDATE")
UNDER_ADVISORY_LOCK = statement("pg_advisory_xact_lock")
NEXT_JOB = statement("SKIP LOCKED")


def test_every_statement_of_the_page_has_a_test() -> None:
    everywhere, postgres = [TABLES, ORDER_ONCE, SELL_ONE, CHANGE], [UNDER_ROW_LOCK, UNDER_ADVISORY_LOCK, NEXT_JOB]
    assert [block for block in STATEMENTS if not block.startswith(ON_POSTGRES)] == everywhere
    assert [block for block in STATEMENTS if block.startswith(ON_POSTGRES)] == postgres


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database with one voucher and one document."""
    with closing(open_database(tmp_path)) as database:
        database.executescript(TABLES)
        database.execute("INSERT INTO voucher VALUES (7, ?)", [STOCK])
        database.execute("INSERT INTO document VALUES (1, 'first', 1)")
        yield database


def open_database(folder: Path) -> sqlite3.Connection:
    # With this isolation level, each statement is a separate transaction.
    return sqlite3.connect(folder / "shop.db", timeout=OUTPUT_TIMEOUT, isolation_level=None)


def test_a_second_order_of_a_user_changes_no_row(database: sqlite3.Connection) -> None:
    orders = [{"order": number, "user": user, "voucher": 7} for number, user in enumerate([42, 42, 43])]
    assert [database.execute(ORDER_ONCE, order).rowcount for order in orders] == [1, 0, 1]


def test_concurrent_conditional_updates_sell_exactly_the_stock(database: sqlite3.Connection, tmp_path: Path) -> None:
    sold = [0] * BUYERS

    def buy(buyer: int) -> None:
        with closing(open_database(tmp_path)) as connection:
            for _ in range(ATTEMPTS):
                sold[buyer] += connection.execute(SELL_ONE, {"voucher": 7}).rowcount

    run_at_once(partial(buy, buyer) for buyer in range(BUYERS))
    assert BUYERS * ATTEMPTS > STOCK
    assert sum(sold) == STOCK
    assert database.execute("SELECT stock FROM voucher").fetchone() == (0,)


def test_an_update_of_an_old_version_changes_no_row(database: sqlite3.Connection) -> None:
    changes = [{"document": 1, "body": body, "version": 1} for body in ("second", "late")]
    assert [database.execute(CHANGE, change).rowcount for change in changes] == [1, 0]
    assert database.execute("SELECT body, version FROM document").fetchone() == ("second", 2)


def run_at_once(tasks: Iterable[Callable[[], object]]) -> None:
    """Runs each task on a thread. Fails if one of them does."""
    with ThreadPoolExecutor() as threads:
        for running in [threads.submit(task) for task in tasks]:
            running.result()


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL server with the tables of the page, and the folder of its socket."""

    programs: Path
    folder: str

    def command(self, **parameters: object) -> Sequence[str]:
        """Returns the command of a `psql` that runs the statements on its stdin with these parameters."""
        values = [f"--set={name}={value}" for name, value in parameters.items()]
        options = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1", *values]
        return [str(self.programs / "psql"), *options, f"--host={self.folder}", "--username=postgres"]

    def run(self, statements: str, **parameters: object) -> str:
        command = self.command(**parameters)
        done = subprocess.run(
            command, input=statements, check=True, capture_output=True, text=True, timeout=OUTPUT_TIMEOUT
        )
        return done.stdout.strip()

    @contextmanager
    def session(self) -> Iterator["subprocess.Popen[str]"]:
        with subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
            yield session
            assert session.stdin
            session.stdin.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    assert programs, "this machine has no PostgreSQL: run `ci/install postgresql`"
    with tempfile.TemporaryDirectory() as folder:
        # PostgreSQL refuses to run as root.
        user = "postgres" if os.geteuid() == 0 else None
        if user:
            shutil.chown(folder, user, user)
        data = f"{folder}/data"
        setting_up: list[str | Path] = [
            programs[-1] / "initdb",
            "--username=postgres",
            "--auth=trust",
            "--no-sync",
            f"--pgdata={data}",
        ]
        subprocess.run(setting_up, check=True, capture_output=True, cwd=folder, user=user, group=user)
        running: list[str | Path] = [
            programs[-1] / "postgres",
            "-D",
            data,
            "-k",
            folder,
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
        ]
        with subprocess.Popen(running, stderr=subprocess.DEVNULL, cwd=folder, user=user, group=user) as process:
            try:
                server = Postgres(programs[-1], folder)
                ready = [*server.command(), "--command=SELECT 1"]
                wait_until("PostgreSQL answers", lambda: subprocess.run(ready, capture_output=True).returncode == 0)
                server.run(TABLES)
                yield server
            finally:
                # SIGINT ends PostgreSQL at once, with all sessions.
                process.send_signal(signal.SIGINT)


@pytest.fixture
def shop(postgres: Postgres) -> Postgres:
    """A database with one voucher and two jobs."""
    postgres.run("TRUNCATE orders, voucher, document, job")
    postgres.run(f"INSERT INTO voucher VALUES (7, {STOCK}); INSERT INTO job VALUES (1, 'one'), (2, 'two')")
    return postgres


def test_the_statements_for_every_database_work_on_postgresql(shop: Postgres) -> None:
    for number in (1, 2):
        shop.run(ORDER_ONCE + SELL_ONE, order=number, user=42, voucher=7)
    shop.run("INSERT INTO document VALUES (1, 'first', 1)")
    for body in ("second", "late"):
        shop.run(CHANGE.replace(":body", ":'body'"), body=body, document=1, version=1)
    output = shop.run("SELECT count(*) FROM orders; SELECT stock FROM voucher; SELECT body, version FROM document")
    assert output.splitlines() == ["1", str(STOCK - 2), "second|2"]


def test_a_row_lock_blocks_a_second_reader_until_the_commit(shop: Postgres) -> None:
    read, write = UNDER_ROW_LOCK.split("UPDATE voucher")
    read, write = (text.replace(":voucher", "7") for text in (read, f"UPDATE voucher{write}"))
    with shop.session() as one, shop.session() as other:
        assert send(one, read, answers=1) == [str(STOCK)]
        send(other, read)
        wait_until("the second session waits", lambda: shop.run(WAITING) == "1")
        send(one, write.replace(":left", str(STOCK - 1)))
        # The second session reads the value that the first one has written.
        assert send(other, answers=1) == [str(STOCK - 1)]
        send(other, write.replace(":left", str(STOCK - 2)))
    assert shop.run("SELECT stock FROM voucher") == str(STOCK - 2)


def test_an_advisory_lock_blocks_a_second_one_until_the_commit(shop: Postgres) -> None:
    begin, write = UNDER_ADVISORY_LOCK.split("INSERT")
    with shop.session() as one:
        # The result of the lock's function is printed as an empty line.
        assert send(one, begin, answers=1) == [""]
        second = threading.Thread(
            target=shop.run, args=[UNDER_ADVISORY_LOCK], kwargs={"order": 2, "user": 43, "voucher": 7}
        )
        second.start()
        wait_until("the second session waits", lambda: shop.run(WAITING) == "1")
        assert shop.run("SELECT count(*) FROM orders") == "0"
        values = {":order": "1", ":user": "42", ":voucher": "7"}
        send(one, "INSERT" + re.sub(r":\w+", lambda found: values[found[0]], write))
        second.join()
    assert shop.run("SELECT id FROM orders ORDER BY id").split() == ["1", "2"]


def test_two_workers_get_different_jobs_before_either_commits(shop: Postgres) -> None:
    with shop.session() as first:
        assert send(first, f"BEGIN; {NEXT_JOB}", answers=1) == ["1|one"]
        assert shop.run(NEXT_JOB) == "2|two"
        assert shop.run(NEXT_JOB) == ""
    # The first session ended without a commit, so its job is available again once the server has noticed that.
    wait_until("the first job is available", lambda: shop.run(NEXT_JOB) == "1|one")


#: Counts the sessions that wait for a lock of another session.
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def send(session: "subprocess.Popen[str]", statements: str = "", answers: int = 0) -> list[str]:
    """Sends statements to a session, and returns this number of lines of its output."""
    assert session.stdin
    assert session.stdout
    print(statements, file=session.stdin, flush=True)
    return [session.stdout.readline().rstrip("\n") for _ in range(answers)]
