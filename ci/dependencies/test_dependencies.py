"""Tests that dependencies have exact versions, and that what we ship has the licence texts."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import licenses
from licenses import ROOT

EXACT = re.compile(r"\d+(\.\d+)*([.-]?[A-Za-z0-9]+)*")
POM = {"m": "http://maven.apache.org/POM/4.0.0"}
MANAGED = "m:dependencyManagement/m:dependencies/m:dependency"
# The plugins that Maven's own life cycle calls. Unless a pom names a version, it is the one that comes with Maven.
LIFE_CYCLE = {f"maven-{name}-plugin" for name in ("resources", "compiler", "surefire", "jar", "install")}


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / line for line in listed.splitlines()]


def lines(file: Path) -> list[str]:
    text = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [line for line in text if line]


def test_python_tools_have_exact_versions() -> None:
    files = tracked("ci/**/*.txt")
    assert files
    wrong = [
        f"{file.name}: {line}"
        for file in files
        for line in lines(file)
        if not re.fullmatch(r"([\w.-]+==[\w.]+|--hash=sha256:[0-9a-f]{64})( \\)?", line)
    ]
    assert not wrong


def test_every_package_of_the_virtual_environment_has_an_exact_version() -> None:
    known = {
        name.lower().replace("_", "-"): version
        for file in tracked("ci/requirements/*.txt")
        for name, version in (line.split("==") for line in lines(file))
    }
    frozen = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    installed = {entry["name"].lower().replace("_", "-"): entry["version"] for entry in json.loads(frozen)}
    # pip and setuptools belong to the virtual environment itself, and steadlock is ours.
    for name in ("pip", "setuptools", "steadlock"):
        installed.pop(name, None)
    assert installed.items() <= known.items(), "add it to ci/requirements/versions.txt"


@pytest.mark.parametrize("file", tracked("*package.json"), ids=lambda file: str(file.relative_to(ROOT)))
def test_node_packages_have_exact_versions(file: Path) -> None:
    package = json.loads(file.read_text())
    wanted = package.get("dependencies", {}) | package.get("devDependencies", {})
    wrong = {name: at for name, at in wanted.items() if not at.startswith("file:") and not EXACT.fullmatch(at)}
    assert not wrong
    # ci/package.json has no lock file; see `node_modules` in ci/install.
    assert file.parent == ROOT / "ci" or file.with_name("package-lock.json").exists()


def with_parents(file: Path) -> list[ElementTree.Element]:
    """Returns a project, its parent in the folder above, and so on."""
    project = ElementTree.parse(file).getroot()
    parent = project.find("m:parent", POM)
    return [project] if parent is None else [project, *with_parents(file.parents[1] / "pom.xml")]


@pytest.mark.parametrize("file", tracked("*pom.xml"), ids=lambda file: str(file.relative_to(ROOT)))
def test_jars_and_maven_plugins_have_exact_versions(file: Path) -> None:
    projects = with_parents(file)
    properties = {
        entry.tag.partition("}")[2]: entry.text or ""
        for project in reversed(projects)
        for entry in project.iterfind("m:properties/*", POM)
    }
    properties["project.version"] = projects[-1].findtext("m:version", "", POM)
    has_bom = any(entry.findtext("m:scope", "", POM) == "import" for entry in projects[0].iterfind(MANAGED, POM))
    plugins = {
        entry.findtext("m:artifactId", "", POM)
        for project in projects
        for entry in project.iter(f"{{{POM['m']}}}plugin")
        if entry.findtext("m:version", "", POM)
    }
    wrong = {}
    for kind in ("plugin", "dependency"):
        for entry in projects[0].iter(f"{{{POM['m']}}}{kind}"):
            name, version = (entry.findtext(f"m:{field}", "", POM) for field in ("artifactId", "version"))
            # The version can come from a parent or from a bill of materials, whose own version is exact.
            is_given = name in plugins if kind == "plugin" else has_bom
            while named := re.search(r"\$\{(.+?)\}", version):
                version = version.replace(named[0], properties[named[1]])
            if not EXACT.fullmatch(version) and (version or not is_given):
                wrong[name] = version
    assert wrong == {}
    assert LIFE_CYCLE - plugins == set()


def test_every_cargo_build_uses_the_lock_file() -> None:
    calls = re.compile(r"cargo['\", ]+(build|test|run|clippy|metadata|package)(?! --version)")
    unlocked = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in [ROOT / "justfile", *tracked("ci/*"), *tracked("packages/*")]
        if file.suffix not in (".md", ".json") and file.is_file() and file != Path(__file__)
        for line in file.read_text(errors="replace").splitlines()
        if calls.search(line) and "locked" not in line and not line.lstrip().startswith(("#", "//"))
    ]
    assert not unlocked


def test_the_version_of_maturin_is_the_same_everywhere() -> None:
    pinned = next(line for line in lines(ROOT / "ci/requirements/build.txt") if line.startswith("maturin"))
    assert f'requires = ["{pinned}"]' in (ROOT / "packages/python/pyproject.toml").read_text()


def test_third_party_licences_are_up_to_date() -> None:
    assert licenses.FILE.read_text(encoding="utf-8") == licenses.collected(), "run ./ci/just third-party-licenses"


@pytest.mark.parametrize("crate", ["collections", "protocol", "resp", "store", "client", "cli"])
def test_each_crate_has_the_licences(crate: str) -> None:
    listed = subprocess.run(
        ["cargo", "package", "--locked", "--list", "--allow-dirty"],
        cwd=ROOT / "core" / crate,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert {"LICENSE-APACHE", "LICENSE-MIT"} <= set(listed)
