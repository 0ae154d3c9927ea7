"""Runs the tasks of a run of all tests side by side, each as soon as the tasks that it needs have ended.

The justfile says what a task needs: this program asks `just` for the dependencies of each task below, and runs each of
them once. It prints the output of a task when the task has ended, and then its seconds. After a failure it leaves out
the tasks that need the failed one, and prints all failures again at the end.

tests.py            runs all
tests.py TASK...    runs these, with what they need
tests.py --plan     prints what each task waits for
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steps import Step, main

ROOT = Path(__file__).resolve().parents[2]
JUST = Path(sys.prefix) / "bin" / "just"
IS_LINUX = sys.platform == "linux"
#: The build of the native parts as users install them, which all tests then use. The libraries need glibc.
SHIPPED = ["build-shipped"] if platform.libc_ver()[0] == "glibc" else []
#: Where ci/package/shipped.py puts these parts.
FOLDER = ROOT / "target" / "shipped"


def words(text: str) -> list[str]:
    return text.split()


#: Builds and lints, at low priority, as tests that wait run beside them. Others that the justfile names come last.
BUILDS = words("""
    lint-rust build-cli build-node-script build-jvm build-web build-tests build-python build-node build-contender
    build-release-tests build-example lint-dependencies lint-words lint-structure lint-shell lint-node lint-jvm
    lint-python build-interop build-spring build-spring-seckill
""")
#: Tests that keep a processor busy, the longest first: on a bare machine, what users install is installed.
BUSY = ["test-packed"] if IS_LINUX else []
BUSY += words("""
    test-jvm test-python test-crates test-node test-web test-cross test-spring test-demo-spring test-interop
    test-storm-newest test-playground test-fleets test-spring-aot test-driven test-bundles test-transitions
    test-storm test-demo test-site test-api test-schedules test-wasm test-errors test-runners test-monitoring
""")
#: Tests that mostly wait, for servers, clocks and downloads.
WAITING = ["test-server valkey", "test-server 8.2", "test-server 6.2", "test-client-most"]
WAITING += words("test-token-expiry test-client-longest test-rigs test-install test-steps")
#: The build of what users install. The busy tests begin after this build. Otherwise the build would share the
#: processors with them.
PACK = ["pack --tested"] if IS_LINUX else []

#: Tests that assert milliseconds: one by one, after all others.
LAST = words("test-timed-failovers test-packed-timing test-timing" if IS_LINUX else "test-timed-failovers test-timing")

RUST_TESTS = ("test-crates", "test-client-most", "test-client-longest", "test-transitions", "test-schedules")
#: Tasks that a task waits for besides its dependencies. Builds of cargo into one folder wait for each other anyway.
AFTER = {
    "build-tests": ["lint-rust"],
    "build-cli": SHIPPED,
    "build-python": ["build-cli"],
    "build-jvm": ["build-python"],
    "build-node": ["build-python"],
    "build-contender": ["build-tests"],
    "build-release-tests": ["build-tests"],
    # Maven writes all that it downloads into one folder.
    "build-spring": ["build-example"],
    "build-interop": ["build-spring-seckill"],
    # `cargo test` would build these tests itself, each task while the others wait for it.
    **{task: ["build-tests"] for task in RUST_TESTS},
    "test-driven": ["build-release-tests"],
    "test-client-longest": ["build-tests", "build-release-tests"],
    **{task: ["build-tests"] for task in WAITING if task.startswith("test-server ")},
    # These compile in one folder, or read what is compiled there.
    "test-jvm": ["build-jvm", "build-example"],
    "test-fleets": ["test-jvm", "test-node"],
    "test-api": ["test-jvm"],
    "test-spring": ["build-spring"],
    "pack --tested": ["build-jvm", "build-tests"],
}

#: Steps of `ci/install` that take long and that only one task needs. This task runs them itself.
OF_ONE_TASK = {"newest-python"}
#: Steps of `ci/install` that lints and builds of Rust need at once.
EARLY = {"rust-lints", "wasm-target", "python-just"}
PROCESSORS = os.cpu_count() or 2
LANES = {"builds": PROCESSORS + 1, "busy": PROCESSORS, "waiting": PROCESSORS}


def recipes() -> dict[str, Any]:
    dumped = subprocess.run([JUST, "--dump", "--dump-format", "json"], cwd=ROOT, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(dumped.stdout)["recipes"]
    return found


class Plan:
    """The steps of a run, in the order in which those of one lane begin."""

    def __init__(self, *chosen: str) -> None:
        self._recipes = recipes()
        self._installed: set[str] = set()
        self._needs: dict[str, set[str]] = {}
        self._by_itself: dict[str, set[str]] = {}
        self._last = [] if chosen else LAST
        for task in chosen or [*SHIPPED, *BUILDS, *BUSY, *WAITING, *PACK]:
            self._add(task)
        self._environment = {"STEADLOCK_BUILT": str(FOLDER)} if {*SHIPPED} & {*self._needs} else {}
        for needs in self._needs.values():
            # A run of chosen tasks does not wait for tasks of `AFTER` and `PACK` that are not part of it.
            needs &= {*self._needs, "install", "install-early"}

    def _add(self, task: str) -> None:
        if task in self._needs:
            return
        words: set[str] = set()
        needs: set[str] = set()
        self._needs[task] = {*AFTER.get(task, []), *(PACK if task in BUSY else [])}
        for dependency in self._recipes[task.split()[0]]["dependencies"]:
            arguments = [argument for argument in dependency["arguments"] if isinstance(argument, str)]
            if dependency["recipe"] == "install":
                words |= set(" ".join(arguments).split())
            else:
                needs |= set(self._with_commands(" ".join([dependency["recipe"], *arguments])))
        self._by_itself[task] = words & OF_ONE_TASK
        self._installed |= words - OF_ONE_TASK - EARLY
        self._needs[task] |= needs | {"install" if words - OF_ONE_TASK - EARLY else "install-early"}
        for needed in sorted(needs):
            self._add(needed)

    def _with_commands(self, task: str) -> Iterator[str]:
        """Yields the task, or the tasks that it depends on if it has no commands itself."""
        recipe = self._recipes[task.split()[0]]
        if recipe["body"]:
            yield task
        else:
            for dependency in recipe["dependencies"]:
                yield from self._with_commands(dependency["recipe"])

    def steps(self) -> Iterator[Step]:
        install = ROOT / "ci" / "install"
        yield Step("install-early", [[install, *sorted(EARLY)]])
        yield Step("install", [[install, *sorted(self._installed)]], frozenset({"install-early"}))
        listed = {task: place for place, task in enumerate([*SHIPPED, *BUILDS, *BUSY, *WAITING])}
        for task in sorted(self._needs, key=lambda task: listed.get(task, len(listed))):
            lane = "busy" if task in BUSY else "waiting" if task in WAITING else "" if task in PACK else "builds"
            run: list[str | Path] = [*(["nice"] if lane == "builds" else []), JUST, "--no-deps", *task.split()]
            commands = [run]
            if self._by_itself[task]:
                commands.insert(0, [install, *sorted(self._by_itself[task])])
            yield Step(task, commands, frozenset(self._needs[task]), self._environment, lane)
        before = frozenset(self._needs)
        for task in self._last:
            # A task without commands only runs its dependencies, so `just` must not leave them out.
            options = ["--no-deps"] if self._recipes[task]["body"] else []
            yield Step(task, [[JUST, *options, task]], before, self._environment)
            before = frozenset({task})


if __name__ == "__main__":
    prints_plan = sys.argv[1:] == ["--plan"]
    planned = list(Plan(*([] if prints_plan else sys.argv[1:])).steps())
    if prints_plan:
        for step in planned:
            print(f"{step.lane or '-':8} {step.title:22} after {' '.join(sorted(step.needs))}")
    else:
        sys.exit(main(planned, ROOT, LANES, prints_output=True, keeps_going=True))
