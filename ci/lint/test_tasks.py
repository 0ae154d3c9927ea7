"""Tests that a run of all tests runs no command twice.

Tasks that run in parallel share folders, so the second run of a build would change files that another task uses. just
runs a dependency only once, except for dependencies after `&&`.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
JUST = Path(sys.prefix) / "bin" / "just"


def test_a_run_of_all_tests_runs_each_command_once() -> None:
    plan = subprocess.run([JUST, "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True, check=True)
    commands = Counter(line for line in plan.stderr.splitlines() if line.startswith(("cargo ", "mvn ", "npm ")))
    assert len(commands) > 20, plan.stderr
    assert [command for command, runs in commands.items() if runs > 1] == []
