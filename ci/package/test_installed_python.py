"""Tests the Python package of dist/: in a virtual environment that has nothing else, it runs the README's example."""

import sys
from pathlib import Path

import pytest

from building import DIST, TARGET
from installing import (
    ATTEMPTS,
    HERE,
    MOST_FOR_IMPORT,
    MOST_FOR_LOCK,
    best,
    built,
    failed,
    five_lines,
    output_of,
    with_rust,
)
from platforms import this_platform
from table import ran
from version import version

MEASURED = """
import json, sys, time
start = time.perf_counter()
import steadlock
loaded = time.perf_counter()
with steadlock.connect(sys.argv[1]) as client, client.lock("first"):
    locked = time.perf_counter()
print(json.dumps({"import": (loaded - start) * 1e3, "lock": (locked - loaded) * 1e3}))
"""

DAEMONS = """
import sys, threading, time, steadlock
client = steadlock.connect(sys.argv[1])
def work():
    while True:
        with client.lock(f"of {threading.get_ident()}"):
            pass
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""


@pytest.fixture
def python(empty: dict[str, str], tmp_path: Path) -> Path:
    """A Python in a new virtual environment with pip."""
    output_of([sys.executable, "-m", "venv", "venv"], tmp_path, empty)
    return tmp_path / "venv" / "bin" / "python"


@pytest.fixture
def with_wheel(python: Path, empty: dict[str, str], tmp_path: Path) -> Path:
    """The same Python with the wheel and nothing else."""
    wheels = ["--no-index", "--find-links", str(DIST / "python"), f"steadlock=={version()}"]
    output_of([python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *wheels], tmp_path, empty)
    return python


def test_python_needs_only_the_wheel(url: str, empty: dict[str, str], with_wheel: Path, tmp_path: Path) -> None:
    assert "fencing token" in output_of([with_wheel, "-c", five_lines("python", url)], tmp_path, empty)
    # At the end of these processes, daemon threads are inside the native library, and Python unwinds their stacks.
    for _ in range(ATTEMPTS):
        output_of([with_wheel, "-c", DAEMONS, url], tmp_path, empty)
    ran(DIST / "python" / f"steadlock-{version()}-cp311-abi3-{this_platform().wheel}.whl", HERE)


@pytest.mark.timing
def test_python_acquires_its_first_lock_quickly(
    url: str, empty: dict[str, str], with_wheel: Path, tmp_path: Path
) -> None:
    took = best([with_wheel, "-c", MEASURED, url], tmp_path, empty)
    print(f"Python: {took}")
    assert took["import"] < MOST_FOR_IMPORT
    assert took["lock"] < MOST_FOR_LOCK


def test_a_native_library_that_cannot_be_loaded_is_reported(
    empty: dict[str, str], with_wheel: Path, tmp_path: Path
) -> None:
    (native,) = (tmp_path / "venv").glob("lib/*/site-packages/steadlock/_native*.so")
    native.write_bytes(b"of another system")
    error = failed([with_wheel, "-c", "import steadlock"], tmp_path, empty)
    assert "ImportError: steadlock: its native library cannot be loaded here: " in error
    assert "install it with pip on this one" in error
    native.unlink()
    error = failed([with_wheel, "-c", "import steadlock.aio"], tmp_path, empty)
    assert "ModuleNotFoundError: steadlock: its native library, steadlock._native, is not beside" in error


# This test compiles the sources as users do, which takes long.
@pytest.mark.timeout(1_800)
def test_pip_builds_the_sources_where_rust_is_installed(
    url: str, empty: dict[str, str], python: Path, tmp_path: Path
) -> None:
    sources = built("python", "*.tar.gz")
    surroundings = with_rust(empty) | {"CARGO_TARGET_DIR": str(TARGET / "sources")}
    output_of([python, "-m", "pip", "install", "--quiet", sources], tmp_path, surroundings)
    assert "fencing token" in output_of([python, "-c", five_lines("python", url)], tmp_path, empty)
    ran(sources, HERE)
