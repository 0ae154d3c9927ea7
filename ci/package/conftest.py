"""What the tests of installed packages share."""

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from building import DIST
from platforms import here


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, unpacked."""
    folder = tmp_path_factory.mktemp("command")
    (archive,) = (DIST / "command").glob(f"*-linux-{here().machine}.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (found,) = folder.glob("*/leasehold")
    return found


@pytest.fixture(scope="session")
def url(program: Path) -> Iterator[str]:
    """Where `leasehold serve` listens."""
    command = [str(program), "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().split()[-1]
        process.terminate()


@pytest.fixture
def empty(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who has nothing of ours."""
    kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME") if key in os.environ}
    home = tmp_path / "home"
    home.mkdir()
    return kept | {"HOME": str(home)}
