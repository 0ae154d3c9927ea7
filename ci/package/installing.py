"""Installs what dist/ has, and runs it and what a README shows of it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from building import DIST, ROOT
from npm import CHECKS, name_of
from platforms import here
from version import version

README = ROOT / "README.md"
TRIES = 7
#: In milliseconds.
MOST_FOR_IMPORT, MOST_FOR_LOCK = 50, 20
BARE = "a bare machine"
#: Where it runs, in the table.
HERE = BARE if os.environ.get("STEADLOCK_BARE") else "here"


def said(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def failed(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    """What a program that must fail says of it."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def five_lines(language: str, url: str, word: str = "", readme: Path = README) -> str:
    """The first lines of a language that a README shows, of those that have a word in them."""
    return next(block for block in blocks(readme, language, url) if word in block)


def blocks(file: Path, language: str, url: str) -> list[str]:
    """All that a file shows of a language, for a server."""
    found = re.findall(rf"^```{language}\n(.*?)^```", file.read_text(), re.DOTALL | re.MULTILINE)
    assert found, f"{file} shows no {language}"
    return [block.replace("redis://localhost:6379", url) for block in found]


def best(command: list[str | Path], folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """What a program measures of itself, at its best: the machine may be busy."""
    told = [json.loads(said(command, folder, environment)) for _ in range(TRIES)]
    return {key: min(one[key] for one in told) for key in told[0]}


def built(folder: str, pattern: str) -> Path:
    """The one file of dist/ that is so named; it is there after `package --all`."""
    found = list((DIST / folder).glob(pattern))
    if not found:
        pytest.skip(f"dist/{folder} has no {pattern}: package --all builds it")
    assert len(found) == 1
    return found[0]


def node_packages() -> list[Path]:
    """The Node package of this platform, and the one that users name."""
    return [DIST / "npm" / f"{name}-{version()}.tgz" for name in (name_of(here()), "steadlock")]


def web_package() -> Path:
    return DIST / "npm" / f"steadlock-web-{version()}.tgz"


def npm_install(folder: Path, environment: dict[str, str], *packages: Path) -> None:
    """Installs packages of ours, and nothing else."""
    (folder / "package.json").write_text('{ "private": true }\n')
    # Nothing is asked of the registry, which has none of these yet.
    said(["npm", "install", "--offline", "--no-audit", "--no-fund", *packages], folder, environment)


def add_packages_of_others(folder: Path) -> None:
    """Beside ours, those that ci/package/node has, as if they had been installed there."""
    target, hidden = folder / "node_modules", shutil.ignore_patterns(".*.json")
    shutil.copytree(CHECKS.parent, target, copy_function=link, symlinks=True, dirs_exist_ok=True, ignore=hidden)


def link(source: str, target: str) -> None:
    """Large files are there once."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def with_rust(environment: dict[str, str]) -> dict[str, str]:
    """The same for somebody who has Rust, with the crates that it has downloaded."""
    homes = {"CARGO_HOME": Path.home() / ".cargo", "RUSTUP_HOME": Path.home() / ".rustup"}
    return environment | {name: os.environ.get(name, str(home)) for name, home in homes.items()}
