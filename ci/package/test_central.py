"""What dist/maven has is what Maven Central asks for."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import central
import jars
from version import version

FOLDER = jars.target("").parent


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
