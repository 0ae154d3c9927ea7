"""What README.md and SECURITY.md say is run as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis

import leasehold
from programs import JARS, ROOT, Server, java

README = (ROOT / "README.md").read_text()
SECURITY = (ROOT / "SECURITY.md").read_text()


def snippets(language: str, server: Server) -> list[str]:
    """The README's blocks of one language, on the test's server."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert blocks, f"README.md has no {language}"
    return [block.replace("redis://localhost:6379", server.url) for block in blocks]


def command(server: Server, *words: str) -> object:
    return server.store.execute_command(*words)  # type: ignore[no-untyped-call]


def output_of(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


def test_the_readme_s_python_runs(server: Server, tmp_path: Path) -> None:
    for snippet in snippets("python", server):
        assert "fencing token 1" in output_of([sys.executable, "-c", snippet], tmp_path)


def test_the_readme_s_javascript_runs(server: Server) -> None:
    for snippet in snippets("js", server):
        command = ["node", "--input-type=module", "--eval", snippet]
        assert "fencing token 1" in output_of(command, ROOT / "examples" / "seckill" / "node")


def test_the_readme_s_java_runs(server: Server, tmp_path: Path) -> None:
    for snippet in snippets("java", server):
        program = (
            "import io.leasehold.*;\n"
            f"class Snippet {{ public static void main(String[] args) throws Exception {{\n{snippet}}} }}\n"
        )
        (tmp_path / "Snippet.java").write_text(program)
        assert "fencing token 1" in output_of([java(), "-cp", f"{JARS}/*", "Snippet.java"], tmp_path)


@pytest.fixture
def limited_url(server: Server) -> str:
    """The URL of a user with the rights that SECURITY.md gives, and no others."""
    match = re.search(r"^ACL SETUSER (\w+) on >PASSWORD (.*)$", SECURITY, re.MULTILINE)
    assert match, "SECURITY.md has no ACL rule"
    command(server, "ACL", "SETUSER", match[1], "reset", "on", ">secret", *match[2].split())
    return server.url.replace("redis://", f"redis://{match[1]}:secret@")


def test_the_rights_in_security_md_are_enough(server: Server, limited_url: str) -> None:
    command(server, "ACL", "LOG", "RESET")
    with leasehold.connect(limited_url) as holder, leasehold.connect(limited_url) as waiter:
        first = holder.lock("orders:1").try_acquire()
        assert first is not None
        assert waiter.lock("orders:1").try_acquire(wait=0.2) is None
        assert waiter.lock("orders:1").locked()
        first.extend()
        first.release()
        second = waiter.lock("orders:1").try_acquire(wait=5)
        assert second is not None
        second.release()
    assert command(server, "ACL", "LOG") == []


def test_the_rights_in_security_md_are_enough_for_every_kind(server: Server, limited_url: str) -> None:
    command(server, "ACL", "LOG", "RESET")
    with leasehold.connect(limited_url) as holder, leasehold.connect(limited_url) as other:
        locks = [
            (client.mutex("orders:2"), client.fair_lock("orders:3"), client.read_write_lock("orders:4").write)
            for client in (holder, other)
        ]
        for held, waiting in zip(*locks, strict=True):
            first = held.try_acquire()
            assert first is not None
            assert waiting.try_acquire(wait=0.2) is None
            first.extend()
            assert waiting.locked()
            first.release()
            second = waiting.try_acquire(wait=5)
            assert second is not None
            assert other.force_release(waiting)
            assert second.release() == "expired"
        read = holder.read_write_lock("orders:4").read
        with read:
            assert read.locked()
        with holder.semaphore("orders:5", 2) as permit:
            assert other.semaphore("orders:5", 2).available() == 1
            permit.extend()
        with holder.multi_lock([holder.lock("orders:6"), holder.mutex("orders:7")]):
            assert other.lock("orders:6").try_acquire() is None
    assert command(server, "ACL", "LOG") == []


def test_a_name_outside_those_rights_is_refused_with_an_error(limited_url: str) -> None:
    with leasehold.connect(limited_url) as client, pytest.raises(leasehold.LeaseholdError):
        client.lock("payments:1").try_acquire()


def test_the_rights_do_not_reach_other_keys(limited_url: str) -> None:
    with redis.Redis.from_url(limited_url) as store, pytest.raises(redis.exceptions.NoPermissionError):
        store.get("payments:1")
