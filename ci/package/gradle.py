"""The metadata of a component that Gradle reads in place of its pom.

Gradle takes the newest version of all that are named, and Maven the nearest. So Gradle is told the oldest stdlib that
will do: the newest, which Maven is told, would be more than an older compiler can read.
https://github.com/gradle/gradle/blob/master/platforms/documentation/docs/src/docs/design/gradle-module-metadata-latest-specification.md
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

#: By this Gradle knows that there is more than a pom.
MARK = "<!-- do_not_remove: published-with-gradle-metadata -->"
#: What a program is compiled with, and what it runs with, as Gradle and as Maven say it.
VARIANTS = {
    "apiElements": ("java-api", {"compile"}),
    "runtimeElements": ("java-runtime", {"compile", "runtime"}),
}


def marked(pom: str) -> str:
    return pom.replace("<modelVersion>", f"{MARK}\n  <modelVersion>", 1)


def metadata(pom: str, jar: Path, java: int, instead: Mapping[str, str]) -> str:
    """The pom as Gradle reads it, with other versions of some artifacts."""
    project = ElementTree.fromstring(pom.encode())
    variants = [
        {
            "name": name,
            "attributes": {
                "org.gradle.category": "library",
                "org.gradle.dependency.bundling": "external",
                "org.gradle.jvm.environment": "standard-jvm",
                "org.gradle.jvm.version": java,
                "org.gradle.libraryelements": "jar",
                "org.gradle.usage": usage,
                "org.jetbrains.kotlin.platform.type": "jvm",
            },
            "dependencies": dependencies(project, scopes, instead),
            "files": [file(jar)],
        }
        for name, (usage, scopes) in VARIANTS.items()
    ]
    component = {
        "group": project.findtext("{*}groupId"),
        "module": project.findtext("{*}artifactId"),
        "version": project.findtext("{*}version"),
        "attributes": {"org.gradle.status": "release"},
    }
    return json.dumps({"formatVersion": "1.1", "component": component, "variants": variants}, indent=2) + "\n"


def dependencies(project: ElementTree.Element, scopes: set[str], instead: Mapping[str, str]) -> list[dict[str, Any]]:
    found = []
    for one in project.findall("{*}dependencies/{*}dependency"):
        group, module, version, scope, optional = (
            one.findtext(f"{{*}}{name}", "") for name in ("groupId", "artifactId", "version", "scope", "optional")
        )
        if optional != "true" and (scope or "compile") in scopes:
            requires = instead.get(module, version)
            found.append({"group": group, "module": module, "version": {"requires": requires}})
    return found


def file(jar: Path) -> dict[str, Any]:
    content = jar.read_bytes()
    sums = {name: hashlib.new(name, content).hexdigest() for name in ("sha512", "sha256", "sha1", "md5")}
    return {"name": jar.name, "url": jar.name, "size": len(content)} | sums
