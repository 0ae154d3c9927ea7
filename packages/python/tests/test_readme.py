"""Runs the programs of the README on servers of the tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import RedisServer

README = Path(__file__).parent.parent / "README.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_snippets_of_the_readme_run(server: RedisServer, snippet: str) -> None:
    with RedisServer() as two, RedisServer() as three:
        servers = {"localhost": server, "one": server, "two": two, "three": three}
        program = re.sub(r"redis://(\w+):6379", lambda found: servers[found[1]].url, snippet)
        assert server.url in program
        run(program)


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "token" in done.stdout


def test_there_are_snippets_for_threads_and_for_asyncio() -> None:
    assert len(SNIPPETS) >= 2
