"""Runs each of the README's two commands from nothing on a separate bare machine, and prints how long it took."""

import time

import pytest

from bare import enter, why_not

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3 * 3600),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

# Lists the tools on a machine after the demo, one on a line.
LIST_TOOLS = """
echo; echo left:
command -v redis-server
rustup target list --installed
rustup component list --installed
ls .tools/venv/bin
"""


def test_the_demo_works_and_installs_only_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    demo = enter("bash", "-c", f"set -e; ./ci/just demo; set +e; {LIST_TOOLS}")
    output, _, left = demo.stdout.partition("\nleft:\n")
    with capsys.disabled():
        print(f"\n./ci/just demo on a bare machine: {time.monotonic() - began:.0f} s")
    assert left, demo.stdout
    assert "oversold" in output
    for absent in ("redis-server", "wasm32", "clippy", "rustfmt", "pytest", "mypy", "ruff", "shellcheck", "cargo-deny"):
        assert absent not in left, f"the demo installed {absent}"


def test_every_test_passes(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    tests = enter("./ci/just", "test")
    with capsys.disabled():
        print(f"\n./ci/just test on a bare machine: {time.monotonic() - began:.0f} s")
        print(tests.stdout[-4000:])
    assert tests.returncode == 0
