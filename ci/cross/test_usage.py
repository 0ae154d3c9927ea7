"""Runs the programs of docs/usage.md unchanged, and tests the statements of its text."""

import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

import steadlock
from programs import JARS, JVM_FLAGS, OUTPUT_TIMEOUT, ROOT, Server, java, listening, wait_until
from redis_server import redis_process

PAGE = (ROOT / "docs" / "usage.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
SERVER = "redis://localhost:6379"
HTTP_PORT = "8080"
# The code around a Java program of the page.
JAVA = """
import com.sun.net.httpserver.HttpServer;
import io.github.steadlock.*;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.Executors;
class Snippet {{
    static void order(String user, Long token) {{
        System.out.println("order of " + user);
    }}
    static void sell() {{
        System.out.println("sold");
    }}
    public static void main(String[] arguments) throws Exception {{
{body}
    }}
}}
"""
NAMES, THREADS_OF_A_NAME = 5, 10
TOKEN = "steadlock:{stock:42}:token"


def program(language: str, first_words: str, url: str) -> str:
    """Returns the only program of the page that has these words, with the URL of the test's server."""
    (found,) = [source for of, source in BLOCKS if of == language and first_words in source]
    return str(found).replace(SERVER, url)


def java_command(source: str, folder: Path) -> list[str]:
    (folder / "Snippet.java").write_text(JAVA.format(body=source))
    return [java(), *JVM_FLAGS, "-cp", f"{JARS}/*", str(folder / "Snippet.java")]


def test_every_program_of_the_page_has_a_test() -> None:
    assert [language for language, _ in BLOCKS] == ["python", "java", "java"]


def test_an_auto_renewed_lease_outlasts_the_work_and_a_fixed_one_does_not(server: Server) -> None:
    source = program("python", "report", server.url)
    output = subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert output.splitlines() == ["renewed: valid", "fixed: expired"]
    for line in output.splitlines():
        assert f"`{line}`" in PAGE


@contextmanager
def service(url: str, folder: Path) -> Iterator[str]:
    """Runs the page's service while the context is open, and yields its URL."""
    source = program("java", "createContext", url)
    with listening(lambda port: java_command(source.replace(HTTP_PORT, str(port)), folder)) as port:
        yield f"http://127.0.0.1:{port}"


def order(address: str, user: str) -> tuple[int, str | None]:
    """Sends an order. Returns the status of the response and its `Retry-After`."""
    request = urllib.request.Request(f"{address}/orders/{user}", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=OUTPUT_TIMEOUT) as answer:
            return answer.status, answer.headers["Retry-After"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Retry-After"]


def test_the_service_of_the_page_distinguishes_busy_from_unavailable(tmp_path: Path) -> None:
    with redis_process() as server, service(server.url, tmp_path) as address:
        with steadlock.connect(server.url) as client, client.lock("order:42"):
            assert order(address, "42") == (409, "1")
            assert order(address, "43") == (201, None)
        assert order(address, "42") == (201, None)
        server.process.kill()
        assert order(address, "42") == (503, "1")


def run_the_program_that_locks_before_try(server: Server, folder: Path) -> "subprocess.CompletedProcess[str]":
    command = java_command(program("java", "before `try`", server.url), folder)
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_program_that_locks_before_try_reports_why_it_was_not_granted(server: Server, tmp_path: Path) -> None:
    with steadlock.connect(server.url) as client, client.lock("stock:42"):
        refused = run_the_program_that_locks_before_try(server, tmp_path)
    assert refused.returncode != 0
    assert "io.github.steadlock.LockTimeoutException" in refused.stderr
    assert "IllegalMonitorState" not in refused.stderr
    assert "sold" not in refused.stdout
    granted = run_the_program_that_locks_before_try(server, tmp_path)
    assert (granted.returncode, granted.stdout) == (0, "sold\n")


def test_a_client_has_three_connections_for_any_number_of_waiting_threads(server: Server) -> None:
    def connections() -> int:
        return int(server.store.info("clients")["connected_clients"])

    names = [f"crowd:{number}" for number in range(NAMES)]
    with steadlock.connect(server.url) as holder:
        for name in names:
            assert holder.lock(name).acquire()
        before = connections()
        with steadlock.connect(server.url) as client:

            def work(name: str) -> None:
                with client.lock(name):
                    pass

            threads = [threading.Thread(target=work, args=[name]) for name in names * THREADS_OF_A_NAME]
            for thread in threads:
                thread.start()
            wait_until("every name has a waiter", lambda: all(server.subscribers(name) for name in names))
            assert connections() == before + 3
            for name in names:
                holder.lock(name).release()
            for thread in threads:
                thread.join()
            assert connections() == before + 3


def test_a_grant_whose_answer_comes_too_late_is_released() -> None:
    """A caller that receives `Unavailable` does not hold the lock."""
    with (
        redis_process() as server,
        redis.Redis(port=server.port) as store,
        steadlock.connect(server.url, command_timeout=1) as client,
    ):
        lock = client.lock("stock:42")
        with lock:
            token = store.get(TOKEN)
        # The call remains in the stopped server's buffer. The server grants it later, when no caller waits for the
        # reply.
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(steadlock.UnavailableError):
            lock.try_acquire()
        server.process.send_signal(signal.SIGCONT)
        wait_until("the lock is granted", lambda: store.get(TOKEN) != token)
        wait_until("the grant is released", lambda: not store.exists("stock:42"))
        assert lock.try_acquire()
