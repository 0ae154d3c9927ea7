"""The programs of docs/migrate run as they stand there, before and after against each other on one server.

`sell()`, which they call inside the lock, tells the test that it is inside and waits until it may leave.
"""

import queue
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from peers import CLASS_PATH, HERE, ROOT, java
from server import Server

PAGES = ROOT / "docs" / "migrate"
KEYS = {
    "redis-py": "stock:42",
    "node-redlock": "stock:42",
    "redis-semaphore": "mutex:stock:42",
    "redisson": "stock:42",
    "spring-redis-lock-registry": "orders:stock:42",
}
# What stands before or around a page's program.
PYTHON = """
def sell():
    print("inside", flush=True)
    input()

"""
NODE = """
import { once } from 'node:events';
async function sell() {
  console.log('inside');
  await once(process.stdin, 'data');
  process.stdin.destroy();
}
"""
JAVA = """
class Snippet {{
    static void sell() throws Exception {{
        System.out.println("inside");
        System.in.read();
    }}
    public static void main(String[] arguments) throws Exception {{
{body}
    }}
}}
"""


def programs(page: str) -> tuple[str, str, str]:
    """The language of a page, and its programs before and after."""
    text = (PAGES / f"{page}.md").read_text()
    found = re.findall(r"^## (Before|After)\n\n```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert [when for when, _, _ in found] == ["Before", "After"], f"{page}.md has other programs"
    (_, language, before), (_, _, after) = found
    return language, before, after


class Program:
    """A program of a page, run with a `sell()` that waits for the test."""

    def __init__(self, language: str, source: str, server: Server, folder: Path) -> None:
        self.process = subprocess.Popen(
            _command(language, source.replace("6379", server.url.rsplit(":", 1)[1]), folder),
            cwd=HERE / "node",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def is_inside(self) -> bool:
        return not self._said.empty()

    def enters(self) -> None:
        assert self._said.get(timeout=60) == "inside"

    def leave(self) -> None:
        assert self.process.stdin
        print(file=self.process.stdin, flush=True)

    def ends_well(self) -> None:
        assert self.process.wait(timeout=60) == 0

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._said.put(line.strip())
        self._said.put("it ended")


def _command(language: str, source: str, folder: Path) -> list[str]:
    if language == "python":
        return [sys.executable, "-c", PYTHON + source]
    if language == "js":
        return ["node", "--input-type=module", "--eval", NODE + source]
    folder.mkdir()
    lines = source.splitlines()
    imports = [line for line in lines if line.startswith("import ")]
    body = "\n".join(line for line in lines if line not in imports)
    (folder / "Snippet.java").write_text("\n".join(imports) + JAVA.format(body=body))
    return [java(), "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH, str(folder / "Snippet.java")]


@pytest.mark.parametrize("order", ["old_first", "new_first"])
@pytest.mark.parametrize("page", KEYS)
def test_the_programs_of_a_page_exclude_each_other(server: Server, tmp_path: Path, page: str, order: str) -> None:
    language, before, after = programs(page)
    one, other = (before, after) if order == "old_first" else (after, before)
    running: list[Program] = []

    def start(source: str) -> Program:
        running.append(Program(language, source, server, tmp_path / str(len(running))))
        return running[-1]

    try:
        first = start(one)
        first.enters()
        assert server.record(KEYS[page])
        server.waits(lambda: start(other))
        second = running[-1]
        assert not second.is_inside()
        first.leave()
        second.enters()
        first.ends_well()
        assert server.record(KEYS[page])
        second.leave()
        second.ends_well()
        assert server.record(KEYS[page]) is None
    finally:
        for program in running:
            program.stop()


def test_every_page_has_its_programs_run() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} == set(KEYS)
