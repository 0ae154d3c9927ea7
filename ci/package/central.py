"""The pom that Maven Central wants: it says who and where, and not how to build. ci/release signs and uploads."""

import re
from pathlib import Path
from xml.etree import ElementTree

NAMESPACE = "http://maven.apache.org/POM/4.0.0"
#: What a published pom says; the rest is how to build.
SAID = (
    *("modelVersion", "groupId", "artifactId", "version"),
    *("name", "description", "url", "licenses", "developers", "scm", "dependencies"),
)


def pom(file: Path) -> str:
    """A pom without what only its own build needs."""
    ElementTree.register_namespace("", NAMESPACE)
    project = ElementTree.parse(file).getroot()
    found = {tag(one): one for one in project}
    missing = [name for name in SAID if name not in found]
    assert not missing, f"{file} does not say its {', '.join(missing)}"
    dependencies = found["dependencies"]
    for dependency in dependencies.findall("{*}dependency"):
        if dependency.findtext("{*}scope") == "test":
            dependencies.remove(dependency)
    for element in list(project):
        if tag(element) not in SAID:
            project.remove(element)
    ElementTree.indent(project)
    text = ElementTree.tostring(project, "unicode", xml_declaration=False)
    values = properties(file)
    filled = re.sub(r"\$\{([^}]+)\}", lambda name: values[name[1]], text)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{filled}\n'


def properties(file: Path) -> dict[str, str]:
    return {tag(one): one.text or "" for one in ElementTree.parse(file).getroot().findall("{*}properties/*")}


def tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
