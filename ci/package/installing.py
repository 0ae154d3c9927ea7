"""Installs the packages of dist/, and runs them and the examples of READMEs."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from building import DIST, ROOT
from npm import CHECKS, name_of
from platforms import this_platform
from version import version

README = ROOT / "README.md"
ATTEMPTS = 7
#: Milliseconds.
MOST_FOR_IMPORT, MOST_FOR_LOCK = 50, 20
BARE = "a bare machine"
#: The entry in the table for the machine on which the tests run.
HERE = BARE if os.environ.get("STEADLOCK_BARE") else "here"


def output_of(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def failed(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    """Runs a program that must fail, and returns its output."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def five_lines(language: str, url: str, word: str = "", readme: Path = README) -> str:
    """Returns the first example in a language that a README shows, among those with a given word."""
    return next(block for block in blocks(readme, language, url) if word in block)


def blocks(file: Path, language: str, url: str) -> list[str]:
    """Returns all examples in a language that a file shows, with the URL of a server."""
    found = re.findall(rf"^```{language}\n(.*?)^```", file.read_text(), re.DOTALL | re.MULTILINE)
    assert found, f"{file} shows no {language}"
    return [block.replace("redis://localhost:6379", url) for block in found]


def best(command: list[str | Path], folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """Runs a program that measures itself several times, and returns the best values. The machine may be busy."""
    results = [json.loads(output_of(command, folder, environment)) for _ in range(ATTEMPTS)]
    return {key: min(one[key] for one in results) for key in results[0]}


def built(folder: str, pattern: str) -> Path:
    """Returns the only file of dist/ with this name. Skips the test if it is missing: `package --all` builds it."""
    found = list((DIST / folder).glob(pattern))
    if not found:
        pytest.skip(f"dist/{folder} has no {pattern}: package --all builds it")
    assert len(found) == 1
    return found[0]


def node_packages() -> list[Path]:
    """Returns the Node package of this platform, and the package that users install."""
    return [DIST / "npm" / f"{name}-{version()}.tgz" for name in (name_of(this_platform()), "steadlock")]


def web_package() -> Path:
    return DIST / "npm" / f"steadlock-web-{version()}.tgz"


def npm_install(folder: Path, environment: dict[str, str], *packages: Path) -> None:
    """Installs our packages and nothing else."""
    (folder / "package.json").write_text('{ "private": true }\n')
    # Offline, since the registry does not have these packages yet.
    output_of(["npm", "install", "--offline", "--no-audit", "--no-fund", *packages], folder, environment)


def add_packages_of_others(folder: Path) -> None:
    """Adds the third-party packages of ci/package/node to a folder, as if they had been installed there."""
    target, hidden = folder / "node_modules", shutil.ignore_patterns(".*.json")
    shutil.copytree(CHECKS.parent, target, copy_function=link, symlinks=True, dirs_exist_ok=True, ignore=hidden)


def link(source: str, target: str) -> None:
    """Links a file, because large files need not be copied. Copies it if the system cannot link it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def with_rust(environment: dict[str, str]) -> dict[str, str]:
    """Returns the environment with Rust, and with the crates that this machine has downloaded."""
    homes = {"CARGO_HOME": Path.home() / ".cargo", "RUSTUP_HOME": Path.home() / ".rustup"}
    return environment | {name: os.environ.get(name, str(home)) for name, home in homes.items()}
