"""Tests that the files of dist/maven are those that Maven Central requires."""

import hashlib
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import central
import gradle
import jars
import starters
from version import version

FOLDER = jars.target("").parent


def entries(ending: str, artifact: str = jars.ARTIFACT) -> set[str]:
    return set(jars.entries_of(jars.target(ending, artifact)))


@pytest.mark.parametrize("component", central.COMPONENTS)
def test_a_pom_has_the_project_s_metadata_and_no_build(component: str) -> None:
    pom = jars.target(".pom", component)
    project = ElementTree.parse(pom).getroot()
    assert project.findtext("{*}artifactId") == component
    assert project.findtext("{*}version") == version()
    for path in (
        "licenses/license/url",
        "developers/developer/name",
        "scm/connection",
        "scm/url",
        "description",
        "url",
    ):
        assert project.findtext("/".join(f"{{*}}{name}" for name in path.split("/")))
    assert {central.tag(one) for one in project} - {central.OPTIONAL_ELEMENT} == set(central.REQUIRED_ELEMENTS)
    assert "${" not in pom.read_text()
    assert "<scope>test</scope>" not in pom.read_text()


@pytest.mark.parametrize("component", central.COMPONENTS)
def test_each_dependency_has_a_version_or_gets_it_from_spring_boot(component: str) -> None:
    project = ElementTree.parse(jars.target(".pom", component)).getroot()
    without = {
        dependency.findtext("{*}groupId")
        for dependency in project.findall("{*}dependencies/{*}dependency")
        if dependency.find("{*}version") is None
    }
    boms = project.findall("{*}dependencyManagement/{*}dependencies/{*}dependency")
    assert [one.findtext("{*}artifactId") for one in boms] == (["spring-boot-dependencies"] if without else [])
    assert "io.github.steadlock" not in without


def test_gradle_gets_the_oldest_stdlib_and_maven_the_newest() -> None:
    properties = central.properties(jars.PACKAGE / "pom.xml")
    pom = jars.target(".pom").read_text()
    # Without this mark Gradle does not look for the metadata.
    assert gradle.MARK in pom
    project = ElementTree.fromstring(pom)
    by_maven = {
        dependency.findtext("{*}artifactId"): dependency.findtext("{*}version")
        for dependency in project.findall("{*}dependencies/{*}dependency")
        if dependency.findtext("{*}optional") != "true"
    }
    assert by_maven["kotlin-stdlib"] == properties["kotlin.version"]
    module = json.loads(jars.target(".module").read_text())
    assert (module["component"]["module"], module["component"]["version"]) == (jars.ARTIFACT, version())
    jar = jars.target(".jar")
    for variant in module["variants"]:
        by_gradle = {one["module"]: one["version"]["requires"] for one in variant["dependencies"]}
        assert by_gradle == by_maven | {"kotlin-stdlib": properties["kotlin.oldest"]}
        (file,) = variant["files"]
        assert (FOLDER / file["url"], file["sha256"]) == (jar, hashlib.sha256(jar.read_bytes()).hexdigest())


def test_the_starters_common_jar_depends_on_no_version_of_spring() -> None:
    project = ElementTree.parse(jars.target(".pom", starters.COMMON)).getroot()
    brought = {
        dependency.findtext("{*}artifactId")
        for dependency in project.findall("{*}dependencies/{*}dependency")
        if dependency.findtext("{*}optional") != "true"
    }
    assert brought == {"steadlock"}


def test_no_class_is_duplicated_on_a_class_path() -> None:
    natives = [jars.entries_of(jar) for jar in FOLDER.glob("*-linux-*.jar")]
    assert natives
    for one in natives:
        assert not [name for name in one if name.endswith(".class")]
        (library,) = (name for name in one if name.endswith(".so"))
        assert library not in entries(".jar")
        assert library in entries("-all.jar")
    assert {name for name in entries("-all.jar") if not name.endswith(".so")} == entries(".jar")


def test_sources_and_documentation_are_those_of_the_classes() -> None:
    assert {"io/github/steadlock/Steadlock.kt", "io/github/steadlock/LockScope.java"} <= entries("-sources.jar")
    documentation = entries("-javadoc.jar")
    assert "index.html" in documentation
    assert not [name for name in documentation if "internal" in name]


@pytest.mark.parametrize("component", starters.MODULES)
def test_a_jar_for_spring_has_its_classes_and_boot_metadata(component: str) -> None:
    classes = {name for name in entries(".jar", component) if name.endswith(".class")}
    sources, documentation = entries("-sources.jar", component), entries("-javadoc.jar", component)
    assert {re.sub(r"(\$.*)?\.class$", ".java", name) for name in classes} <= sources
    assert "META-INF/spring/org.springframework.boot.autoconfigure.AutoConfiguration.imports" in entries(
        ".jar", component
    )
    assert "index.html" in documentation


@pytest.mark.parametrize("starter", list(starters.MODULES)[1:])
def test_no_class_of_a_starter_is_in_its_dependencies(starter: str) -> None:
    brought = entries(".jar", starters.COMMON) | entries(".jar")
    assert not [name for name in entries(".jar", starter) & brought if name.endswith(".class")]


def test_boot_metadata_has_all_properties() -> None:
    metadata = jars.entries_of(jars.target(".jar", starters.COMMON))["META-INF/spring-configuration-metadata.json"]
    found = {one["name"] for one in json.loads(metadata)["properties"]}
    readme = (starters.PACKAGE / "README.md").read_text()
    table = readme[readme.index("<!-- properties -->") : readme.index("<!-- end of properties -->")]
    assert found >= set(re.findall(r"^\| `(steadlock\.[\w.-]+)`", table, re.MULTILINE)) != set()


@pytest.mark.parametrize("component", central.COMPONENTS)
def test_packing_a_jar_is_reproducible(component: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = jars.target(".jar", component).read_bytes()
    contents = jars.entries_of(jars.target(".jar", component))
    del contents["META-INF/MANIFEST.MF"]
    monkeypatch.setattr(jars, "DIST", tmp_path)
    module = jars.MODULE if component == jars.ARTIFACT else ""
    assert jars.pack("", contents, module, component).read_bytes() == packed


def test_the_bill_of_materials_names_the_dependencies() -> None:
    bom = json.loads(jars.target("-cyclonedx.json").read_text())
    assert bom["bomFormat"] == "CycloneDX"
    assert bom["metadata"]["component"]["version"] == version()
    assert {"jna", "kotlin-stdlib", "slf4j-api", "tokio", "rustls"} <= {one["name"] for one in bom["components"]}
