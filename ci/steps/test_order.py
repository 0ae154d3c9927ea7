"""Tests what a run of all tests runs, and in which order."""

import json
import re
import subprocess
from collections import Counter
from itertools import pairwise

from tests import JUST, LAST, ROOT, Plan, recipes

STEPS = list(Plan().steps())
#: Tasks that `test` leaves out: each takes long, needs another run's packages, or is a choice of tests that run anyway.
LEFT_OUT = {
    *("test-artefacts", "test-bare", "test-client", "test-failovers", "test-long", "test-package", "test-reproducible"),
    "test-failovers-of",
}


def test_a_run_of_all_tests_has_every_test_and_lint() -> None:
    has = {step.title.split()[0] for step in STEPS}
    wanted = {name for name, recipe in recipes().items() if name.startswith(("test-", "lint-")) and recipe["body"]}
    assert wanted - has == LEFT_OUT


def test_a_run_of_all_tests_runs_each_command_once() -> None:
    """Tasks that run in parallel share folders: the second run of a build would change files that another task uses."""
    commands: Counter[str] = Counter()
    for step in STEPS:
        for command in step.commands:
            if JUST in command:
                words = command[command.index(JUST) :]
                plan = subprocess.run(
                    [*words[:1], "--dry-run", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True
                )
                lines = plan.stderr.splitlines()
                commands.update(line for line in lines if line.startswith(("cargo ", "mvn ", "npm ")))
    assert len(commands) > 20
    assert [command for command, runs in commands.items() if runs > 1] == []


def test_the_task_lint_runs_every_lint() -> None:
    run = json.dumps(recipes()["lint"]["body"])
    assert {name for name in recipes() if name.startswith("lint-")} == set(re.findall(r"lint-[a-z]+", run))


def test_chosen_tasks_run_with_their_needs_alone() -> None:
    found = {step.title: step.needs for step in Plan("build-tests", "lint-python").steps()}
    assert set(found) == {"install-early", "install", "build-tests", "build-python", "lint-python"}
    assert found["lint-python"] == {"install", "build-python"}
    assert found["build-tests"] == {"install-early"}


def test_each_step_can_begin() -> None:
    done: set[str] = set()
    waiting = {step.title: step.needs for step in STEPS}
    while ready := {title for title, needs in waiting.items() if needs <= done}:
        done |= ready
        waiting = {title: needs for title, needs in waiting.items() if title not in ready}
    assert waiting == {}


def test_tests_of_milliseconds_wait_for_everything_else() -> None:
    needs = {step.title: step.needs for step in STEPS}
    assert needs[LAST[0]] == {step.title for step in STEPS} - {*LAST, "install", "install-early"}
    for before, after in pairwise(LAST):
        assert needs[after] == {before}
