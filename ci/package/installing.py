"""Runs what is installed, and what the README shows of it."""

import json
import re
import subprocess
from pathlib import Path

from building import ROOT

README = (ROOT / "README.md").read_text()
TRIES = 7
#: Where it runs, in the table.
HERE = "here"


def said(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def five_lines(language: str, url: str) -> str:
    """The first lines of a language that the README shows."""
    found = re.search(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert found
    return found[1].replace("redis://localhost:6379", url)


def best(command: list[str | Path], folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """What a program measures of itself, at its best: the machine may be busy."""
    told = [json.loads(said(command, folder, environment)) for _ in range(TRIES)]
    return {key: min(one[key] for one in told) for key in told[0]}
