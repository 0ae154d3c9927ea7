"""Makes the poms for Maven Central. They describe a component, not its build. ci/release signs and uploads them."""

import re
from pathlib import Path
from xml.etree import ElementTree

NAMESPACE = "http://maven.apache.org/POM/4.0.0"
#: The published components and the folders of their poms. Each comes after those that it depends on.
COMPONENTS = {
    "steadlock": "packages/jvm",
    "steadlock-spring": "packages/spring/common",
    "steadlock-spring-boot3-starter": "packages/spring/boot3",
    "steadlock-spring-boot4-starter": "packages/spring/boot4",
}
#: The elements of a published pom. The other elements describe the build.
REQUIRED_ELEMENTS = (
    *("modelVersion", "groupId", "artifactId", "version"),
    *("name", "description", "url", "licenses", "developers", "scm", "dependencies"),
)
#: An element of only some poms: the bill of materials with the versions of their dependencies.
OPTIONAL_ELEMENT = "dependencyManagement"


def place(artifact: str, version: str, ending: str) -> str:
    """Returns the path of an artifact's file in a Maven repository."""
    return f"io/github/steadlock/{artifact}/{version}/{artifact}-{version}{ending}"


def pom(file: Path) -> str:
    """Returns a pom without the parts for its build, and with the elements of its parent, which is not published."""
    ElementTree.register_namespace("", NAMESPACE)
    found = {tag(one): one for one in elements(file)}
    missing = [name for name in REQUIRED_ELEMENTS if name not in found]
    assert not missing, f"{file} does not say its {', '.join(missing)}"
    dependencies = found["dependencies"]
    for dependency in dependencies.findall("{*}dependency"):
        if dependency.findtext("{*}scope") == "test":
            dependencies.remove(dependency)
    project = ElementTree.parse(file).getroot()
    project[:] = [
        found[name] for name in (*REQUIRED_ELEMENTS[:-1], OPTIONAL_ELEMENT, REQUIRED_ELEMENTS[-1]) if name in found
    ]
    ElementTree.indent(project)
    text = ElementTree.tostring(project, "unicode", xml_declaration=False)
    values = properties(file) | {"project.version": found["version"].text or ""}
    filled = re.sub(r"\$\{([^}]+)\}", lambda name: values[name[1]], text)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{filled}\n'


def properties(file: Path) -> dict[str, str]:
    found = (one for element in elements(file) if tag(element) == "properties" for one in element)
    return {tag(one): one.text or "" for one in found}


def elements(file: Path) -> list[ElementTree.Element]:
    """Returns the elements of a pom, after those of its parent in the folder above."""
    project = ElementTree.parse(file).getroot()
    has_parent = project.find("{*}parent") is not None
    return [*(elements(file.parents[1] / "pom.xml") if has_parent else []), *project]


def tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
