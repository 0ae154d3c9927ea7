"""Tests of the programs of `docs/python.md` for Django: the lock is held until the transaction has ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import RedisServer

DOCUMENT = Path(__file__).parents[4] / "docs" / "python.md"

BEFORE = """
import django
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
django.setup()
"""

AFTER = """
other = steadlock.connect()

def is_held():
    return other.lock("stock:42").locked()

def check(*_):
    assert is_held()
    assert transaction.get_connection().in_atomic_block

CALL
assert not is_held()
print("free after the commit")
"""

CALLS = {
    "def order": "sell = check\nassert order(HttpRequest(), 42).status_code == 201",
    "durable": "sell(42)",
    "on_commit": """
with transaction.atomic():
    begin_to_sell(42)
    check()
""",
}


@pytest.mark.parametrize("what", CALLS)
def test_a_lock_is_held_until_the_transaction_has_ended(server: RedisServer, what: str) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    (program,) = [program for program in programs if what in program]
    if what == "durable":
        # The program must call a check, because the test needs to look at the state inside the transaction.
        program = program.replace("-> None: ...", "-> None: check()")
    whole = BEFORE + program + AFTER.replace("CALL", CALLS[what])
    environment = {**os.environ, "STEADLOCK_URL": server.url}
    command = [sys.executable, "-c", whole]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "free after the commit\n", "")
