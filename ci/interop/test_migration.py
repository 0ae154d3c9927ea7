"""Runs the programs of docs/migrate unchanged: the one before and the one after a migration, against each other.

The programs call `sell()` inside the lock. Here it reports to the test that the program is inside, and waits until the
test resumes it.
"""

import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import steadlock
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
# One page has three pairs of programs. The programs of the last pair do not wait for the lock.
HAND_WRITTEN = "hand-written"
HAND_WRITTEN_KEYS = {"HashLock": "stock:42", "SetNxLock": "stock:42", "SimpleRedisLock": "lock:order:42"}
HAND_WRITTEN_WAITING = ["HashLock", "SetNxLock"]
# The page of each pair of programs, its number on the page, and the key of its lock.
WAITING = [
    *(pytest.param(page, 0, key, id=page) for page, key in KEYS.items()),
    *(
        pytest.param(HAND_WRITTEN, number, HAND_WRITTEN_KEYS[name], id=name)
        for number, name in enumerate(HAND_WRITTEN_WAITING)
    ),
]
# The code before or around a page's program.
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


@dataclass(frozen=True)
class Pair:
    """The programs before and after a migration, and their language."""

    language: str
    before: str
    after: str


def pairs(page: str) -> list[Pair]:
    text = (PAGES / f"{page}.md").read_text()
    found = re.findall(r"^##+ (Before|After)\n\n```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert [when for when, _, _ in found] == ["Before", "After"] * (len(found) // 2), f"{page}.md has other programs"
    return [
        Pair(language, before, after)
        for (_, language, before), (_, _, after) in zip(found[::2], found[1::2], strict=True)
    ]


class Program:
    """A program of a page, run with a `sell()` that waits for the test."""

    def __init__(self, language: str, source: str, server: Server, folder: Path) -> None:
        self.process = subprocess.Popen(
            _command(language, source.replace("6379", server.url.rsplit(":", 1)[1]), folder),
            cwd=HERE / "node",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._output: queue.Queue[str] = queue.Queue()
        self._errors: list[str] = []
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_output, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def is_inside(self) -> bool:
        return not self._output.empty()

    def wait_until_inside(self) -> None:
        assert self._output.get(timeout=60) == "inside"

    def resume(self) -> None:
        assert self.process.stdin
        print(file=self.process.stdin, flush=True)

    def wait_for_success(self) -> None:
        assert self._wait() == 0

    def wait_for_failure(self) -> str:
        """Waits until the program fails, and returns the type of the exception that a JVM prints."""
        assert self._wait() != 0
        thrown = re.search(r"^Exception in thread \"main\" ([\w.]+)", "".join(self._errors), re.MULTILINE)
        assert thrown
        return thrown[1]

    def has_been_inside(self) -> bool:
        """Whether the program was inside before it ended. It must have ended already."""
        return self._output.get_nowait() == "inside"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read_output(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._output.put(line.strip())
        self._output.put("the program has ended")

    def _read_errors(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self._errors.append(line)
            sys.stderr.write(line)

    def _wait(self) -> int:
        code = self.process.wait(timeout=60)
        for reader in self._readers:
            reader.join()
        return code


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


@pytest.fixture
def start(server: Server, tmp_path: Path) -> Iterator[Callable[[str, str], Program]]:
    """A function that starts a program in a language. All programs are stopped at the end."""
    running: list[Program] = []

    def start(language: str, source: str) -> Program:
        running.append(Program(language, source, server, tmp_path / str(len(running))))
        return running[-1]

    yield start
    for program in running:
        program.stop()


in_both_orders = pytest.mark.parametrize("order", ["old_first", "new_first"])


def in_order(pair: Pair, order: str) -> tuple[str, str]:
    return (pair.before, pair.after) if order == "old_first" else (pair.after, pair.before)


@in_both_orders
@pytest.mark.parametrize(("page", "number", "key"), WAITING)
def test_the_programs_of_a_page_exclude_each_other(
    server: Server, start: Callable[[str, str], Program], page: str, number: int, key: str, order: str
) -> None:
    pair = pairs(page)[number]
    one, other = in_order(pair, order)
    first = start(pair.language, one)
    first.wait_until_inside()
    assert server.record(key)
    seconds = list[Program]()
    server.begin_wait(lambda: seconds.append(start(pair.language, other)))
    second = seconds[0]
    assert not second.is_inside()
    first.resume()
    second.wait_until_inside()
    first.wait_for_success()
    assert server.record(key)
    second.resume()
    second.wait_for_success()
    assert server.record(key) is None


@in_both_orders
def test_a_seckill_program_is_refused_while_the_other_holds_the_lock(
    server: Server, start: Callable[[str, str], Program], order: str
) -> None:
    pair, key = pairs(HAND_WRITTEN)[-1], HAND_WRITTEN_KEYS["SimpleRedisLock"]
    one, other = in_order(pair, order)
    first = start(pair.language, one)
    first.wait_until_inside()
    record = server.record(key)
    refused = start(pair.language, other)
    refused.wait_for_success()
    assert not refused.has_been_inside()
    assert server.record(key) == record
    first.resume()
    first.wait_for_success()
    second = start(pair.language, other)
    second.wait_until_inside()
    assert server.record(key) not in (None, record)
    second.resume()
    second.wait_for_success()
    assert server.record(key) is None


def test_an_unlock_in_finally_after_a_failed_attempt_throws_and_keeps_the_holder(
    server: Server, start: Callable[[str, str], Program]
) -> None:
    text = (PAGES / f"{HAND_WRITTEN}.md").read_text()
    found = re.search(r"^### A `finally` .*?^```java\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found
    key = HAND_WRITTEN_KEYS["SimpleRedisLock"]
    with steadlock.connect(server.url) as client:
        lease = client.mutex(key).try_acquire()
        assert lease
        program = start("java", found[1])
        assert program.wait_for_failure() == "java.lang.IllegalMonitorStateException"
        assert not program.has_been_inside()
        assert lease.release() == "released"
    program = start("java", found[1])
    program.wait_until_inside()
    program.resume()
    program.wait_for_success()


def test_the_hand_written_locks_of_the_page_are_those_of_the_tests() -> None:
    for name, pair in zip(HAND_WRITTEN_KEYS, pairs(HAND_WRITTEN), strict=True):
        source = (HERE / "jvm" / "src" / "main" / "java" / f"{name}.java").read_text()
        assert source[source.index(f"class {name} ") :] in pair.before


def test_the_programs_of_every_page_have_tests() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} == {*KEYS, HAND_WRITTEN}
    assert all(len(pairs(page)) == 1 for page in KEYS)
