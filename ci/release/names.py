"""Asks each registry, by its own client, whether the names of a release are free or belong to us already.

A name counts as free only if the client reports that the registry has no such package. A client that finds no file
for this machine, or cannot reach its registry, proves nothing. A name counts as ours if its newest version names our
repository. An author can name any repository, so only the registry's reply to `publish` is a proof.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import artefacts  # noqa: F401  (makes the modules of ci/package importable)
import local_repository
import npm
from building import ROOT
from central import COMPONENTS, NAMESPACE, place
from crates import PUBLISHED
from platforms import ELSEWHERE, PLATFORMS

DISTRIBUTION = "steadlock"
DEPENDENCY_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:get"
#: The addresses of the registries. The machine may be configured for a mirror that lacks some names.
PYPI = "https://pypi.org/simple"
NPM = "https://registry.npmjs.org"
CRATES_IO = "crates-io"
CENTRAL = "https://repo.maven.apache.org/maven2"
FREE, OURS = "free", "ours"


class Found(NamedTuple):
    """A package in a registry, and the repository that its author names."""

    repository: str


class UnknownError(Exception):
    """The client did not report whether the registry has the package."""


class Answer(NamedTuple):
    """Whether a release may use a name."""

    registry: str
    name: str
    #: FREE, OURS, or the reason why the release must stop.
    verdict: str

    @property
    def is_good(self) -> bool:
        return self.verdict in (FREE, OURS)


#: Returns the package of a name, or None if the registry has none. The folder is empty and outside of any project.
Lookup = Callable[[str, Path], Found | None]


def pypi(name: str, folder: Path) -> Found | None:
    # A package for a newer Python counts too. Nothing is built, because that would run another project's code.
    options = ["--dry-run", "--no-deps", "--ignore-installed", "--pre", "--ignore-requires-python"]
    files = ["--only-binary", ":all:", "--report", str(folder / "report.json")]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-vv", "install", "--index-url", PYPI]
    ran = client([*command, *options, *files, name], folder)
    if ran.returncode == 0:
        (package,) = json.loads((folder / "report.json").read_text())["install"]
        urls = [url.partition(", ")[2] for url in package["metadata"].get("project_url", [])]
        return Found(next((url for url in urls if is_ours(url)), next(iter(urls), "")))
    output = ran.stdout + ran.stderr
    if f"Could not fetch URL {PYPI}/{name}/: 404 " in output:
        return None
    if f"Fetched page {PYPI}/{name}/ " in output:
        return Found("")
    raise UnknownError(last_line(output))


def npmjs(name: str, folder: Path) -> Found | None:
    ran = client(["npm", "view", name, "--json", "--registry", NPM], folder)
    try:
        reply = json.loads(ran.stdout)
    except json.JSONDecodeError:
        raise UnknownError(last_line(ran.stdout + ran.stderr)) from None
    if ran.returncode == 0:
        # With several versions npm prints a list.
        newest = reply[-1] if isinstance(reply, list) else reply
        repository = newest.get("repository")
        url = repository.get("url", "") if isinstance(repository, dict) else ""
        return Found(url.removeprefix("git+").removesuffix(".git"))
    if reply.get("error", {}).get("code") == "E404":
        return None
    raise UnknownError(reply.get("error", {}).get("summary") or last_line(ran.stderr))


def crates_io(name: str, folder: Path) -> Found | None:
    ran = client(["cargo", "info", "--color", "never", "--registry", CRATES_IO, name], folder)
    if ran.returncode == 0:
        found = re.search(r"^repository: (\S+)$", ran.stdout, re.MULTILINE)
        return Found(found[1] if found else "")
    if f"could not find `{name}` in registry" in ran.stderr:
        return None
    raise UnknownError(last_line(ran.stderr))


def maven_central(name: str, folder: Path) -> Found | None:
    # Leaves out the packages that this machine has built and installed itself: Maven Central may not have them.
    local = local_repository.without_ours(folder / "local")
    artifact = f"-Dartifact=io.github.steadlock:{name}:RELEASE:pom"
    # Without -X Maven does not print the reply of the registry, only that the package is missing locally.
    command = ["mvn", "-X", "--batch-mode", "--no-transfer-progress", "-U", f"-Dmaven.repo.local={local}"]
    ran = client([*command, DEPENDENCY_GET, artifact, "-Dtransitive=false"], folder)
    if ran.returncode == 0:
        (pom,) = local.glob(place(name, "*", ".pom"))
        url = ElementTree.parse(pom).getroot().findtext(f"{{{NAMESPACE}}}scm/{{{NAMESPACE}}}url")
        return Found(url or "")
    missing = rf"Could not find metadata io\.github\.steadlock:{re.escape(name)}/\S+ in \S+ \({re.escape(CENTRAL)}\)"
    if re.search(missing, ran.stdout):
        return None
    raise UnknownError(next((line for line in ran.stdout.splitlines() if line.startswith("[ERROR]")), ran.stderr))


#: The registries, and the names that a release has in each.
REGISTRIES: dict[str, tuple[Lookup, Sequence[str]]] = {
    "pypi": (pypi, [DISTRIBUTION]),
    "npm": (npmjs, [*(npm.name_of(one) for one in (*PLATFORMS, *ELSEWHERE)), "steadlock-web", "steadlock"]),
    "crates": (crates_io, PUBLISHED),
    "maven": (maven_central, list(COMPONENTS)),
}


def answers(registries: Iterable[str] = tuple(REGISTRIES)) -> Iterator[Answer]:
    for registry in registries:
        lookup, names = REGISTRIES[registry]
        for name in names:
            yield Answer(registry, name, verdict(lookup, name))


def verdict(lookup: Lookup, name: str) -> str:
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = lookup(name, Path(folder))
    except UnknownError as error:
        return f"the registry gave no answer: {error}"
    if found is None:
        return FREE
    if is_ours(found.repository):
        return OURS
    return f"another project's: {found.repository or 'its repository is not known'}"


def require(registries: Iterable[str] = tuple(REGISTRIES)) -> list[Answer]:
    """Returns all answers if they are good. Otherwise ends the program and lists the names that cannot be used."""
    given = list(answers(registries))
    if bad := [answer for answer in given if not answer.is_good]:
        raise SystemExit("\n".join(f"release: {one.name} in {one.registry}: {one.verdict}" for one in bad))
    return given


def is_ours(url: str) -> bool:
    return url.rstrip("/").lower() == our_repository()


def our_repository() -> str:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    return str(workspace["package"]["repository"])


def client(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    except FileNotFoundError:
        raise UnknownError(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise UnknownError(f"{command[0]} did not end within 300 s") from None


def last_line(output: str) -> str:
    return next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
