"""Writes the metadata of a component that Gradle reads instead of its pom.

If several versions are requested, Gradle uses the newest and Maven the nearest. Therefore the metadata request the
oldest stdlib that works. The pom requests the newest one, which an older Kotlin compiler could not read.
https://github.com/gradle/gradle/blob/master/platforms/documentation/docs/src/docs/design/gradle-module-metadata-latest-specification.md
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

#: This mark in a pom makes Gradle look for its metadata.
MARK = "<!-- do_not_remove: published-with-gradle-metadata -->"
#: The variants for compiling and for running a program: Gradle's usage, and Maven's scopes.
VARIANTS = {
    "apiElements": ("java-api", {"compile"}),
    "runtimeElements": ("java-runtime", {"compile", "runtime"}),
}


def marked(pom: str) -> str:
    return pom.replace("<modelVersion>", f"{MARK}\n  <modelVersion>", 1)


def metadata(pom: str, jar: Path, java: int, instead: Mapping[str, str]) -> str:
    """Returns Gradle's metadata for a pom, with other versions of the artifacts in `instead`."""
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
