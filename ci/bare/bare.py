"""Runs commands on a bare machine, and lists the install steps."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Step(NamedTuple):
    """One line of `ci/install --list`."""

    name: str
    place: str


def steps() -> list[Step]:
    listed = subprocess.run([ROOT / "ci" / "install", "--list"], check=True, capture_output=True, text=True).stdout
    return [Step(*line.split()[:2]) for line in listed.splitlines()]


def why_not() -> str | None:
    """Returns the reason why a bare machine cannot be made here, or `None` if it can."""
    if os.environ.get("STEADLOCK_BARE"):
        return "this is a bare machine already"
    if sys.platform != "linux":
        return "a bare machine is made on Linux only"
    if os.geteuid() != 0:
        return "a bare machine needs root"
    if not Path("/usr/bin/apt-get").exists():
        return "a bare machine is made by Debian's tools"
    return None


def enter(*command: str, in_memory: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command on a bare machine. Its stderr is merged into its stdout."""
    return subprocess.run(
        [HERE / "enter", *(["--in-memory"] if in_memory else []), *command],
        env=os.environ | environment | {"STEADLOCK_BARE_ENV": " ".join(environment)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
