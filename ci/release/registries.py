"""Publishes packages to each registry, one after the other, and asks whether a registry has a package already."""

import base64
import hashlib
import json
import subprocess
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import artefacts
from building import ROOT
from crates import PUBLISHED


class Step(NamedTuple):
    """A package, and the command that publishes it."""

    name: str
    command: list[str]
    #: Asks the registry. Ends the program if the registry has a different file under the same name and version.
    is_published: Callable[[], bool]


def npm(folder: Path, version: str) -> list[Step]:
    """Returns the steps for npm. The packages of the platforms come first, since the main package depends on them."""
    tarballs = [folder / one.file for one in artefacts.complete(version) if one.file.startswith("npm/")]
    channel = ["--tag", "next"] if "-" in version else []
    return [
        Step(
            tarball.name,
            ["npm", "publish", str(tarball), "--provenance", "--access", "public", *channel],
            lambda tarball=tarball: is_on_npm(tarball, version),  # type: ignore[misc]
        )
        for tarball in tarballs
    ]


def is_on_npm(tarball: Path, version: str) -> bool:
    name = name_in(tarball, version)
    answer = get(f"https://registry.npmjs.org/{urllib.parse.quote(name)}/{version}")
    if answer is None:
        return False
    digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
    if json.loads(answer)["dist"]["integrity"] != f"sha512-{digest}":
        raise SystemExit(f"release: npm has another {name} {version} than {tarball}: RELEASING.md says what to do")
    return True


def name_in(tarball: Path, version: str) -> str:
    """Returns the name in a package's manifest, after checking its version."""
    with tarfile.open(tarball) as opened:
        manifest = opened.extractfile("package/package.json")
        assert manifest
        packed = json.load(manifest)
    if packed["version"] != version:
        raise SystemExit(f"release: {tarball} has the version {packed['version']}, not {version}")
    return str(packed["name"])


def crates(version: str) -> list[Step]:
    """Returns the steps for crates.io in the order of their dependencies.

    `cargo publish` does not build the crates again (`--no-verify`): a build runs code of dependencies, which must not
    have access to the token. Each crate was built from its package before."""
    return [
        Step(
            name,
            ["cargo", "publish", "--locked", "--no-verify", "--package", name],
            lambda name=name: is_on_crates_io(name, version),  # type: ignore[misc]
        )
        for name in PUBLISHED
    ]


def is_on_crates_io(name: str, version: str) -> bool:
    answer = get(f"https://index.crates.io/{name[:2]}/{name[2:4]}/{name}")
    return answer is not None and any(json.loads(line)["vers"] == version for line in answer.splitlines())


def github(folder: Path, version: str, notes: str) -> list[Step]:
    """Returns the steps for the GitHub release with the static commands. It is made once, and its files are uploaded
    again each time."""
    tag = f"v{version}"
    files = [one.file for one in artefacts.complete(version) if one.file.startswith("command/")]
    channel = ["--prerelease"] if "-" in version else []
    create = ["gh", "release", "create", tag, "--verify-tag", "--title", tag, "--notes", notes, *channel]
    upload = ["gh", "release", "upload", tag, "--clobber", *(str(folder / file) for file in (*files, artefacts.SUMS))]
    return [
        Step(f"release {tag}", create, lambda: is_a_release(tag)),
        Step(f"files of {tag}", upload, lambda: False),
    ]


def is_a_release(tag: str) -> bool:
    command = ["gh", "release", "view", tag]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def get(url: str) -> str | None:
    """Returns the text at a URL, or None for status 404. Every other failure raises an exception."""
    request = urllib.request.Request(url, headers={"User-Agent": "steadlock-release"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def publish(steps: Sequence[Step], run: Callable[[list[str]], None]) -> None:
    """Runs the steps whose packages are not published yet."""
    for step in steps:
        if step.is_published():
            print(f"{step.name}: is published already", flush=True)
        else:
            print(f"{step.name}: publishing", flush=True)
            run(step.command)


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"release: {command[0]} failed with {done.returncode}; what was published before it stays")
