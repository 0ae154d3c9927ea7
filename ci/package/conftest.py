"""Fixtures for tests of packages."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import local_repository
from building import unpack
from command import archive
from installing import node_packages, npm_install
from platforms import this_platform


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked command."""
    folder = tmp_path_factory.mktemp("command")
    unpack(archive(this_platform()), folder)
    (found,) = folder.glob("*/steadlock")
    return found


@pytest.fixture(scope="session")
def served(program: Path) -> Iterator[tuple[str, str]]:
    """The URLs of a `steadlock serve`, for Redis clients and for HTTP clients."""
    command = [str(program), "serve", "--port", "0", "--http", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        redis, http = (process.stdout.readline().split()[-1] for _ in range(2))
        yield redis, http
        process.terminate()


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local Maven repository with third-party artifacts and none of ours."""
    return local_repository.without_ours(tmp_path_factory.mktemp("m2"))


@pytest.fixture(scope="session")
def url(served: tuple[str, str]) -> str:
    """The URL for Redis clients."""
    return served[0]


@pytest.fixture
def empty(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has installed nothing of ours."""
    kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME") if key in os.environ}
    home = tmp_path / "home"
    home.mkdir()
    return kept | {"HOME": str(home)}


@pytest.fixture
def node_project(empty: dict[str, str], tmp_path: Path) -> Path:
    """A folder with the Node package and the package of this platform."""
    npm_install(tmp_path, empty, *node_packages())
    return tmp_path
