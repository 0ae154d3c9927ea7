"""Tests that a run of all tests runs no command twice, and that no task passes an empty argument on.

Tasks that run in parallel share folders, so the second run of a build would change files that another task uses. just
runs a dependency only once, except for dependencies after `&&`.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
JUST = Path(sys.prefix) / "bin" / "just"


def just(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([JUST, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)


def test_a_run_of_all_tests_runs_each_command_once() -> None:
    plan = just("--dry-run", "test")
    commands = Counter(line for line in plan.stderr.splitlines() if line.startswith(("cargo ", "mvn ", "npm ")))
    assert len(commands) > 20, plan.stderr
    assert [command for command, runs in commands.items() if runs > 1] == []


def test_tasks_that_forward_their_arguments_get_no_empty_one() -> None:
    """A dependency gets `options` as one string, so with none it gets an empty one, which `"$@"` hands to a program."""
    recipes = json.loads(just("--dump", "--dump-format", "json").stdout)["recipes"]
    depended_on = {
        dependency["recipe"]
        for recipe in recipes.values()
        for dependency in recipe["dependencies"]
        if any(argument[0] == "variable" for argument in dependency["arguments"] if isinstance(argument, list))
    }
    assert depended_on, "no task passes its options on"
    passes_on = {name for name, recipe in recipes.items() if json.dumps('"$@"')[1:-1] in json.dumps(recipe["body"])}
    assert passes_on, "no task passes its arguments on"
    assert sorted(depended_on & passes_on) == []
