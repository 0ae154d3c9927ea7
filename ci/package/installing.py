"""Runs what is installed, and what the README shows of it."""

import json
import re
import subprocess
from pathlib import Path

from building import ROOT

README = ROOT / "README.md"
TRIES = 7
#: Where it runs, in the table.
HERE = "here"


def said(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def five_lines(language: str, url: str) -> str:
    """The first lines of a language that the README shows."""
    return blocks(README, language, url)[0]


def blocks(file: Path, language: str, url: str) -> list[str]:
    """All that a file shows of a language, with the server that is here."""
    found = re.findall(rf"^```{language}\n(.*?)^```", file.read_text(), re.DOTALL | re.MULTILINE)
    assert found, f"{file} shows no {language}"
    return [block.replace("redis://localhost:6379", url) for block in found]


def best(command: list[str | Path], folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """What a program measures of itself, at its best: the machine may be busy."""
    told = [json.loads(said(command, folder, environment)) for _ in range(TRIES)]
    return {key: min(one[key] for one in told) for key in told[0]}
