"""Runs the tests of installed packages once more on a bare machine, which has the languages and nothing of ours."""

import subprocess
import sys
from pathlib import Path

import pytest

from building import DIST, ROOT
from installing import BARE
from table import parse, ran

sys.path.insert(0, str(ROOT / "ci" / "bare"))

from bare import why_not

#: The output of the tests is sent to stderr, so that stdout has only the table.
COMMAND = f"./ci/just test-artefacts -m 'not timing' >&2 && cat {DIST.name}/table.json"


@pytest.mark.timeout(3_600)
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_an_installed_package_runs_on_a_bare_system(capfd: pytest.CaptureFixture[str]) -> None:
    enter: list[str | Path] = [ROOT / "ci" / "bare" / "enter", "--with", DIST.name]
    with capfd.disabled():
        done = subprocess.run([*enter, "sh", "-c", COMMAND], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0
    installed = [one.name for one in parse(done.stdout) if BARE in one.ran]
    assert installed
    for name in installed:
        ran(DIST / name, BARE)
