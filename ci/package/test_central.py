"""What dist/maven has is what Maven Central asks for."""

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import central
import jars
from building import DIST
from version import version

FOLDER = jars.target("").parent


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A key that is gone after the test."""
    home = tmp_path / "gpg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    name = "throwaway@leasehold.invalid"
    words = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "1d"]
    subprocess.run(words, check=True)
    yield name
    subprocess.run(["gpgconf", "--kill", "all"], check=True)


def entries(ending: str) -> set[str]:
    return set(jars.entries_of(jars.target(ending)))


def test_the_pom_says_who_and_where_and_not_how_to_build() -> None:
    project = ElementTree.parse(jars.target(".pom")).getroot()
    for path in (
        "licenses/license/url",
        "developers/developer/name",
        "scm/connection",
        "scm/url",
        "description",
        "url",
    ):
        assert project.findtext("/".join(f"{{*}}{name}" for name in path.split("/")))
    assert {central.tag(one) for one in project} == set(central.SAID)
    assert "${" not in jars.target(".pom").read_text()
    assert "junit" not in jars.target(".pom").read_text()


def test_no_class_is_twice_on_a_class_path() -> None:
    natives = [jars.entries_of(jar) for jar in FOLDER.glob("*-linux-*.jar")]
    assert natives
    for one in natives:
        assert not [name for name in one if name.endswith(".class")]
        (library,) = (name for name in one if name.endswith(".so"))
        assert library not in entries(".jar")
        assert library in entries("-all.jar")
    assert {name for name in entries("-all.jar") if not name.endswith(".so")} == entries(".jar")


def test_sources_and_documentation_are_those_of_the_classes() -> None:
    assert {"io/leasehold/Leasehold.kt", "io/leasehold/LockScope.java"} <= entries("-sources.jar")
    documentation = entries("-javadoc.jar")
    assert "index.html" in documentation
    assert not [name for name in documentation if "internal" in name]


def test_a_jar_is_packed_alike_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = jars.target(".jar").read_bytes()
    contents = jars.entries_of(jars.target(".jar"))
    del contents["META-INF/MANIFEST.MF"]
    monkeypatch.setattr(jars, "DIST", tmp_path)
    assert jars.pack("", contents, jars.MODULE).read_bytes() == packed


def test_the_bill_of_materials_names_what_comes_along() -> None:
    told = json.loads(jars.target("-cyclonedx.json").read_text())
    assert told["bomFormat"] == "CycloneDX"
    assert told["metadata"]["component"]["version"] == version()
    assert {"jna", "kotlin-stdlib", "slf4j-api", "tokio", "rustls"} <= {one["name"] for one in told["components"]}


def test_the_checksums_are_right() -> None:
    for file in central.artefacts(FOLDER):
        for name in central.CHECKSUMS:
            assert central.beside(file, name).read_text() == hashlib.new(name, file.read_bytes()).hexdigest()


@pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is missing")
def test_each_file_of_the_bundle_is_signed(key: str, tmp_path: Path) -> None:
    repository = tmp_path / "maven"
    shutil.copytree(DIST / "maven", repository)
    central.sign(repository, key)
    for file in central.artefacts(repository):
        words: list[str | Path] = ["gpg", "--batch", "--verify", central.beside(file, "asc"), file]
        done = subprocess.run(words, env=os.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(central.bundle(repository, tmp_path / "central.zip")) as archive:
        names = set(archive.namelist())
    base = f"io/leasehold/leasehold/{version()}/leasehold-{version()}"
    for ending in (".pom", ".jar", "-sources.jar", "-javadoc.jar", "-all.jar", "-cyclonedx.json"):
        assert {f"{base}{ending}{more}" for more in ("", ".asc", ".md5", ".sha1", ".sha256", ".sha512")} <= names
