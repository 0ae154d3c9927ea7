"""Tests each install step on a machine that lacks its tool, and each step broken on purpose."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bare import ROOT, Step, enter, steps, why_not

on_a_bare_machine = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

# Commands that succeed once a step with the place `machine` has run.
CHECKED_BY = {
    "redis-server": "redis-server --version",
    "openssl": "openssl version",
    "postgresql": "ls /usr/lib/postgresql/*/bin/initdb",
    "chromium": "chromium --version",
    "prometheus": "promtool --version",
    "wasm-target": "rustup target list --installed | grep -x wasm32-unknown-unknown",
    "package-targets": "rustup target list --installed | grep -x aarch64-unknown-linux-musl",
    "emulation": "qemu-aarch64-static --version && ls /lib/ld-musl-*",
    "rust-lints": "cargo clippy --version && cargo fmt --version",
    "mmdebstrap": "mmdebstrap --version",
}

# Commands that run before a step. The first removes a tool that the bare machine has because another package needs it.
# The second leaves the machine with Debian's commands for PostgreSQL but without the server, as its removal does.
BEFORE = {
    "openssl": "dpkg --purge --force-depends openssl >/dev/null 2>&1",
    "postgresql": "(apt-get update && apt-get install --yes --no-install-recommends postgresql-common) >/dev/null 2>&1",
}

# The programs that steps call. The tests replace each with a program that fails.
INSTALLERS = ("apt-get", "dnf", "apk", "pacman", "brew", "rustup", "npm")
PYTHONS = ("python", "python3", "python3.11", "python3.12", "python3.13", "python3.14")


def machine_steps() -> list[str]:
    return [step.name for step in steps() if step.place == "machine"]


def test_every_step_that_changes_the_machine_has_a_test() -> None:
    assert set(CHECKED_BY) == set(machine_steps())


@on_a_bare_machine
@pytest.mark.parametrize("name", machine_steps())
def test_a_step_installs_the_missing_tool(name: str) -> None:
    before, check = BEFORE.get(name, ""), CHECKED_BY[name]
    script = f"""
        {before}
        if {check}; then echo "the bare machine has it already"; exit 1; fi
        echo first:
        ci/install {name} && {check} && echo second: && ci/install {name}
    """
    ran = enter("bash", "-c", script, in_memory=True)
    assert ran.returncode == 0, ran.stdout
    first, _, second = ran.stdout.partition("first:")[2].partition("second:")
    assert "ci/install: " in first, "the step prints what it does"
    assert second.strip() == "", "the second run has nothing to do"


@pytest.fixture(scope="module")
def broken_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH without the tools that steps install, on which every installer fails."""
    broken, rest = tmp_path_factory.mktemp("broken"), tmp_path_factory.mktemp("rest")
    scripts = dict.fromkeys((*INSTALLERS, *PYTHONS), "echo broken on purpose >&2; exit 7")
    scripts |= {"rustc": f"echo {broken}/no-sysroot", "cargo": "exit 1"}
    for program, script in scripts.items():
        (broken / program).write_text(f"#!/bin/sh\n{script}\n")
        (broken / program).chmod(0o755)
    # sudo is left out too, as it would find the real installers.
    servers = {"redis-server", "initdb", "pg_createcluster", "promtool"}
    browsers = {"chromium", "chromium-browser", "google-chrome"}
    absent = servers | browsers | {"openssl", "mmdebstrap", "qemu-aarch64-static", "sudo"}
    for place in os.environ["PATH"].split(os.pathsep):
        for found in Path(place).glob("*"):
            if found.name not in absent and not (rest / found.name).is_symlink():
                (rest / found.name).symlink_to(found)
    return f"{broken}{os.pathsep}{rest}"


@pytest.mark.parametrize("step", steps(), ids=lambda step: step.name)
def test_a_failed_step_prints_its_name_and_what_to_do(step: Step, broken_path: str, tmp_path: Path) -> None:
    # Makes a copy in which nothing is installed yet.
    shutil.copytree(
        ROOT / "ci", tmp_path / "ci", ignore=shutil.ignore_patterns("node_modules", "target", "__pycache__")
    )
    (tmp_path / "bindings" / "wasm").mkdir(parents=True)
    shutil.copy(ROOT / "bindings" / "wasm" / "Cargo.toml", tmp_path / "bindings" / "wasm")
    for folder in (
        "packages/node",
        "packages/web",
        "examples/seckill/node",
        "examples/playground",
        "ci/upstash",
        "ci/package/node",
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / folder / "package-lock.json", tmp_path / folder)
    failed = subprocess.run(
        [tmp_path / "ci" / "install", step.name],
        env={"PATH": broken_path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1, failed.stderr
    last = failed.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ci/install: the step {step.name} failed (status "), failed.stderr
    assert len(last.partition("): ")[2].split()) >= 3, "the message says what to do"


@on_a_bare_machine
def test_a_task_with_a_broken_step_ends_and_names_the_step() -> None:
    """Restores a mistake of an earlier version: the step calls rustup with a flag that rustup refuses."""
    task = enter(
        "bash",
        "-c",
        "sed -i 's/rustup --quiet target add/rustup target add --quiet/' ci/install && ./ci/just test-wasm",
        in_memory=True,
    )
    assert task.returncode != 0
    assert "ci/install: the step wasm-target failed" in task.stdout, task.stdout
    assert "rustup target add wasm32-unknown-unknown" in task.stdout, "the message says what to do"
