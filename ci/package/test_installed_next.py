"""Tests the Node package of dist/ in a route handler of Next.js, as its README shows."""

import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hosts import NEXT
from installing import add_packages_of_others, five_lines, node_packages, output_of
from npm import PACKAGE
from table import ran

README = PACKAGE / "README.md"
#: The longest time for a start or a response.
DEADLINE_S = 60

# Each test builds an app, which takes long on few processors.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def surroundings(empty: dict[str, str], url: str) -> dict[str, str]:
    return empty | {"NEXT_TELEMETRY_DISABLED": "1", "STEADLOCK_URL": url, "HOSTNAME": "127.0.0.1"}


@pytest.fixture
def app(node_project: Path, url: str) -> Path:
    """A folder with Next.js, the Node package, and the two files that the README shows."""
    add_packages_of_others(node_project)
    for name in ("next.config.mjs", "app/sell/route.js"):
        (node_project / name).parent.mkdir(parents=True, exist_ok=True)
        (node_project / name).write_text(five_lines("javascript", url, f"// {name}\n", README))
    return node_project


def next_(*words: str) -> list[str | Path]:
    return ["node", "node_modules/next/dist/bin/next", *words]


@contextmanager
def started(command: list[str | Path], folder: Path, surroundings: dict[str, str]) -> Iterator[int]:
    """Runs a server on a free port while the context is open, and yields the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=surroundings | {"PORT": str(port)}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def token(port: int, folder: Path) -> int:
    """Calls the route, and returns the token in its response."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/sell", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            found = re.fullmatch(r'\{"token":(\d+)\}', answer.read().decode())
    except OSError as error:
        raise AssertionError(f"{error}: {(folder / 'log').read_text()}") from error
    assert found
    return int(found[1])


def test_a_route_handler_acquires_a_lock(app: Path, surroundings: dict[str, str]) -> None:
    output_of(next_("build"), app, surroundings)
    with started(next_("start", "--hostname", "127.0.0.1"), app, surroundings) as port:
        assert token(port, app) < token(port, app)
    for tarball in node_packages():
        ran(tarball, NEXT)


@pytest.mark.parametrize("bundler", ["turbopack", "webpack"])
def test_a_standalone_server_has_the_native_library(
    bundler: str, app: Path, surroundings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Next.js makes such a server for containers with `output: 'standalone'`."""
    config = app / "next.config.mjs"
    config.write_text(config.read_text().replace("{", "{\n  output: 'standalone',", 1))
    output_of(next_("build", f"--{bundler}"), app, surroundings)
    folder = tmp_path_factory.mktemp("app") / "server"
    shutil.copytree(app / ".next" / "standalone", folder, symlinks=True)
    with started(["node", "server.js"], folder, surroundings) as port:
        assert token(port, folder) < token(port, folder)
